"""The crowds that the papers simulate, and the subsets of data sets that they train and test on."""

from reproduction.crowds.difficulty import gaussian_mixture, structural_answers, unstructured_answers
from reproduction.crowds.drawing import Subset, TrainTest, balanced_holdout, binary_imbalanced
from reproduction.crowds.from_votes import long_tailed_subset, low_quality_subset
from reproduction.crowds.heavy import Heavy, heavy_binary
from reproduction.crowds.iced import Syn, gisette_like, iced_crowd, iced_set

__all__ = [
    "Heavy",
    "Subset",
    "Syn",
    "TrainTest",
    "balanced_holdout",
    "binary_imbalanced",
    "gaussian_mixture",
    "gisette_like",
    "heavy_binary",
    "iced_crowd",
    "iced_set",
    "long_tailed_subset",
    "low_quality_subset",
    "structural_answers",
    "unstructured_answers",
]
