"""cleanlab's tables of label quality (CROWDLAB) and scores for active learning (ActiveLab)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.answers.encoding import preview
from crowdwise.compat.cleanlab._consensus import (
    Consensus,
    agreement_with,
    agreement_with_others,
    at_temperature,
    best_temperature,
    evaluate_consensus,
    most_probable,
)
from crowdwise.compat.cleanlab._label_scores import check_options, label_scores
from crowdwise.compat.cleanlab._votes import (
    Votes,
    check_probabilities,
    check_several_annotators,
    majority_vote,
    read_votes,
    warn,
)
from crowdwise.truth.base import Array

__all__ = ["get_active_learning_scores", "get_label_quality_multiannotator"]


def get_label_quality_multiannotator(
    labels_multiannotator: pd.DataFrame | Array,
    pred_probs: Array,
    *,
    consensus_method: str | list[str] = "best_quality",
    quality_method: str = "crowdlab",
    calibrate_probs: bool = False,
    return_detailed_quality: bool = True,
    return_annotator_stats: bool = True,
    return_weights: bool = False,
    verbose: bool = True,
    label_quality_score_kwargs: dict[str, Any] | None = None,
    correct_counts: bool = False,
) -> dict[str, Any]:
    """Return a consensus label with its quality for each example, and the quality of each label and annotator.

    Parameters
    ----------
    labels_multiannotator : DataFrame or array, (examples, annotators)
        Labels 0, 1, ..., or NaN where an annotator gave none.
    pred_probs : (examples, classes) array
        Class probabilities of a classifier that was not trained on the example.
    consensus_method : {"best_quality", "majority_vote"}, or a list of them
        The most probable class, or the majority vote with ties broken by `pred_probs`. The first of a list fills the
        main columns, each other one columns with its name.
    quality_method : {"crowdlab", "agreement"}
        Quality from the classifier and the annotators, or the share of annotators who agree.
    calibrate_probs : bool
        Rescale `pred_probs` to the shares of the votes first.
    return_detailed_quality, return_annotator_stats, return_weights : bool
        Which results to return beside `label_quality`.
    verbose : bool
        Warn of classes that no consensus label has, and of annotators without overlap.
    label_quality_score_kwargs : dict, optional
        `method` ("self_confidence", "normalized_margin", "confidence_weighted_entropy") and `adjust_pred_probs`.
    correct_counts : bool
        cleanlab has no such argument. It counts votes for the wrong class wherever an example has no vote for a lower
        one, which matters for `quality_method="agreement"` and `calibrate_probs`. False does the same, for equal
        results; True counts right.

    Returns
    -------
    dict
        `label_quality` (consensus_label, consensus_quality_score, annotator_agreement, num_annotations),
        `detailed_label_quality` (one column per annotator), `annotator_stats` (annotator_quality,
        agreement_with_consensus, worst_class, num_examples_labeled; NaN quality for an annotator who shares no example
        with others), `model_weight` and `annotator_weight`.

    Examples
    --------
    >>> labels = pd.DataFrame({"ann": [0, 1, 1], "ben": [0, 0, np.nan], "eva": [np.nan, 1, 1]})
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    >>> quality = get_label_quality_multiannotator(labels, proba)
    >>> quality["label_quality"]["consensus_label"].tolist()
    [0, 1, 1]
    >>> quality["annotator_stats"].index.tolist()
    ['ben', 'eva', 'ann']
    """
    options = label_quality_score_kwargs or {}
    check_options(options)
    require(quality_method in ("crowdlab", "agreement"), "quality_method", quality_method, "'crowdlab' or 'agreement'")
    if return_weights and quality_method != "crowdlab":
        message = f"return_weights=True: weights exist for quality_method='crowdlab', not for {quality_method!r}."
        raise errors.ParameterError(message)
    methods = consensus_method if isinstance(consensus_method, list) else [consensus_method]
    for method in methods:
        require(method in ("best_quality", "majority_vote"), "consensus_method", method,
                "'best_quality', 'majority_vote' or a list of them")  # fmt: skip
    require(bool(methods), "consensus_method", methods, "one method or more")
    votes = read_votes(labels_multiannotator)
    proba = check_probabilities(pred_probs, "pred_probs", votes)
    check_several_annotators(votes)
    if calibrate_probs:
        proba = at_temperature(proba, best_temperature(votes.shares(proba.shape[1], correct_counts), proba))
    if quality_method == "crowdlab":
        found = _find_consensus(votes, proba, methods, options, verbose)
    else:
        found = _find_agreement(votes, proba, methods, votes.shares(proba.shape[1], correct_counts))
    if verbose:
        _warn_of_lost_classes(votes, found, methods)
    main, last = found[methods[0]], found[methods[-1]]
    result: dict[str, Any] = {"label_quality": _label_table(votes, found, methods)}
    scores = _answer_scores(votes, main.proba, options) if return_detailed_quality else None
    if scores is not None:
        wide = np.full((len(votes.n_answers), votes.n_workers), np.nan)
        wide[votes.task, votes.worker] = scores
        names = range(votes.n_workers) if votes.worker_ids is None else votes.worker_ids
        columns = [f"quality_annotator_{name}" for name in names]
        result["detailed_label_quality"] = pd.DataFrame(wide, index=votes.task_ids, columns=columns, copy=False)
    if return_annotator_stats:
        result["annotator_stats"] = _annotator_table(votes, main, scores)
    if return_weights:  # of the last method, as in cleanlab
        result["model_weight"], result["annotator_weight"] = last.model_weight, last.worker_weight
    return result


def get_active_learning_scores(
    labels_multiannotator: pd.DataFrame | Array | None = None,
    pred_probs: Array | None = None,
    pred_probs_unlabeled: Array | None = None,
    *,
    correct_counts: bool = False,
) -> tuple[Array, Array]:
    """Return ActiveLab scores of labelled and unlabelled examples: the lowest should be labelled next.

    Parameters
    ----------
    labels_multiannotator : DataFrame or array, (examples, annotators), optional
        Labels 0, 1, ..., or NaN where an annotator gave none. Every example has a label; needs `pred_probs`.
    pred_probs : (examples, classes) array, optional
        Class probabilities of a classifier for the labelled examples.
    pred_probs_unlabeled : (unlabelled examples, classes) array, optional
        Its probabilities for examples without labels.
    correct_counts : bool
        As in `get_label_quality_multiannotator`: True rescales the probabilities to the right shares of the votes.

    Returns
    -------
    scores, scores_unlabeled : arrays
        From 0 to 1, comparable with each other; empty if nothing was passed.

    Examples
    --------
    >>> labels = np.array([[0, 0, np.nan], [1, 0, 1], [np.nan, 1, 1]])
    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    >>> scores, unlabeled = get_active_learning_scores(labels, proba, np.array([[0.6, 0.4]]))
    >>> bool(scores.argmin() == 1), scores.shape, unlabeled.shape
    (True, (3,), (1,))
    """
    if pred_probs is None and pred_probs_unlabeled is None:
        message = "pass pred_probs with labels_multiannotator, pred_probs_unlabeled, or all of them."
        raise errors.ParameterError(message)
    unlabeled = (
        None if pred_probs_unlabeled is None else check_probabilities(pred_probs_unlabeled, "pred_probs_unlabeled")
    )
    scores, temperature, model_weight, mean_weight = np.array([]), 1.0, 1.0, 1.0
    if pred_probs is not None:
        if labels_multiannotator is None:
            message = "pred_probs needs labels_multiannotator; pass probabilities of others as pred_probs_unlabeled."
            raise errors.ParameterError(message)
        votes = read_votes(labels_multiannotator)
        proba = check_probabilities(pred_probs, "pred_probs", votes)
        if unlabeled is not None and unlabeled.shape[1] != proba.shape[1]:
            message = f"pred_probs has {proba.shape[1]} classes, but pred_probs_unlabeled has {unlabeled.shape[1]}."
            raise errors.ParameterError(message)
        if votes.shared.any():
            check_several_annotators(votes)
            temperature = best_temperature(votes.shares(proba.shape[1], correct_counts), proba)
            proba = at_temperature(proba, temperature)
            found = _find_consensus(votes, proba, ["best_quality"], {}, True)["best_quality"]
            quality, weight, model_weight = found.quality, found.worker_weight, found.model_weight
        else:
            quality, weight = label_scores(votes.label, proba), np.ones(votes.n_workers)
        mean_weight = weight.mean()
        behind = np.bincount(votes.task, weight[votes.worker]) + model_weight  # (examples,)
        scores = (quality * behind + mean_weight / proba.shape[1]) / (behind + mean_weight)
    if unlabeled is None:
        return scores, np.array([])
    confidence = at_temperature(unlabeled, temperature).max(axis=1)
    chance = mean_weight / unlabeled.shape[1]
    return scores, (confidence * model_weight + chance) / (model_weight + mean_weight)


def _find_consensus(
    votes: Votes, proba: Array, methods: list[str], options: dict[str, Any], verbose: bool
) -> dict[str, Consensus]:
    """Return the consensus by each method, with the quality by CROWDLAB."""
    rate = agreement_with_others(votes, proba.shape[1], verbose)
    vote = majority_vote(votes, proba)
    found = {"majority_vote": evaluate_consensus(votes, proba, vote, rate, options)}
    if "best_quality" in methods:
        label = most_probable(found["majority_vote"].proba, vote)
        found["best_quality"] = evaluate_consensus(votes, proba, label, rate, options)
    return found


def _find_agreement(votes: Votes, proba: Array, methods: list[str], share: Array) -> dict[str, Consensus]:
    """Return the consensus by each method, with the share of the annotators who agree as quality."""
    vote = majority_vote(votes, proba)
    found = {}
    for method in methods:
        label = vote if method == "majority_vote" else most_probable(share, vote)
        agreement = agreement_with(votes, label, proba.shape[1])
        found[method] = Consensus(label, agreement, agreement, share, 0.0, np.empty(0))
        if not agreement.all():
            warn(
                f"The consensus of {np.sum(agreement == 0)} examples is a class without a vote, as in cleanlab, which "
                f"counts votes for the wrong class. Use correct_counts=True."
            )
    return found


def _warn_of_lost_classes(votes: Votes, found: dict[str, Consensus], methods: list[str]) -> None:
    for method in methods:
        lost = np.setdiff1d(votes.label, found[method].label)
        if len(lost):
            warn(f"Classes {preview(lost)} have labels, but are the consensus ({method}) of no example.")


def _label_table(votes: Votes, found: dict[str, Consensus], methods: list[str]) -> pd.DataFrame:
    """Return `label_quality`."""
    columns = {}
    for i, method in enumerate(methods):
        suffix = f"_{method}" if i else ""
        each = found[method]
        columns[f"consensus_label{suffix}"] = each.label
        columns[f"consensus_quality_score{suffix}"] = each.quality
        columns[f"annotator_agreement{suffix}"] = each.agreement
        if not i:
            columns["num_annotations"] = votes.n_answers
    return pd.DataFrame(columns, index=votes.task_ids)


def _answer_scores(votes: Votes, proba: Array, options: dict[str, Any]) -> Array:
    """Return the quality of each answer, (answers,)."""
    if not options.get("adjust_pred_probs"):
        return label_scores(votes.label, proba, votes.task, **options)
    scores = np.empty(len(votes.label))  # thresholds are those of one annotator's labels
    order = np.argsort(votes.worker, kind="stable")
    for answers in np.split(order, np.cumsum(votes.per_worker())[:-1]):
        scores[answers] = label_scores(votes.label[answers], proba, votes.task[answers], **options)
    return scores


def _annotator_table(votes: Votes, consensus: Consensus, scores: Array | None) -> pd.DataFrame:
    """Return `annotator_stats`."""
    n_labels = votes.per_worker()
    agrees = votes.label == consensus.label[votes.task]
    shared = votes.shared[votes.task]
    n_shared = votes.per_worker(shared)
    quality = np.divide(
        votes.per_worker(agrees & shared), n_shared, out=np.full(votes.n_workers, np.nan), where=n_shared > 0
    )
    if len(consensus.worker_weight):
        scores = label_scores(votes.label, consensus.proba, votes.task) if scores is None else scores
        weight = consensus.worker_weight.sum() * votes.n_answers.mean() / votes.n_workers
        side = consensus.model_weight / (consensus.model_weight + weight)
        quality = side * votes.per_worker(scores) / n_labels + (1 - side) * quality
    table = pd.DataFrame(
        {
            "annotator_quality": quality,
            "agreement_with_consensus": votes.per_worker(agrees) / n_labels,
            "worst_class": _worst_classes(votes, agrees, consensus.quality),
            "num_examples_labeled": n_labels,
        },
        index=votes.worker_ids,
    )
    return table.sort_values(["annotator_quality", "agreement_with_consensus"])


def _worst_classes(votes: Votes, agrees: Array, quality: Array) -> Array:
    """Return the class of each worker whose labels agree least with the consensus, (workers,).

    Ties go to the class with more labels, then to the one with higher mean quality of the consensus, then to the first.
    """
    n_classes = int(votes.label.max()) + 1
    cell, label_of = np.unique(votes.worker * n_classes + votes.label, return_inverse=True)  # sorted
    worker = cell // n_classes
    count = np.bincount(label_of)
    accuracy = np.bincount(label_of, agrees) / count
    mean_quality = np.bincount(label_of, quality[votes.task]) / count
    order = np.lexsort([-mean_quality, -count, accuracy, worker])  # stable: the first class stays first
    first = np.searchsorted(worker, np.arange(votes.n_workers))
    return (cell % n_classes)[order[first]]
