"""CIFAR-10 labelled by crowds: CIFAR-10H (its test images) and CIFAR-10N (its training images).

cifar10h   511,000 votes on 10,000 images, published as counts. The workers are known only for the last 500 images:
           `answers`, `truth` and `X` cover these. `extra` has `counts` (10,000 x 10, columns as in `classes`), `X_all`
           and `truth_all` of all images; `answers.tasks` are the rows of the 500.
cifar10n   Three answers for each of 50,000 images. Features exist for the first 10,000: `extra["X_first"]` matches
           `answers[:10000]`; `X` is None.

The features are 256 principal components of those of EfficientNet-lite0. Computing them takes the images and the
network, so neither data set can be downloaded. The original files of CIFAR-10N are also pickled, and crowdwise does not
load pickles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.base import Dataset, DatasetEntry, as_feature_matrix, decode_classes, load_arrays, require_valid
from crowdwise.io import read

_IMAGES = "Images: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009."
_BY_HAND = (
    "Its features are computed from the images of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) with "
    "crowdwise.learn.features.encoders.encode_images, reduced to 256 principal components. Features that you compute "
    "will differ in the last digits; load them with check=False. Put {files} into a folder {name}/"
)


def load_10h(folder: Path) -> Dataset:
    """Read the files of CIFAR-10H."""
    votes, table = folder / "counts.npz", folder / "answers_500.csv.gz"
    counts, y, classes = load_arrays(votes, "counts", "y", "classes")
    X = as_feature_matrix(folder / "features.npz", *load_arrays(folder / "features.npz", "X"))
    truth = decode_classes(votes, "y", y, classes, len(X))
    require_valid(
        counts.shape == (len(X), len(classes)), votes, f"counts have shape {counts.shape} for {len(X)} images"
    )
    coded = read(table, classes=np.arange(len(classes)))
    valid = coded.tasks.dtype.kind in "iu" and coded.tasks.min() >= 0 and coded.tasks.max() < len(X)
    require_valid(bool(valid), table, f"tasks are not rows of the {len(X)} images")
    answers = Answers.from_codes(
        coded.task, coded.worker, coded.label, tasks=coded.tasks, workers=coded.workers, classes=classes,
        truth=y[coded.tasks].astype(np.int32),
    )  # fmt: skip
    extra = {"counts": counts, "X_all": X, "truth_all": truth}
    return Dataset("cifar10h", answers, truth[coded.tasks], answers.classes, X[coded.tasks], extra=extra)


def load_10n(folder: Path) -> Dataset:
    """Read the files of CIFAR-10N."""
    file = folder / "labels.npz"
    worker, label, y, classes = load_arrays(file, "workers", "labels", "y", "classes")
    valid = label.ndim == 2 and worker.shape == label.shape
    require_valid(valid, file, f"workers and labels have shapes {worker.shape} and {label.shape}, not both (images, 3)")
    truth = decode_classes(file, "y", y, classes, len(label))
    X = as_feature_matrix(folder / "features_first10k.npz", *load_arrays(folder / "features_first10k.npz", "X"))
    task = np.repeat(np.arange(len(y)), label.shape[1])
    answers = Answers.from_codes(
        task, worker.ravel(), label.ravel(), tasks=len(y), workers=int(worker.max()) + 1, classes=classes,
        truth=y.astype(np.int32),
    )  # fmt: skip
    return Dataset("cifar10n", answers, truth, answers.classes, extra={"X_first": X})


ENTRIES = {
    "cifar10h": DatasetEntry(
        load_10h,
        needs=("counts.npz", "features.npz", "answers_500.csv.gz"),
        source="https://github.com/jcpeterson/cifar-10h",
        by_hand=_BY_HAND.format(
            name="cifar10h",
            files=(
                "counts.npz (counts from cifar10h-counts.npy of https://github.com/jcpeterson/cifar-10h; y, classes), "
                "features.npz (X) and answers_500.csv.gz (task,worker,label)"
            ),
        ),
        licence=(
            "CIFAR-10H by J. Peterson, R. Battleday, T. Griffiths and O. Russakovsky: CC BY-NC-SA 4.0. Cite: Peterson "
            f"et al., Human uncertainty makes classification more robust, ICCV 2019. {_IMAGES}"
        ),
    ),
    "cifar10n": DatasetEntry(
        load_10n,
        needs=("labels.npz", "features_first10k.npz"),
        source="https://github.com/UCSC-REAL/cifar-10-100n",
        by_hand=_BY_HAND.format(
            name="cifar10n",
            files=(
                "labels.npz (labels, workers: 50,000 x 3, from CIFAR-10_human.npy and side_info_cifar10N.csv of "
                "https://github.com/UCSC-REAL/cifar-10-100n; y, classes) and features_first10k.npz (X)"
            ),
        ),
        licence=(
            "CIFAR-10N by J. Wei, Z. Zhu, H. Cheng, T. Liu, G. Niu and Y. Liu; terms in their repository. Cite: Wei et "
            f"al., Learning with noisy labels revisited, ICLR 2022. {_IMAGES}"
        ),
    ),
}
