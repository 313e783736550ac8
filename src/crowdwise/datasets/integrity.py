"""The expected statistics of each data set, checked on load: a damaged copy or another version is rejected.

    python -c "from crowdwise import datasets; print(datasets.integrity.measure(datasets.load('music', check=False)))"

prints an entry of the table below. The values agree with the papers where those report them: DASC, table 1, gives
R / Rg 2.479 / 1.730 (LabelMe) and 1.753 / 1.188 (Music; the data gives 1.756 / 1.190). All data used for training or
testing is covered: truth, answers and counts by a digest, and features, which may contain float noise, by a projection.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.base import Array, Dataset
from crowdwise.errors import FormatError
from crowdwise.evaluate.metrics import imbalance_ratio

TOLERANCE = {"usps": 0.2}  # of projections; 0.001 for the others. USPS pixels may be rounded up or down


class Statistics(NamedTuple):
    """Statistics of a data set; None where one does not apply or is not checked."""

    train: int
    valid: int | None = None
    test: int | None = None
    classes: int | None = None
    shape: Mapping[str, tuple[int, ...]] | None = None  # of each array of features
    truth_imbalance: float | None = None  # Rg: tasks of the largest class / tasks of the smallest
    test_imbalance: float | None = None
    workers: int | None = None
    answers: int | None = None
    known: int | None = None  # training tasks with known truth
    answer_imbalance: float | None = None  # R: answers for the most frequent class / the least frequent
    answer_accuracy: float | None = None
    majority_vote: float | None = None  # accuracy; a tie counts as the share of tied classes that is right
    votes: int | None = None  # the sum of `extra["counts"]`
    vote_of_counts: float | None = None
    digest: Mapping[str, str] | None = None  # of the answers, whatever the workers' names, and of discrete arrays
    projection: Mapping[str, tuple[float, ...]] | None = (
        None  # a random projection of each array of features to three numbers
    )


# fmt: off
EXPECTED: dict[str, Statistics] = {
    "labelme": Statistics(
        train=1000, valid=500, test=1188, classes=8,
        shape={"X": (1000, 512), "X_valid": (500, 512), "X_test": (1188, 512)}, truth_imbalance=1.7303,
        test_imbalance=1.541, workers=59, answers=2547, known=1000, answer_imbalance=2.4802, answer_accuracy=0.7405,
        majority_vote=0.766,
        digest={"truth": "e18604f57a1d", "truth_valid": "8d6776131b45", "truth_test": "f797cd0222f0",
                "answers": "8670365f92b5"},
        projection={"X": (-4.094, 23.541, 17.489), "X_valid": (0.713, 35.859, 22.97),
                    "X_test": (7.228, 40.526, 34.097)},
    ),
    "music": Statistics(
        train=700, test=300, classes=10, shape={"X": (700, 124), "X_test": (300, 124)}, truth_imbalance=1.1905,
        test_imbalance=1.48, workers=44, answers=2945, known=700, answer_imbalance=1.7558, answer_accuracy=0.5603,
        majority_vote=0.7042,
        digest={"truth": "63bd14296598", "truth_test": "cd4badbc3cff", "answers": "d2d22f6578cb"},
        projection={"X": (2.058, -10.366, 3.874), "X_test": (4.483, -7.248, 0.305)},
    ),
    "cifar10h": Statistics(
        train=500, classes=10, shape={"X": (500, 256), "X_all": (10000, 256)}, truth_imbalance=1.5946, workers=2571,
        answers=25752, known=500, answer_imbalance=1.5385, answer_accuracy=0.9489, majority_vote=0.99, votes=511000,
        vote_of_counts=0.9921,
        digest={"truth": "76f1cf03f14a", "counts": "adfd82ab68a5", "truth_all": "f9e03ed5fea5",
                "answers": "5ee338953d66"},
        projection={"X": (14.308, 44.212, 48.046), "X_all": (32.343, 50.957, 82.889)},
    ),
    "cifar10n": Statistics(
        train=50000, classes=10, shape={"X_first": (10000, 256)}, truth_imbalance=1.0, workers=747, answers=150000,
        known=50000, answer_imbalance=1.2449, answer_accuracy=0.8233, majority_vote=0.9118,
        digest={"truth": "84c70eb34488", "answers": "1ad525cdbdae"},
        projection={"X_first": (37.567, 47.626, 83.905)},
    ),
    "product": Statistics(
        train=8315, classes=2, shape={"X": (8315, 12)}, truth_imbalance=7.2245, workers=176, answers=24945, known=8315,
        answer_imbalance=3.8806, answer_accuracy=0.8163, majority_vote=0.8966,
        digest={"truth": "bc183cf89b98", "names": "5d686c66f3c6", "answers": "2b7b88e363f5"},
        projection={"X": (7.204, 7.866, -1.126)},
    ),
    "usps": Statistics(
        train=9298, classes=10, shape={"X": (9298, 256)}, truth_imbalance=2.1935,
        digest={"truth": "b83d36a67dc8"},
        projection={"X": (56.122, 87.711, 129.348)},
    ),
    "gas_drift": Statistics(
        train=6697, classes=6, shape={"X": (6697, 128), "concentration": (6697,)}, truth_imbalance=3.0051,
        digest={"truth": "3289b864fa10", "batch": "9da9f040e2e2"},
        projection={"X": (5.338, -20.108, 86.343), "concentration": (9.359, -7.679, 7.882)},
    ),
    "dogs_vs_cats": Statistics(train=10000, classes=2, truth_imbalance=1.0, digest={"truth": "2baaaeb9290b"}),
    "truth/bluebird": Statistics(
        train=108, classes=2, truth_imbalance=1.25, workers=39, answers=4212, known=108, answer_imbalance=1.6374,
        answer_accuracy=0.6356, majority_vote=0.7593,
        digest={"truth": "8c69e7a5768e", "answers": "34a97ccda785"},
    ),
    "truth/d_possent": Statistics(
        train=1000, classes=2, truth_imbalance=1.1186, workers=85, answers=20000, known=1000, answer_imbalance=1.0082,
        answer_accuracy=0.6865, majority_vote=0.9335,
        digest={"truth": "c92649779b54", "answers": "668cd636fd0c"},
    ),
    "truth/dog": Statistics(
        train=807, classes=4, truth_imbalance=1.3488, workers=109, answers=8070, known=807, answer_imbalance=1.3561,
        answer_accuracy=0.6964, majority_vote=0.8222,
        digest={"truth": "4bea2b7f08f7", "answers": "88b70b249b42"},
    ),
    "truth/face": Statistics(
        train=584, classes=4, truth_imbalance=1.0, workers=27, answers=5242, known=584, answer_imbalance=2.8115,
        answer_accuracy=0.5862, majority_vote=0.6367,
        digest={"truth": "a8ebbb09a13e", "answers": "1b6f6094d33c"},
    ),
    "truth/fej2013": Statistics(
        train=576, classes=3, truth_imbalance=27.9474, workers=48, answers=2902, known=576, answer_imbalance=839.3333,
        answer_accuracy=0.8949, majority_vote=0.9019,
        digest={"truth": "e8d2719e367c", "answers": "2b6a93cd46e6"},
    ),
    "truth/leaves": Statistics(
        train=384, classes=6, shape={"X": (384, 64)}, truth_imbalance=2.0, workers=83, answers=3840, known=384,
        answer_imbalance=3.8562, answer_accuracy=0.5503, majority_vote=0.6428,
        digest={"truth": "3e6720709baa", "answers": "9c6e5932bfd0"},
        projection={"X": (-1.049, -6.421, 0.957)},
    ),
    "truth/rte": Statistics(
        train=800, classes=2, truth_imbalance=1.0, workers=164, answers=8000, known=800, answer_imbalance=1.3399,
        answer_accuracy=0.7291, majority_vote=0.8969,
        digest={"truth": "1c6d5d4066ff", "answers": "5243ccb703dc"},
    ),
    "truth/s_rel": Statistics(
        train=20232, classes=4, truth_imbalance=1.7393, workers=766, answers=96883, known=4460, answer_imbalance=5.4635,
        answer_accuracy=0.4396, majority_vote=0.5412,
        digest={"truth": "0a97ad1849b9", "answers": "dcef44051a48"},
    ),
    "truth/weather_cf": Statistics(
        train=300, classes=5, truth_imbalance=10.2222, workers=461, answers=1720, known=300, answer_imbalance=6.191,
        answer_accuracy=0.7657, majority_vote=0.8822,
        digest={"truth": "ce3431ba1db7", "answers": "c2d7fda44dca"},
    ),
    "truth/web": Statistics(
        train=2665, classes=5, truth_imbalance=2.0879, workers=177, answers=15567, known=2653, answer_imbalance=2.8854,
        answer_accuracy=0.5515, majority_vote=0.7307,
        digest={"truth": "9433e40ab22a", "answers": "3e9ab99f6ed5"},
    ),
    "truth/zencrowd_us": Statistics(
        train=2040, classes=2, truth_imbalance=3.605, workers=74, answers=11155, known=2040, answer_imbalance=2.7903,
        answer_accuracy=0.7686, majority_vote=0.862,
        digest={"truth": "eabccaa23ca6", "answers": "f795ec3fe910"},
    ),
    "digits": Statistics(train=738, classes=10, shape={"X": (738, 64)}, workers=40, answers=1845, known=738),
}
# fmt: on


def measure(data: Dataset) -> Statistics:
    """Return the statistics of a data set, in time linear in its answers and features."""
    sizes, known = data.sizes, data.truth
    names = ("truth", "truth_valid", "truth_test", "X", "X_valid", "X_test")
    arrays = {name: getattr(data, name) for name in names} | dict(data.extra)
    features = {name: array for name, array in arrays.items() if array is not None and array.dtype.kind == "f"}
    others = {name: array for name, array in arrays.items() if array is not None and name not in features}
    digest = {name: _digest(array.tolist()) for name, array in others.items()}
    further: dict[str, Any] = _count_statistics(data) if "counts" in data.extra else {}
    if data.answers is not None and data.answers.truth is not None:
        known = data.answers.truth[data.answers.truth >= 0]
        digest["answers"] = _answers_digest(data.answers)
        further |= _answer_statistics(data.answers, data.answers.truth)
    return Statistics(
        train=sizes["train"],
        valid=sizes.get("valid"),
        test=sizes.get("test"),
        classes=len(data.classes),
        shape={name: X.shape for name, X in features.items()},
        truth_imbalance=_imbalance(known),
        test_imbalance=_imbalance(data.truth_test),
        digest=digest,
        projection={name: _projection(X) for name, X in features.items()},
        **further,
    )


def check(data: Dataset, where: str) -> None:
    """Reject a data set that differs from the expected one; `where` names its folder in the error."""
    measured = dict(_items(measure(data)))
    for name, expected in _items(EXPECTED[data.name]):
        value: Any = measured.get(name)
        projected = name.startswith("projection")
        tolerance = TOLERANCE.get(data.name, 1e-3) if projected else 1e-4
        inexact = value is not None and (projected or isinstance(expected, float))
        if not (np.allclose(value, expected, rtol=0, atol=tolerance) if inexact else value == expected):
            message = (
                f"{data.name} in {where} is not the expected data: {name} is {value}, expected {expected}. A file was "
                f"changed or has another version. Replace the folder with an intact copy, or delete it and download it "
                f"again. check=False skips this check."
            )
            raise FormatError(message)


def _items(statistics: Statistics) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each statistic that is set, those of arrays one by one."""
    for field, value in statistics._asdict().items():
        name = field.replace("_", " ")
        if isinstance(value, Mapping):
            yield from ((f"{name} of {array}", one) for array, one in value.items())
        elif value is not None:
            yield name, value


