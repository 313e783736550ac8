"""Workers who agree with each other more than they could by being right: they may share their mistakes.

If workers erred independently, two of them would agree as often as their skills say:

    agreement[i, j] = chance + (1 - chance) skill[i] skill[j]        chance = sum over labels of their squared shares

with one skill for each worker. Skills are found by turns, skill[i] the weighted median over peers j of what the pair
says, so that a few peers who copy each other cannot make i look skilled. A pair stands out whose agreement lies above
this by `EXCESS` and by more than chance (a normal test at `LEVEL`, over all pairs); pairs that hang together make a
group.

Copies, one program under several names, language models of one family, people who sit together, spammers who all say
the same: a vote counts them as many, and models that learn whom to trust take their agreement for skill. Pairs need
`LEAST` tasks in common and workers `PEERS` peers: where a worker shares few tasks with any other, nothing is seen.
Tasks that are hard for all raise agreement everywhere and are not mistaken for copies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import norm

from crowdwise.answers import Answers
from crowdwise.evaluate.metrics import Array

LEAST, PEERS = 20, 3
EXCESS, LEVEL = 0.1, 0.01
NEXT = 100  # answers of a task that each is compared with
MOST = 20_000_000  # pairs of answers that are looked at; of more, tasks are drawn at random
ROUNDS = 50
WEAK = 0.2  # a peer of less skill says next to nothing of others


class AlikeGroup(NamedTuple):
    """Workers who agree with each other suspiciously."""

    workers: Array  # ids
    agreement: float  # mean share of equal answers over the pairs that stand out
    expected: float  # the same if they erred independently


def alike(answers: Answers, *, seed: int = 0) -> list[AlikeGroup]:
    """Groups of workers who may share their mistakes, the largest first.

    Parameters
    ----------
    answers : Answers
    seed : int
        Of the tasks that are drawn where there are too many pairs.

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> answers = simulate.simulate(300, n_workers=6, n_classes=3, answers_per_task=6, seed=1)
    >>> copy = Answers.from_arrays(answers.task, answers.worker + 6, answers.label)  # everybody has a twin
    >>> alike(answers), sorted(group.workers.tolist() for group in alike(answers.merge(copy)))[0]
    ([], [0, 6])
    """
    i, j, both, same = pairs(answers, np.random.default_rng(seed))
    enough = both >= LEAST
    i, j, both, same = i[enough], j[enough], both[enough], same[enough]
    share = np.bincount(answers.label) / max(answers.n_answers, 1)
    chance = float(np.square(share).sum())
    if not len(i) or chance >= 1:
        return []
    beyond = (same / both - chance) / (1 - chance)  # (pairs,)
    skill = skills(i, j, both, beyond, answers.n_workers)
    expected = np.clip(chance + (1 - chance) * skill[i] * skill[j], 0.01, 0.99)
    z = (same / both - expected) / np.sqrt(expected * (1 - expected) / both)
    known = np.bincount(np.concatenate([i, j]), minlength=answers.n_workers) >= PEERS
    out = (z > norm.isf(LEVEL / len(i))) & (beyond - skill[i] * skill[j] > EXCESS) & known[i] & known[j]
    return groups(answers, i[out], j[out], (same / both)[out], expected[out])


def pairs(answers: Answers, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Pairs of workers (pairs,) each, tasks both answered, and how many of them alike."""
    count = np.minimum(np.diff(answers.task_starts), NEXT)
    share = MOST / max(int((count * (count - 1) // 2).sum()), 1)
    drawn = rng.random(answers.n_tasks) < share if share < 1 else np.ones(answers.n_tasks, bool)
    rows = np.flatnonzero(drawn[answers.task])
    task, worker, label = answers.task[rows], answers.worker[rows].astype(np.int64), answers.label[rows]
    keys, agrees = [np.empty(0, np.int64)], [np.empty(0, bool)]
    for step in range(1, int(count.max(initial=0)) + 1):  # answers of a task stand together
        at = np.flatnonzero(task[step:] == task[:-step])
        one, other = worker[at], worker[at + step]
        keys.append(np.minimum(one, other) * answers.n_workers + np.maximum(one, other))
        agrees.append(label[at] == label[at + step])
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    both, same = np.bincount(place, minlength=len(key)), np.bincount(place, np.concatenate(agrees), minlength=len(key))
    return key // answers.n_workers, key % answers.n_workers, both, same


def skills(i: Array, j: Array, both: Array, beyond: Array, n_workers: int) -> Array:
    """One skill a worker, (workers,), under which most pairs agree as they do."""
    worker, peer = np.concatenate([i, j]), np.concatenate([j, i])
    both, beyond = np.tile(both, 2), np.tile(beyond, 2)
    skill = np.full(n_workers, np.sqrt(max(np.average(beyond, weights=both), 0.01)))
    for _ in range(ROUNDS):
        says = np.clip(beyond / np.maximum(skill[peer], WEAK), 0.0, 1.0)
        order = np.lexsort((says, worker))  # each worker's peers together, the lowest first
        weight = (both * np.square(skill[peer]) + 1e-12)[order]
        total = np.bincount(worker[order], weight, n_workers)
        before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
        half = np.cumsum(weight) - before[worker[order]] >= 0.5 * total[worker[order]]
        which, first = np.unique(worker[order][half], return_index=True)
        skill[which] = 0.5 * (skill[which] + says[order][half][first])  # half way, or two workers could swap for ever
    return skill


def groups(answers: Answers, i: Array, j: Array, agreement: Array, expected: Array) -> list[AlikeGroup]:
    """Pairs that hang together, as groups."""
    shape = (answers.n_workers, answers.n_workers)
    _, part = connected_components(coo_array((np.ones(len(i)), (i, j)), shape=shape), directed=False)
    found = []
    for number in np.unique(part[i]).tolist():
        inside = part[i] == number
        members = answers.workers[np.flatnonzero(part == number)]
        found.append(AlikeGroup(members, float(agreement[inside].mean()), float(expected[inside].mean())))
    return sorted(found, key=lambda group: -len(group.workers))
