"""USPS: 9,298 handwritten digits from envelopes, 16 x 16 pixels from 0 to 255. It has no crowd; `simulate` one.

The 7,291 images of the usual training set come first, then the 2,007 of its test set. Papers on crowdsourcing use their
own splits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry, as_feature_matrix, decode_classes, load_arrays
from crowdwise.datasets.download import RemoteFile

_HOME = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
FILES = (  # checksums as torchvision publishes them
    RemoteFile(_HOME + "usps.bz2", "md5:ec16c51db3855ca6c91edd34d0e9b197"),
    RemoteFile(_HOME + "usps.t.bz2", "md5:8ea070ee2aca1ac39742fdd1ef5ed118"),
)


def load(folder: Path) -> Dataset:
    """Read the prepared file."""
    file, digits = folder / "features.npz", np.arange(10)
    X, y = load_arrays(file, "X", "y")
    X = as_feature_matrix(file, X)
    return Dataset("usps", None, decode_classes(file, "y", y, digits, len(X)), digits, X)


def prepare(raw: Path, out: Path) -> None:
    """Convert LIBSVM's files, in which pixels range from -1 to 1 and digits from 1 to 10."""
    from sklearn.datasets import load_svmlight_file

    parts = [load_svmlight_file(str(raw / file.name), n_features=256) for file in FILES]
    X = np.vstack([pixels.toarray() for pixels, _ in parts])  # (tasks, 256)
    y = np.concatenate([labels for _, labels in parts]) - 1
    np.savez_compressed(out / "features.npz", X=((X + 1) / 2 * 255).astype(np.uint8), y=y.astype(np.int8))


ENTRIES = {
    "usps": DatasetEntry(
        load,
        needs=("features.npz",),
        files=FILES,
        prepare=prepare,
        source=FILES[0].url,
        licence=(
            "Collected at CEDAR, Buffalo, for the US Postal Service; published by LIBSVM without naming a licence. For "
            "research. Cite: Hull, A database for handwritten text recognition research, PAMI 1994."
        ),
    )
}