def _answer_statistics(answers: Answers, truth: Array) -> dict[str, Any]:
    votes = np.zeros((answers.n_tasks, answers.n_classes), np.int32)
    np.add.at(votes, (answers.task, answers.label), 1)
    most = (votes == votes.max(axis=1, keepdims=True)) & (votes.max(axis=1, keepdims=True) > 0)  # (tasks, classes)
    known = np.flatnonzero(truth >= 0)
    scored = truth[answers.task] >= 0
    return {
        "workers": answers.n_workers,
        "answers": answers.n_answers,
        "known": len(known),
        "answer_imbalance": _imbalance(answers.label),
        "answer_accuracy": _rounded((answers.label == truth[answers.task])[scored].mean()),
        "majority_vote": _rounded((most[known, truth[known]] / np.maximum(most[known].sum(axis=1), 1)).mean()),
    }


def _count_statistics(data: Dataset) -> dict[str, Any]:
    counts = data.extra["counts"]
    most = counts == counts.max(axis=1, keepdims=True)  # (tasks, classes)
    right = most & (data.extra["truth_all"][:, None] == data.classes)
    return {"votes": int(counts.sum()), "vote_of_counts": _rounded((right.sum(axis=1) / most.sum(axis=1)).mean())}


def _digest(*content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def _answers_digest(answers: Answers) -> str:
    """Return a digest that changes with any answer and its worker, but not with the names or order of workers."""
    code = (
        _random_integers("task", answers.n_tasks)[answers.task]
        * _random_integers("class", answers.n_classes)[answers.label]
    )
    total = np.zeros(answers.n_workers, np.uint64)  # sum over the worker's answers, modulo 2^64
    np.add.at(total, answers.worker, code)
    return _digest(answers.classes.tolist(), np.sort(total).tolist())


def _projection(X: Array) -> tuple[float, ...]:
    """Return three numbers that change when rows or columns are swapped, scaled or lost, but hardly with float noise.

        sum_j b_jk (sum_i a_i x_ij / |x_j| + log |x_j|),    k = 1, 2, 3

    with fixed random a and b. All columns have the same influence, whatever their units.
    """
    X = X.reshape(len(X), math.prod(X.shape[1:])).astype(np.float64)  # (tasks, features)
    a = _random_integers("row", len(X)) / 2.0**63 - 1  # (tasks,) from -1 to 1
    b = (_random_integers("column", 3 * X.shape[1]) / 2.0**63 - 1).reshape(-1, 3)  # (features, 3)
    with np.errstate(invalid="ignore", over="ignore"):  # non-finite values give nan, which equals nothing
        size = np.sqrt(np.einsum("ij,ij->j", X, X))
        size[size == 0] = 1.0
        return tuple(((a @ X / size + np.log(size)) @ b).round(3).tolist())


def _random_integers(what: str, n: int) -> Array:
    """Return fixed random 64-bit integers: the same on every machine, different for each `what`."""
    return np.frombuffer(hashlib.shake_128(what.encode()).digest(8 * n), "<u8")


def _imbalance(truth: Array | None) -> float | None:
    return None if truth is None else _rounded(imbalance_ratio(np.unique(truth, return_counts=True)[1]))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)
