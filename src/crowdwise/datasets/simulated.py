"""Data sets that are made, not read: no folder, no download.

digits     scikit-learn's digits, long-tailed, answered by a simulated crowd: `simulate.digits_crowd`
gaussian   the difficulty paper's points and workers: `simulate.gaussian_mixture(seed="paper")`, `structural_answers`.
           `extra` has `p`, how sure one who knows is, and `skill`, what the workers were made with
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, Entry


def load_digits(_: Path) -> Dataset:
    """Make the digits."""
    from crowdwise.simulate import digits_crowd

    X, answers = digits_crowd()
    assert answers.truth is not None
    return Dataset("digits", answers, answers.classes[answers.truth], answers.classes, X.astype(np.float32))


def load_gaussian(_: Path) -> Dataset:
    """Make the mixture of two Gaussians."""
    from crowdwise.simulate import gaussian_mixture, structural_answers
    from crowdwise.simulate.difficulty import SKILL

    made = gaussian_mixture(seed="paper")
    answers = structural_answers(made.truth, made.p)
    return Dataset(
        "gaussian", answers, answers.classes[made.truth], answers.classes, made.X.astype(np.float32),
        X_test=made.X_test.astype(np.float32), truth_test=answers.classes[made.truth_test],
        extra={"p": made.p, "skill": SKILL},
    )  # fmt: skip


ENTRIES = {
    "digits": Entry(
        load_digits,
        source="https://archive.ics.uci.edu/dataset/80",
        licence=(
            "Images: E. Alpaydin and C. Kaynak, Optical recognition of handwritten digits, UCI Machine Learning "
            "Repository (CC BY 4.0), as scikit-learn ships them. The crowd is simulated."
        ),
    ),
    "gaussian": Entry(
        load_gaussian,
        source="made by crowdwise.simulate",
        licence="Made here. Cite: Xu, Zhang, Zhang and Zhang, Data difficulty specified crowdsourcing.",
    ),
}
