"""Ordinal GLAD: `OrdinalDawidSkene` in which tasks differ in difficulty, as in Whitehill et al. (2009).

    perceived[a] = position + spread[w] * difficulty[t] * noise,  difficulty[t] one of DIFFICULTIES
    P(position = x, difficulty = d) = shares[x, d]

Likelihood, priors and steps are those of `OrdinalDawidSkene`, with a state for each pair of position and difficulty.
So the difficulty of a task is averaged over rather than estimated from its few answers. GLAD's other half, the
ability of a worker, is their `spread`.

Whitehill et al., "Whose vote should count more", NIPS 2009, is for unordered classes. With fewer than about five
answers per task, the answers hardly tell a hard task from an unlucky one.
"""

from __future__ import annotations

import numpy as np

from crowdwise.kinds.ratings.methods.ordinal import NODES, OrdinalDawidSkene, Parameters, Work
from crowdwise.truth.base import Array

DIFFICULTIES = (0.5, 1.0, 2.0)


class OrdinalGLAD(OrdinalDawidSkene):
    """Workers as in `OrdinalDawidSkene`, and tasks on which all of them are more or less precise.

    Parameters
    ----------
    max_iter, tol, n_init, warm_start, random_state
        As in `OrdinalDawidSkene`.

    Attributes
    ----------
    difficulty_ : (tasks,) array
        Expected factor by which the noise on each task is larger than on an average one.
    bias_, spread_, cuts_, level_prior_
        As in `OrdinalDawidSkene`.

    Examples
    --------
    >>> from crowdwise import OrdinalGLAD, Ratings
    >>> rows = [(t, w, t % 5 + 1 if t else w % 5 + 1) for t in range(40) for w in range(6)]
    >>> model = OrdinalGLAD().fit(Ratings.from_arrays(*zip(*rows)))
    >>> int(model.difficulty_.argmax())
    0
    """

    difficulties = DIFFICULTIES
    difficulty_: Array

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        states = self._states(work, parameters)
        by_difficulty = states.reshape(len(states), -1, NODES).sum(axis=2)  # (tasks, difficulties)
        self.difficulty_ = by_difficulty @ np.array(self.difficulties)
        return self._levels_of(states, parameters)
