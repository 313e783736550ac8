"""CIFAR-10 as people see it: CIFAR-10H (its test images) and CIFAR-10N (its training images).

cifar10h   511,000 votes on 10,000 images, published as counts. Who gave them is known of the last 500 images alone:
           `answers`, `truth` and `X` are of these. `extra` has `counts` (10,000 x 10, columns as `classes`), `X_all`
           and `truth_all` of all images; the rows of the 500 are `answers.tasks`.
cifar10n   three answers to each of 50,000 images. Features are those of the first 10,000: `extra["X_first"]` goes with
           `answers[:10000]`; `X` is None.

Features are 256 principal components of EfficientNet-lite0's, which is why neither can be fetched: it takes the images
and the network. The originals of CIFAR-10N are pickled, too, and crowdwise opens no pickles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.base import Dataset, DatasetEntry, arrays, classes_of, expect, rows_of
from crowdwise.io import read

_IMAGES = "Images: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009."
_BY_HAND = (
    "Its features are made from the images of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) by "
    "crowdwise.learn.features.encoders.encode_images and 256 principal components; features made anew are not "
    "ours to the last "
    "digit: load them with check=False. Put {files} into a folder {name}/"
)


def load_10h(folder: Path) -> Dataset:
    """Read the files of CIFAR-10H."""
    votes, table = folder / "counts.npz", folder / "answers_500.csv.gz"
    counts, y, classes = arrays(votes, "counts", "y", "classes")
    X = rows_of(folder / "features.npz", *arrays(folder / "features.npz", "X"))
    truth = classes_of(votes, "y", y, classes, len(X))
    expect(counts.shape == (len(X), len(classes)), votes, f"counts of shape {counts.shape} for {len(X)} images")
    given = read(table, classes=np.arange(len(classes)))
    fits = given.tasks.dtype.kind in "iu" and given.tasks.min() >= 0 and given.tasks.max() < len(X)
    expect(bool(fits), table, f"tasks are not rows of the {len(X)} images")
    answers = Answers.from_codes(
        given.task, given.worker, given.label, tasks=given.tasks, workers=given.workers, classes=classes,
        truth=y[given.tasks].astype(np.int32),
    )  # fmt: skip
    extra = {"counts": counts, "X_all": X, "truth_all": truth}
    return Dataset("cifar10h", answers, truth[given.tasks], answers.classes, X[given.tasks], extra=extra)


def load_10n(folder: Path) -> Dataset:
    """Read the files of CIFAR-10N."""
    file = folder / "labels.npz"
    worker, label, y, classes = arrays(file, "workers", "labels", "y", "classes")
    fits = label.ndim == 2 and worker.shape == label.shape
    expect(fits, file, f"workers and labels of shapes {worker.shape} and {label.shape}, not both (images, 3)")
    truth = classes_of(file, "y", y, classes, len(label))
    X = rows_of(folder / "features_first10k.npz", *arrays(folder / "features_first10k.npz", "X"))
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
