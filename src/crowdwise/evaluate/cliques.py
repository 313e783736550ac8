"""Find groups of workers who agree more often than their accuracy explains: they may share their mistakes.

If workers made independent errors, the agreement of two workers would follow from their skills:

    agreement[i, j] = chance + (1 - chance) skill[i] skill[j]        chance = sum over labels of their squared shares

with one skill per worker. Skills are estimated iteratively: skill[i] is the weighted median, over peers j, of the skill
that the pair implies, so that a few peers who copy each other cannot make i look skilled. A pair is suspicious if its
agreement exceeds the expected one by `MIN_EXCESS` and significantly (a normal test at `LEVEL` over all pairs).
Connected suspicious pairs form a group.

Typical causes are copied answers, one program under several names, language models of one family, people who answer
together, and spammers who all give the same label. A vote counts them as many workers, and models that learn whom to
trust mistake their agreement for skill. Pairs need `MIN_COMMON_TASKS` tasks in common and workers need `MIN_PEERS`
peers; groups of workers with fewer are not found. Tasks that are hard for everyone do not cause false alarms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

from crowdwise.answers import Answers, as_answers
from crowdwise.evaluate.metrics import Array

MIN_COMMON_TASKS, MIN_PEERS = 20, 3
MIN_EXCESS, LEVEL = 0.1, 0.01
MAX_ANSWERS = 100  # answers per task that each answer is compared with
MAX_PAIRS = 20_000_000  # pairs of answers to compare; if there are more, tasks are sampled
ROUNDS = 50
MIN_PEER_SKILL = 0.2  # agreement with less skilled peers carries hardly any information


class AlikeGroup(NamedTuple):
    """Workers who agree with each other suspiciously often."""

    workers: Array  # ids
    agreement: float  # mean share of equal answers over the suspicious pairs
    expected: float  # the same if their errors were independent


def alike(answers: Any, *, seed: int = 0) -> list[AlikeGroup]:
    """Return groups of workers who may share their mistakes, the largest first.

    Parameters
    ----------
    answers : Answers or data frame
        The answers to examine.
    seed : int
        Seed of the sample of tasks, which is only drawn if there are too many pairs of answers.

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> answers = simulate.simulate(300, n_workers=6, n_classes=3, answers_per_task=6, seed=1)
    >>> copy = Answers.from_arrays(answers.task, answers.worker + 6, answers.label)  # each worker has a copy
    >>> alike(answers), sorted(group.workers.tolist() for group in alike(answers.merge(copy)))[0]
    ([], [0, 6])
    """
    answers = as_answers(answers)
    i, j, both, same = count_worker_pairs(answers, np.random.default_rng(seed))
    enough = both >= MIN_COMMON_TASKS
    i, j, both, same = i[enough], j[enough], both[enough], same[enough]
    share = np.bincount(answers.label) / max(answers.n_answers, 1)
    chance = float(np.square(share).sum())
    if not len(i) or chance >= 1:
        return []
    beyond = (same / both - chance) / (1 - chance)  # (pairs,)
    skill = estimate_skills(i, j, both, beyond, answers.n_workers)
    expected = np.clip(chance + (1 - chance) * skill[i] * skill[j], 0.01, 0.99)
    z = (same / both - expected) / np.sqrt(expected * (1 - expected) / both)
    has_peers = np.bincount(np.concatenate([i, j]), minlength=answers.n_workers) >= MIN_PEERS
    suspicious = (
        (z > norm.isf(LEVEL / len(i))) & (beyond - skill[i] * skill[j] > MIN_EXCESS) & has_peers[i] & has_peers[j]
    )
    return group_pairs(answers, i[suspicious], j[suspicious], (same / both)[suspicious], expected[suspicious])


def count_worker_pairs(answers: Answers, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Return the two workers of each pair, the number of tasks both answered, and of equal answers: (pairs,) each."""
    count = np.minimum(np.diff(answers.task_starts), MAX_ANSWERS)
    share = MAX_PAIRS / max(int((count * (count - 1) // 2).sum()), 1)
    drawn = rng.random(answers.n_tasks) < share if share < 1 else np.ones(answers.n_tasks, bool)
    rows = np.flatnonzero(drawn[answers.task])
    task, worker, label = answers.task[rows], answers.worker[rows].astype(np.int64), answers.label[rows]
    keys, agrees = [np.empty(0, np.int64)], [np.empty(0, bool)]
    for step in range(1, int(count.max(initial=0)) + 1):  # answers to a task are adjacent
        row = np.flatnonzero(task[step:] == task[:-step])
        one, other = worker[row], worker[row + step]
        keys.append(np.minimum(one, other) * answers.n_workers + np.maximum(one, other))
        agrees.append(label[row] == label[row + step])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    both, same = np.bincount(place, minlength=len(key)), np.bincount(place, np.concatenate(agrees), minlength=len(key))
    return key // answers.n_workers, key % answers.n_workers, both, same


def estimate_skills(i: Array, j: Array, both: Array, beyond: Array, n_workers: int) -> Array:
    """Return one skill per worker, (workers,), that explains the agreement of most pairs."""
    worker, peer = np.concatenate([i, j]), np.concatenate([j, i])
    both, beyond = np.tile(both, 2), np.tile(beyond, 2)
    skill = np.full(n_workers, np.sqrt(max(np.average(beyond, weights=both), 0.01)))
    for _ in range(ROUNDS):
        implied = np.clip(beyond / np.maximum(skill[peer], MIN_PEER_SKILL), 0.0, 1.0)
        order = np.lexsort((implied, worker))  # peers of each worker together, sorted by implied skill
        weight = (both * np.square(skill[peer]) + 1e-12)[order]
        total = np.bincount(worker[order], weight, n_workers)
        before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
        half = np.cumsum(weight) - before[worker[order]] >= 0.5 * total[worker[order]]
        which, first = np.unique(worker[order][half], return_index=True)
        skill[which] = 0.5 * (
            skill[which] + implied[order][half][first]
        )  # half a step, or two workers could alternate forever
    return skill


def group_pairs(answers: Answers, i: Array, j: Array, agreement: Array, expected: Array) -> list[AlikeGroup]:
    """Return the groups of workers connected by suspicious pairs."""
    shape = (answers.n_workers, answers.n_workers)
    _, component = connected_components(coo_array((np.ones(len(i)), (i, j)), shape=shape), directed=False)
    groups = []
    for number in np.unique(component[i]).tolist():
        inside = component[i] == number
        members = answers.workers[np.flatnonzero(component == number)]
        groups.append(AlikeGroup(members, float(agreement[inside].mean()), float(expected[inside].mean())))
    return sorted(groups, key=lambda group: -len(group.workers))
