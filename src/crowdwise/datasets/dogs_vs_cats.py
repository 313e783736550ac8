"""Dogs vs cats: 10,000 pictures of 64 x 64 pixels, cats first. No crowd was asked; `simulate` one.

There is no X: `images["train"]` decodes pictures, `crowdwise.learn.features.encoders.encode_images` makes features of
them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry, LazyPictures, arrays, classes_of

CLASSES = np.array(["cat", "dog"])


def load(folder: Path) -> Dataset:
    """Read the file; pictures when they are asked for."""
    file = folder / "images_64.npz"
    (y,) = arrays(file, "y")
    images = LazyPictures(file, {"train": ("jpeg", "offsets")})
    return Dataset("dogs_vs_cats", None, classes_of(file, "y", y, CLASSES, y.size), CLASSES, images=images)


ENTRIES = {
    "dogs_vs_cats": DatasetEntry(
        load,
        needs=("images_64.npz",),
        source="https://www.microsoft.com/en-us/download/details.aspx?id=54765",
        by_hand=(
            "Microsoft does not allow the pictures to be published again, and asks for its terms to be accepted. "
            "Download them from https://www.microsoft.com/en-us/download/details.aspx?id=54765, scale 5,000 of each "
            "class to 64 x 64 pixels and put images_64.npz (jpeg: their bytes end to end, offsets: where each begins, "
            "y: 0 for cats) into a folder dogs_vs_cats/"
        ),
        licence=(
            "Pictures of Petfinder.com, published by Microsoft Research for non-commercial research; not to be "
            "published again without its permission. Cite: Elson, Douceur, Howell and Saul, Asirra, CCS 2007."
        ),
    )
}
