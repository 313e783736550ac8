"""Simulated data sets, which need no files and no download.

digits     scikit-learn's digits with long-tailed classes and a simulated crowd: `simulate.digits_crowd`
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry


def load_digits(_: Path) -> Dataset:
    """Simulate the digits crowd."""
    from crowdwise.simulate import digits_crowd

    X, answers = digits_crowd()
    assert answers.truth is not None
    return Dataset("digits", answers, answers.classes[answers.truth], answers.classes, X.astype(np.float32))


ENTRIES = {
    "digits": DatasetEntry(
        load_digits,
        source="https://archive.ics.uci.edu/dataset/80",
        licence=(
            "Images: E. Alpaydin and C. Kaynak, Optical recognition of handwritten digits, UCI Machine Learning "
            "Repository (CC BY 4.0), as scikit-learn ships them. The crowd is simulated."
        ),
    ),
}
