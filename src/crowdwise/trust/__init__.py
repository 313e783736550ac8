"""May this number be believed? Confidence, dependence between workers, and estimates with intervals.

    calibrator      confidence learned from crowds whose truth is known: `calibrated`, the entry point
    features        what the answers show about each label and about the crowd, the inputs of the calibrator
    gold            rescale confidence on known labels
    gold_anchor     what known labels say about workers and classes, for the labels of all other tasks
    shared_errors   correlated mistakes, families of workers, the effective number of votes: `dependence`
    families        groups of workers whose agreement goes beyond being right
    copies          groups of workers who give identical answers
    independent_votes   answers in which workers who repeat each other count once
    gold_plan       which tasks a person should label: `plan_gold`
    gold_design     how gold tasks were drawn, as columns of the gold file
    gold_sample     the weights that follow from it
    estimates       class shares and accuracies with intervals from gold and labels together: `estimate`
    ppi             prediction-powered inference, the formulas behind `estimates`
    panel           who is how good, who shares mistakes, whom a panel can lose: `panel`
    redundancy      the labels of a panel without some of its workers
    alternative_annotator   may this language model replace a person: `alternative_annotator_test`

>>> import crowdwise as cw
>>> answers = cw.simulate.simulate(300, n_classes=2)
>>> len(cw.trust.dependence(answers).effective_votes)
300
"""

from crowdwise.trust.alternative_annotator import (
    AlternativeAnnotatorTest,
    PersonComparison,
    alternative_annotator_test,
)
from crowdwise.trust.calibrator import Calibrated, Calibrator, calibrated
from crowdwise.trust.estimates import TrustEstimates, estimate
from crowdwise.trust.gold import Scaling, platt_scaling
from crowdwise.trust.gold_plan import ExpectedInterval, GoldPlan, plan_gold
from crowdwise.trust.panel import Member, Panel, panel
from crowdwise.trust.ppi import Interval, IntervalEstimate, ppi_mean
from crowdwise.trust.redundancy import Removal
from crowdwise.trust.shared_errors import Dependence, Family, dependence

__all__ = [
    "AlternativeAnnotatorTest",
    "Calibrated",
    "Calibrator",
    "Dependence",
    "ExpectedInterval",
    "Family",
    "GoldPlan",
    "Interval",
    "IntervalEstimate",
    "Member",
    "Panel",
    "PersonComparison",
    "Removal",
    "Scaling",
    "TrustEstimates",
    "alternative_annotator_test",
    "calibrated",
    "dependence",
    "estimate",
    "panel",
    "plan_gold",
    "platt_scaling",
    "ppi_mean",
]
