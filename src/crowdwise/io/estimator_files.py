"""Fitted scikit-learn estimators as plain values, so that a model file can hold them as data, not as code.

An estimator is its class, from a list, and its attributes: numbers, text, arrays, and other estimators. The nodes of a
decision tree are arrays, one per field, and are checked when they are read, since compiled code trusts them.
The attributes are those of the installed scikit-learn, whose version is stored: another one may have changed them.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from crowdwise.errors import CrowdwiseWarning

MODULES = {
    "LogisticRegression": "linear_model",
    "GaussianNB": "naive_bayes",
    "LinearDiscriminantAnalysis": "discriminant_analysis",
    "QuadraticDiscriminantAnalysis": "discriminant_analysis",
    "DecisionTreeClassifier": "tree",
    "ExtraTreeClassifier": "tree",
    "RandomForestClassifier": "ensemble",
    "ExtraTreesClassifier": "ensemble",
    "DummyClassifier": "dummy",
    "Pipeline": "pipeline",
    "StandardScaler": "preprocessing",
    "MinMaxScaler": "preprocessing",
    "RobustScaler": "preprocessing",
    "PCA": "decomposition",
}
FIELDS = {  # of the nodes of a tree
    "left_child": "int64", "right_child": "int64", "feature": "int64", "threshold": "float64", "impurity": "float64",
    "n_node_samples": "int64", "weighted_n_node_samples": "float64", "missing_go_to_left": "uint8",
}  # fmt: skip
LEAF = -1
Array = np.ndarray[Any, np.dtype[Any]]


def to_plain(value: Any) -> dict[str, Any] | None:
    """Return the class, the version and the attributes of an estimator or a tree; None if it is neither."""
    cls = type(value)
    if cls.__module__ == "sklearn.tree._tree" and cls.__name__ == "Tree":
        state = value.__getstate__()
        nodes = {name: np.ascontiguousarray(state["nodes"][name]) for name in FIELDS}
        sizes = {"n_features": value.n_features, "n_classes": np.asarray(value.n_classes, np.int64),
                 "n_outputs": value.n_outputs, "max_depth": state["max_depth"]}  # fmt: skip
        return {"class": "Tree", "attributes": {**sizes, **nodes, "values": state["values"]}}
    if cls.__name__ not in MODULES or not cls.__module__.startswith(f"sklearn.{MODULES[cls.__name__]}"):
        return None
    return {"class": cls.__name__, "version": import_module("sklearn").__version__, "attributes": dict(vars(value))}


def from_plain(name: str, version: str | None, attributes: dict[str, Any]) -> Any:
    """Rebuild what `to_plain` described; raise ValueError if it is invalid."""
    if name == "Tree":
        return _tree(attributes)
    if name not in MODULES:
        message = f"unknown estimator {name!r}"
        raise ValueError(message)
    installed = import_module("sklearn").__version__
    if version != installed:
        text = f"The file holds a {name} of scikit-learn {version}; {installed} is installed and may read it otherwise."
        warnings.warn(text, CrowdwiseWarning, stacklevel=2)
    cls = getattr(import_module(f"sklearn.{MODULES[name]}"), name)
    estimator = cls.__new__(cls)
    vars(estimator).update(attributes)
    return estimator


def _tree(state: dict[str, Any]) -> Any:
    """Return a tree, after checking that its nodes lead to leaves and that its features and values exist."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    n_features, n_outputs, n_nodes = state["n_features"], state["n_outputs"], len(state["left_child"])
    left, right, feature = (np.asarray(state[name]) for name in ("left_child", "right_child", "feature"))
    values, n_classes = state["values"], np.asarray(state["n_classes"])
    here = np.arange(n_nodes)
    leaf = left == LEAF
    forward = (left > here) & (right > here) & (left < n_nodes) & (right < n_nodes)  # no cycles
    sound = (
        all(np.shape(state[name]) == (n_nodes,) and state[name].dtype == kind for name, kind in FIELDS.items())
        and n_nodes > 0
        and bool((right[leaf] == LEAF).all() and forward[~leaf].all())
        and bool(((feature >= 0) & (feature < n_features))[~leaf].all())
        and n_classes.shape == (n_outputs,)
        and values.shape == (n_nodes, n_outputs, n_classes.max(initial=0))
        and values.dtype == "float64"
    )
    if not sound:
        message = "the nodes of a decision tree are invalid"
        raise ValueError(message)
    nodes = np.zeros(n_nodes, NODE_DTYPE)
    for name in FIELDS:
        nodes[name] = state[name]
    tree = Tree(n_features, n_classes.astype(np.intp), n_outputs)
    tree.__setstate__({"max_depth": state["max_depth"], "node_count": n_nodes, "nodes": nodes, "values": values})
    return tree
