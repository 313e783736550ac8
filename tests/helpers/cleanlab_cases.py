"""Cases to run with cleanlab (generate_expected_cleanlab.py) and with our drop-in (test_cleanlab.py)."""

import numpy as np
import pandas as pd


def crowd(n_tasks, n_workers, n_classes, seed, answered=0.4, rounding=None):
    """Return a wide array of labels (NaN: no label) and class probabilities; rounded ones have ties."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_tasks)
    skill = rng.uniform(0.3, 0.95, n_workers)
    right = rng.random((n_tasks, n_workers)) < skill
    labels = np.where(right, truth[:, None], rng.integers(n_classes, size=(n_tasks, n_workers))).astype(float)
    answered = rng.random(labels.shape) < answered
    answered[np.arange(n_tasks), rng.integers(n_workers, size=n_tasks)] = True
    answered[rng.integers(n_tasks, size=n_workers), np.arange(n_workers)] = True
    labels[~answered] = np.nan
    proba = rng.dirichlet(np.ones(n_classes), n_tasks) + 2 * np.eye(n_classes)[truth] * rng.random((n_tasks, 1))
    proba /= proba.sum(axis=1, keepdims=True)
    if rounding is not None:  # ties that cleanlab does not break at random
        proba = np.maximum(np.round(proba, rounding), 0.1)
        proba /= proba.sum(axis=1, keepdims=True)
    return labels, proba


def frame(labels):
    """Return the labels as a frame with names."""
    names = [f"ann {i}" for i in range(labels.shape[1])][::-1]
    return pd.DataFrame(labels, columns=names, index=[f"ex{i}" for i in range(len(labels))])


def lonely():
    """Return labels where annotator 1 shares no example with others, and class 2 is never the consensus."""
    nan = np.nan
    labels = np.array([[0, nan, 0, 0], [1, nan, 1, 2], [nan, 1, nan, nan], [nan, 0, nan, nan], [0, nan, 1, nan]])
    proba = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3]])
    return labels, proba


DATA = {
    "two classes": crowd(12, 5, 2, 0),
    "four classes": crowd(14, 8, 4, 1),
    "sparse": crowd(14, 9, 3, 2, answered=0.1),
    "ties": crowd(20, 4, 3, 3, rounding=0),
    "lonely": lonely(),
    "certain": (crowd(10, 4, 3, 4)[0], np.eye(3)[np.random.default_rng(4).integers(3, size=10)]),
}
UNLABELED = {name: crowd(7, 3, proba.shape[1], 9)[1] for name, (_, proba) in DATA.items()}


def cases():
    """Return name -> (data, arguments of get_label_quality_multiannotator)."""
    variants = {
        "weights": {"return_weights": True},
        "vote": {"consensus_method": "majority_vote", "return_weights": True},
        "both": {"consensus_method": ["majority_vote", "best_quality"], "return_weights": True},
        "agreement": {"quality_method": "agreement"},
        "calibrated": {"calibrate_probs": True, "return_weights": True},
        "margin": {"label_quality_score_kwargs": {"method": "normalized_margin"}},
        "margin without details": {
            "label_quality_score_kwargs": {"method": "normalized_margin"},
            "return_detailed_quality": False,
        },
        "entropy": {"label_quality_score_kwargs": {"method": "confidence_weighted_entropy"}},
        "adjusted": {"label_quality_score_kwargs": {"adjust_pred_probs": True}},
        "without details": {"return_detailed_quality": False},
        "without annotators": {"return_annotator_stats": False},
    }
    found = {f"{data}, defaults": (data, {}) for data in DATA}
    for data in ("four classes", "ties"):
        found |= {f"{data}, {name}": (data, arguments) for name, arguments in variants.items()}
    return found


def run_quality(function, name):
    """Return the described results of a case."""
    data, arguments = cases()[name]
    labels, proba = DATA[data]
    results = function(frame(labels), proba.copy(), verbose=False, **arguments)
    return {key: describe(value) for key, value in results.items()}


def run_active(function, data):
    """Return the scores for labelled and unlabelled examples, together and apart, and with single labels."""
    labels, proba = DATA[data]
    single = np.full_like(labels, np.nan)
    first = (~np.isnan(labels)).argmax(axis=1)
    single[np.arange(len(labels)), first] = labels[np.arange(len(labels)), first]
    single = single[:, ~np.isnan(single).all(axis=0)]
    return {
        "all": [scores.tolist() for scores in function(frame(labels), proba.copy(), UNLABELED[data].copy())],
        "labelled": [scores.tolist() for scores in function(labels, proba.copy())],
        "unlabelled": [scores.tolist() for scores in function(pred_probs_unlabeled=UNLABELED[data].copy())],
        "single": [scores.tolist() for scores in function(single, proba.copy(), UNLABELED[data].copy())],
    }


def describe(value):
    """Return a result as JSON holds it; values are lists of columns."""
    if not isinstance(value, pd.DataFrame):
        return np.asarray(value).tolist()
    return {
        "columns": value.columns.tolist(),
        "index": value.index.tolist(),
        "dtypes": [str(dtype) for dtype in value.dtypes],
        "values": [value[column].tolist() for column in value],
    }
