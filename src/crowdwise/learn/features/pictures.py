"""Features that are encoded images: a folder of files, or their bytes concatenated in one array. Needs Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise._core.images import InvalidImageError, open_image
from crowdwise._core.installation import install_command
from crowdwise.answers import Answers
from crowdwise.errors import FeaturesError, MissingDependencyError
from crowdwise.learn.features.base import Array, Features, scale_images
from crowdwise.learn.features.matching import match_by_name

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))


class Pictures(Features):
    """Encoded images, decoded to RGB as needed.

    Parameters
    ----------
    names : sequence of str
        Name of each image, for messages.
    source : callable
        Returns the file of image i, as a path or as bytes in memory.
    """

    n_rows: int

    def __init__(self, names: Sequence[str], source: Callable[[int], Path | io.BytesIO]) -> None:
        if find_spec("PIL") is None:
            message = f"reading images needs Pillow. Install it with {install_command('images')}."
            raise MissingDependencyError(message)
        self._names, self._source = names, source
        self.n_rows = len(names)
        self._numbers = np.arange(self.n_rows)
        self.shape = self.picture(0).shape

    def rows(self, index: Array) -> Array:
        """Return some images, decoded."""
        numbers = self._numbers[index].tolist()
        out = np.empty((len(numbers), *self.shape), np.float32)
        for row, number in enumerate(numbers):
            out[row] = self.picture(number)
        return out

    def select(self, index: Array) -> Pictures:
        """Return some of the images."""
        numbers = self._numbers[index].tolist()
        return Pictures([self._names[i] for i in numbers], lambda i: self._source(numbers[i]))

    def picture(self, number: int) -> Array:
        """Return one image, of any size, as (3, height, width), float32 in [0, 1]."""
        return scale_images(np.asarray(self._read_image(number, lambda image: image.convert("RGB")))[None])[0]

    def encoded(self, number: int) -> bytes:
        """Return the bytes of one image as stored."""
        source = self._source(number)
        return source.read_bytes() if isinstance(source, Path) else source.getvalue()

    def _encoded_rows(self) -> Iterator[bytes]:
        return map(self.encoded, range(self.n_rows))  # not decoded

    def check(self, tasks: Array | None = None) -> None:
        """Raise FeaturesError if images differ in size; reads only their headers."""
        _, height, width = self.shape
        for number, name in enumerate(self._names):
            size = self._read_image(number, lambda image: image.size)
            if size != (width, height):
                message = (
                    f"images differ in size: {name} has {size[0]} x {size[1]} pixels, the first {width} x {height}. "
                    f"Resize them to one size, or pass "
                    f"X=crowdwise.learn.features.encoders.encode_images(...), which accepts any."
                )
                raise FeaturesError(message)

    def _read_image(self, number: int, use: Callable[[Any], Any]) -> Any:
        """Open an image and return `use(image)`."""
        try:
            with open_image(self._source(number)) as image:
                return use(image)
        except InvalidImageError as error:
            message = f"image {self._names[number]} cannot be decoded: {error}. Replace it."
            raise FeaturesError(message) from None


def joined_pictures(data: Array, offsets: Array) -> Pictures:
    """Return images concatenated in one array of bytes: image i is data[offsets[i]:offsets[i + 1]]."""
    flat = data.dtype == np.uint8 and data.ndim == 1 and offsets.dtype.kind in "iu" and offsets.ndim == 1
    ends = np.concatenate([[0], offsets, [len(data)]]) if flat else np.empty(0)
    if len(offsets) < 2 or not flat or (np.diff(ends) < 0).any():
        message = (
            f"encoded images need a flat uint8 array (here {data.dtype} of shape {data.shape}) and increasing offsets "
            f"into it from 0 to {data.size}, one more than the number of images."
        )
        raise FeaturesError(message)
    names = [f"number {i}" for i in range(len(offsets) - 1)]
    return Pictures(names, lambda i: io.BytesIO(data[offsets[i] : offsets[i + 1]].tobytes()))


def folder_pictures(folder: Path, answers: Answers | None) -> Pictures:
    """Return the images in a folder: those named like the tasks, or all, sorted by name, if there are no answers."""
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        message = f"the folder has no images (looked for {', '.join(sorted(SUFFIXES))})."
        raise FeaturesError(message)
    names = [file.relative_to(folder).as_posix() for file in files]
    chosen = np.arange(len(files))
    tasks = np.array(names, dtype=object)
    if answers is not None:
        bare = [name.removesuffix(file.suffix) for name, file in zip(names, files, strict=True)]
        chosen = match_by_name(answers, pa.array(names, pa.large_string()), pa.array(bare, pa.large_string()))
        tasks = np.array([str(task) for task in answers.tasks], dtype=object)
    pictures = Pictures([names[i] for i in chosen], lambda i: files[chosen[i]])
    pictures.tasks, pictures.n_ignored = tasks, len(files) - len(np.unique(chosen))
    return pictures
