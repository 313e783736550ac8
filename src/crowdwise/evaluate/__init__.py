"""Metrics of labels and probabilities, calibration, and agreement between workers.

>>> import crowdwise as cw
>>> answers = cw.simulate.simulate(300, n_classes=2)
>>> cw.evaluate.evaluate(cw.MajorityVote().fit(answers), answers.truth).n_tasks
300
"""

from crowdwise.evaluate.agreement import consistency, fleiss_kappa, krippendorff_alpha, pairwise_agreement, uncertainty
from crowdwise.evaluate.calibration import Reliability, reliability, tempered, vote_belief
from crowdwise.evaluate.cliques import AlikeGroup, alike
from crowdwise.evaluate.metrics import (
    ClassScore,
    accuracy,
    auc,
    balanced_accuracy,
    brier,
    confusion,
    decide,
    ece,
    imbalance_ratio,
    log_loss,
    macro_f1,
    per_class,
)
from crowdwise.evaluate.ratings import (
    evaluate_ratings,
    intraclass_correlation,
    mean_absolute_error,
    quadratic_weighted_kappa,
    rating_alpha,
    within_one,
)
from crowdwise.evaluate.roc import RocCurve, roc_curve, sensitivity, specificity
from crowdwise.evaluate.scores import Scores, evaluate
from crowdwise.evaluate.summary import Spread, Summary, summarise

__all__ = [
    "AlikeGroup",
    "ClassScore",
    "Reliability",
    "RocCurve",
    "Scores",
    "Spread",
    "Summary",
    "accuracy",
    "alike",
    "auc",
    "balanced_accuracy",
    "brier",
    "confusion",
    "consistency",
    "decide",
    "ece",
    "evaluate",
    "evaluate_ratings",
    "fleiss_kappa",
    "imbalance_ratio",
    "intraclass_correlation",
    "krippendorff_alpha",
    "log_loss",
    "macro_f1",
    "mean_absolute_error",
    "pairwise_agreement",
    "per_class",
    "quadratic_weighted_kappa",
    "rating_alpha",
    "reliability",
    "roc_curve",
    "sensitivity",
    "specificity",
    "summarise",
    "tempered",
    "uncertainty",
    "vote_belief",
    "within_one",
]
