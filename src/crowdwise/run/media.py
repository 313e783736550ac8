"""What the report shows of a task: its text, and a small picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crowdwise._core.atomic_io import atomic_write
from crowdwise.answers import Answers
from crowdwise.errors import FeaturesError
from crowdwise.learn.features.pictures import Pictures
from crowdwise.learn.features.sources import open_source
from crowdwise.run.folder import IMAGES

Array = np.ndarray[Any, np.dtype[Any]]

SHOWN = 60  # pictures that are kept
SIDE = 192  # pixels of the longer side of a picture
LEAST = 64  # smaller ones are enlarged, pixel by pixel


def open_images(images: Any, answers: Answers) -> Any:
    """Images of the tasks, whose rows follow `answers.tasks`.

    Parameters
    ----------
    images : folder, array of bytes or numbers (tasks, height, width[, channels]), dataset or Pictures
    """
    if isinstance(images, Pictures):
        features: Any = images
    elif isinstance(images, np.ndarray):
        features = images if images.ndim > 2 else None
        if features is None:
            message = (
                f"images of shape {images.shape}: give (tasks, height, width) or (tasks, height, width, channels)."
            )
            raise FeaturesError(message)
    else:
        features = open_source(images, answers)
    n_rows = len(features) if isinstance(features, np.ndarray) else features.n_rows
    if n_rows != answers.n_tasks:
        message = f"{n_rows:,} images for {answers.n_tasks:,} tasks: give one for each, in the order of answers.tasks."
        raise FeaturesError(message)
    return features


def keep_pictures(images: Any, order: Sequence[int], folder: Path) -> dict[int, str]:
    """Write small pictures of the first tasks of an order; returns where each is, below the folder."""
    from PIL import Image

    (folder / IMAGES).mkdir(exist_ok=True)
    places = {}
    for number in order[:SHOWN]:
        picture = Image.fromarray(pixels(images, number))
        side = max(picture.size)
        if side > SIDE:
            picture.thumbnail((SIDE, SIDE))
        elif side < LEAST:
            times = SIDE // side
            picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
        place = f"{IMAGES}/{number}.png"
        with atomic_write(folder / place, sync=False) as beside:
            picture.save(beside, "PNG", optimize=True)
        places[int(number)] = place
    return places


def pixels(images: Any, number: int) -> Array:
    """One image as bytes, (height, width) or (height, width, 3)."""
    if isinstance(images, np.ndarray):
        image = images[number]
        if image.dtype != np.uint8:
            low, high = float(np.min(image)), float(np.max(image))
            image = ((image - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)
        return (
            image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image[..., :3] if image.ndim == 3 else image
        )
    image = images.picture(number) if isinstance(images, Pictures) else images.rows(np.array([number]))[0]
    image = (np.clip(image, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    return image[..., 0] if image.shape[2] == 1 else image[..., :3]
