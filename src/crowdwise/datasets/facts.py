"""What each data set must look like, asserted on load: a copy that is damaged, or another version, is refused.

    python -c "from crowdwise import datasets; print(datasets.facts.measure(datasets.load('music', check=False)))"

prints a line of the table below. The figures agree with the papers' where those have any: DASC, table 1, gives R / Rg
2.479 / 1.730 (LabelMe) and 1.753 / 1.188 (Music; the data gives 1.756 / 1.190).
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.base import Array, Dataset
from crowdwise.errors import FormatError
from crowdwise.evaluate.metrics import imbalance_ratio


class Facts(NamedTuple):
    """Figures of a data set; None where there is none, or where it is not asserted."""

    train: int
    valid: int | None = None
    test: int | None = None
    classes: int | None = None
    features: int | None = None  # of X, or of what `extra` has in its place
    feature_mean: float | None = None
    feature_sd: float | None = None
    truth_imbalance: float | None = None  # Rg: tasks of the largest class over those of the smallest
    test_imbalance: float | None = None
    workers: int | None = None
    answers: int | None = None
    known: int | None = None  # training tasks of known truth
    answer_imbalance: float | None = None  # R: answers for the class named most over those for the one named least
    answer_accuracy: float | None = None
    majority_vote: float | None = None  # accuracy; ties count as the share of tied classes that is right
    votes: int | None = None  # all that `extra["counts"]` counts
    vote_of_counts: float | None = None
    content: str | None = None  # of answers and truth, whatever the workers are called


# fmt: off
FACTS: dict[str, Facts] = {
    "labelme": Facts(
        train=1000, valid=500, test=1188, classes=8, features=512, feature_mean=1.1025, feature_sd=2.8239,
        truth_imbalance=1.7303, test_imbalance=1.541, workers=59, answers=2547, known=1000, answer_imbalance=2.4802,
        answer_accuracy=0.7405, majority_vote=0.766, content="3caca8cbec746797",
    ),
    "music": Facts(
        train=700, test=300, classes=10, features=124, feature_mean=-0.0422, feature_sd=4.4805,
        truth_imbalance=1.1905, test_imbalance=1.48, workers=44, answers=2945, known=700, answer_imbalance=1.7558,
        answer_accuracy=0.5603, majority_vote=0.7042, content="43d6a4ca45da664c",
    ),
    "cifar10h": Facts(
        train=500, classes=10, features=256, feature_mean=-0.0078, feature_sd=3.1117, truth_imbalance=1.5946,
        workers=2571, answers=25752, known=500, answer_imbalance=1.5385, answer_accuracy=0.9489, majority_vote=0.99,
        votes=511000, vote_of_counts=0.9921, content="7be5f5b8c6564449",
    ),
    "cifar10n": Facts(
        train=50000, classes=10, features=256, feature_mean=-0.0017, feature_sd=3.0935, truth_imbalance=1.0,
        workers=747, answers=150000, known=50000, answer_imbalance=1.2449, answer_accuracy=0.8233,
        majority_vote=0.9118, content="e24b037320b958b5",
    ),
    "product": Facts(
        train=8315, classes=2, features=12, feature_mean=1.7805, feature_sd=5.7422, truth_imbalance=7.2245,
        workers=176, answers=24945, known=8315, answer_imbalance=3.8806, answer_accuracy=0.8163,
        majority_vote=0.8966, content="afe59d70e5f4b8f7",
    ),
    "usps": Facts(
        train=9298, classes=10, features=256, feature_mean=64.2842, feature_sd=77.1627, truth_imbalance=2.1935,
        content="194f61acd2000b02",
    ),
    "gas_drift": Facts(
        train=6697, classes=6, features=128, feature_mean=3248.8016, feature_sd=16610.4227, truth_imbalance=3.0051,
        content="f04035934d7babf1",
    ),
    "dogs_vs_cats": Facts(train=10000, classes=2, truth_imbalance=1.0, content="0f0a1cb127d451b6"),
    "truth/bluebird": Facts(
        train=108, classes=2, truth_imbalance=1.25, workers=39, answers=4212, known=108, answer_imbalance=1.6374,
        answer_accuracy=0.6356, majority_vote=0.7593, content="5ff7ef5fa3a2050e",
    ),
    "truth/d_possent": Facts(
        train=1000, classes=2, truth_imbalance=1.1186, workers=85, answers=20000, known=1000,
        answer_imbalance=1.0082, answer_accuracy=0.6865, majority_vote=0.9335, content="e1eaa2fd5d659037",
    ),
    "truth/dog": Facts(
        train=807, classes=4, truth_imbalance=1.3488, workers=109, answers=8070, known=807, answer_imbalance=1.3561,
        answer_accuracy=0.6964, majority_vote=0.8222, content="129d7d233826b1a0",
    ),
    "truth/face": Facts(
        train=584, classes=4, truth_imbalance=1.0, workers=27, answers=5242, known=584, answer_imbalance=2.8115,
        answer_accuracy=0.5862, majority_vote=0.6367, content="8fcf61478a3b9093",
    ),
    "truth/fej2013": Facts(
        train=576, classes=3, truth_imbalance=27.9474, workers=48, answers=2902, known=576,
        answer_imbalance=839.3333, answer_accuracy=0.8949, majority_vote=0.9019, content="20edc363ff70182f",
    ),
    "truth/leaves": Facts(
        train=384, classes=6, features=64, feature_mean=0.0156, feature_sd=0.0189, truth_imbalance=2.0, workers=83,
        answers=3840, known=384, answer_imbalance=3.8562, answer_accuracy=0.5503, majority_vote=0.6428,
        content="c7eb3c1b8ec9de9b",
    ),
    "truth/rte": Facts(
        train=800, classes=2, truth_imbalance=1.0, workers=164, answers=8000, known=800, answer_imbalance=1.3399,
        answer_accuracy=0.7291, majority_vote=0.8969, content="679b108e13042e4b",
    ),
    "truth/s_rel": Facts(
        train=20232, classes=4, truth_imbalance=1.7393, workers=766, answers=96883, known=4460,
        answer_imbalance=5.4635, answer_accuracy=0.4396, majority_vote=0.5412, content="02693a26345db3c1",
    ),
    "truth/weather_cf": Facts(
        train=300, classes=5, truth_imbalance=10.2222, workers=461, answers=1720, known=300, answer_imbalance=6.191,
        answer_accuracy=0.7657, majority_vote=0.8822, content="b38ec27c756fc886",
    ),
    "truth/web": Facts(
        train=2665, classes=5, truth_imbalance=2.0879, workers=177, answers=15567, known=2653,
        answer_imbalance=2.8854, answer_accuracy=0.5515, majority_vote=0.7307, content="9e5ff90ec056c05a",
    ),
    "truth/zencrowd_us": Facts(
        train=2040, classes=2, truth_imbalance=3.605, workers=74, answers=11155, known=2040, answer_imbalance=2.7903,
        answer_accuracy=0.7686, majority_vote=0.862, content="240deaa9f5d1fb28",
    ),
    "digits": Facts(train=738, classes=10, features=64, workers=40, answers=1845, known=738),
    "gaussian": Facts(
        train=1000, test=1000, classes=2, features=2, workers=5, answers=5000, known=1000,
    ),
}
# fmt: on


def measure(data: Dataset) -> Facts:
    """The figures of a data set, in time linear in its answers and features."""
    sizes = data.sizes
    X = next((x for x in (data.X, data.extra.get("X_first")) if x is not None), None)
    truth = data.answers.truth if data.answers is not None else _codes(data.truth, data.classes)
    assert truth is not None
    facts = Facts(
        train=len(truth),
        valid=sizes.get("valid"),
        test=sizes.get("test"),
        classes=len(data.classes),
        features=None if X is None else X.shape[1],
        feature_mean=None if X is None else _rounded(X.mean(dtype=np.float64)),
        feature_sd=None if X is None else _rounded(X.std(dtype=np.float64)),
        truth_imbalance=_rounded(imbalance_ratio(np.bincount(truth[truth >= 0]))),
        test_imbalance=_rounded(imbalance_ratio(np.bincount(_codes(data.truth_test, data.classes)))),
        content=_content(data.answers, truth, data.classes),
    )
    if "counts" in data.extra:
        facts = facts._replace(**_of_counts(data))
    return facts if data.answers is None else facts._replace(**_of_answers(data.answers, truth))


def check(data: Dataset, where: str) -> None:
    """Refuse a data set that is not what it should be; `where` says in a message where it came from."""
    expected, found = FACTS[data.name], measure(data)
    for figure, should_be, is_now in zip(Facts._fields, expected, found, strict=True):
        same = should_be == is_now
        if isinstance(should_be, float) and isinstance(is_now, float):
            of_features = figure.startswith("feature_")
            near = 0.01 * (expected.feature_sd or 1.0) if of_features else 1e-4  # pixels may be rounded either way
            same = abs(should_be - is_now) <= near
        if should_be is not None and not same:
            message = (
                f"{data.name} in {where} is not the data it should be: {figure.replace('_', ' ')} is {is_now}, "
                f"expected {should_be}. A file was changed or is of another version: replace the folder by a whole "
                f"copy, or delete it and fetch it again. check=False takes it as it is."
            )
            raise FormatError(message)


def _of_answers(answers: Answers, truth: Array) -> dict[str, Any]:
    votes = np.zeros((answers.n_tasks, answers.n_classes), np.int32)
    np.add.at(votes, (answers.task, answers.label), 1)
    most = (votes == votes.max(axis=1, keepdims=True)) & (votes.max(axis=1, keepdims=True) > 0)  # (tasks, classes)
    known = np.flatnonzero(truth >= 0)
    of_known = truth[answers.task] >= 0
    return {
        "workers": answers.n_workers,
        "answers": answers.n_answers,
        "known": len(known),
        "answer_imbalance": _rounded(imbalance_ratio(np.bincount(answers.label))),
        "answer_accuracy": _rounded((answers.label == truth[answers.task])[of_known].mean()),
        "majority_vote": _rounded((most[known, truth[known]] / np.maximum(most[known].sum(axis=1), 1)).mean()),
    }


def _of_counts(data: Dataset) -> dict[str, Any]:
    counts, truth = data.extra["counts"], _codes(data.extra["truth_all"], data.classes)
    most = counts == counts.max(axis=1, keepdims=True)  # (tasks, classes)
    right = most[np.arange(len(truth)), truth] / most.sum(axis=1)
    return {"votes": int(counts.sum()), "vote_of_counts": _rounded(right.mean())}


def _content(answers: Answers | None, truth: Array, classes: Array) -> str:
    """A digest that changes with any answer or true class, but not with the names or the order of workers."""
    digest = hashlib.sha256(repr([str(c) for c in classes.tolist()]).encode())
    digest.update(truth.astype("<i4").tobytes())
    if answers is not None:
        order = np.lexsort((answers.label, answers.task))
        per_worker = np.sort(np.diff(answers.worker_starts))
        for part in (answers.task[order], answers.label[order], per_worker):
            digest.update(part.astype("<i4").tobytes())
    return digest.hexdigest()[:16]


def _codes(truth: Array | None, classes: Array) -> Array:
    """Positions of known classes in the table, in whatever order it is."""
    if truth is None:
        return np.empty(0, np.int64)
    order = np.argsort(classes)
    return order[np.searchsorted(classes, truth, sorter=order)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
