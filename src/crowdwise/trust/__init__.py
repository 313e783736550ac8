"""May this number be believed? Workers who make the same mistakes, and the number of independent votes behind a label.

>>> import crowdwise as cw
>>> answers = cw.simulate.simulate(300, n_classes=2)
>>> len(cw.trust.dependence(answers).effective_votes)
300
"""

from crowdwise.trust.dependence import Dependence, Family, dependence

__all__ = ["Dependence", "Family", "dependence"]
