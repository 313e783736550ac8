"""Dogs vs cats: 10,000 images of 64 x 64 pixels, cats first. It has no crowd; `simulate` one.

X is None: pass `images["train"]` as X, or compute features from it with
`crowdwise.learn.features.encoders.encode_images`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry, LazyImages, decode_classes, load_arrays

CLASSES = np.array(["cat", "dog"])


def load(folder: Path) -> Dataset:
    """Read the file; images are read on first access."""
    file = folder / "images_64.npz"
    (y,) = load_arrays(file, "y")
    images = LazyImages(file, {"train": ("jpeg", "offsets")})
    return Dataset("dogs_vs_cats", None, decode_classes(file, "y", y, CLASSES, y.size), CLASSES, images=images)


ENTRIES = {
    "dogs_vs_cats": DatasetEntry(
        load,
        needs=("images_64.npz",),
        source="https://www.microsoft.com/en-us/download/details.aspx?id=54765",
        by_hand=(
            "Microsoft does not permit redistribution of the images and requires accepting its terms. Download them "
            "from https://www.microsoft.com/en-us/download/details.aspx?id=54765, scale 5,000 images per class to 64 x "
            "64 pixels and put images_64.npz (jpeg: the bytes of all images, offsets: where each begins, y: 0 for "
            "cats) into a folder dogs_vs_cats/"
        ),
        licence=(
            "Images of Petfinder.com, published by Microsoft Research for non-commercial research; redistribution "
            "needs its permission. Cite: Elson, Douceur, Howell and Saul, Asirra, CCS 2007."
        ),
    )
}
