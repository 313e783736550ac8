"""Crowdsourcing data sets, real and simulated, in one form.

    data = cw.datasets.load("labelme")
    model = cw.CrowdLayer().fit(data.X, data.answers)
    (model.predict(data.X_test) == data.truth_test).mean()

`load` looks in the folder named by the environment variable CROWDWISE_DATA, then in the user's cache folder. Most data
sets can be downloaded into the cache with `fetch(name)` or `load(name, download=True)`; for the others, the error says
where to get them. Counts, accuracies and contents are checked on load (see `integrity`). Crowdwise contains no data
itself; `data.licence` gives the authors and the terms of use.

>>> load("digits")
Dataset('digits': tasks 738 train; 64 features, 40 workers, 1845 answers, 10 classes)
"""

from __future__ import annotations

import difflib
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from crowdwise._core.user_cache import cache_folder
from crowdwise.datasets import (
    cifar,
    dogs_vs_cats,
    gas_drift,
    integrity,
    labelme,
    music,
    product,
    simulated,
    truth_sets,
    usps,
)
from crowdwise.datasets.base import Dataset, DatasetEntry
from crowdwise.datasets.download import download as _download
from crowdwise.errors import CrowdwiseError, ParameterError

__all__ = ["Dataset", "fetch", "load", "names"]

_ENTRIES: dict[str, DatasetEntry] = {
    name: entry
    for module in (labelme, music, cifar, product, usps, gas_drift, dogs_vs_cats, truth_sets, simulated)
    for name, entry in module.ENTRIES.items()
}


def names() -> list[str]:
    """Return the names of all data sets.

    >>> names()[:3]
    ['labelme', 'music', 'cifar10h']
    """
    return list(_ENTRIES)


def load(name: str, *, download: bool = False, check: bool = True) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name : str
        One of `names()`.
    download : bool
        Download the data set if it is not found locally.
    check : bool
        Raise an error if the statistics of the data differ from the expected ones.

    Returns
    -------
    Dataset
        Features, answers, truth, splits, classes, licence.

    Examples
    --------
    >>> data = load("digits")
    >>> data.X.shape, data.answers
    ((738, 64), Answers(738 tasks, 40 workers, 1845 answers, 10 classes))
    """
    entry = _entry(name)
    for what, value in (("download", download), ("check", check)):
        if not isinstance(value, bool):
            message = f"{what} must be True or False, not {value!r}."
            raise ParameterError(message)
    if not entry.needs:  # simulated, not read
        return _load_from(name, Path(), check)
    for root in _roots():
        if all((root / name / file).is_file() for file in entry.needs):
            return _load_from(name, root / name, check)
    if download:
        return _load_from(name, fetch(name), check)
    raise CrowdwiseError(_not_found(name))


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Download the original files of a data set and convert them to what `load` reads.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        Where to put it; by default the user's cache folder. `load` finds it in another folder if CROWDWISE_DATA names
        that folder.

    Returns
    -------
    Path
        The folder of the data set, `<folder>/<name>`. Its files appear there once everything is downloaded and
        checked. The original files and their checksums stay in `<folder>/original/<name>`. Existing files are not
        downloaded again.
    """
    entry = _entry(name)
    if not entry.needs:
        message = f"{name} is simulated, so there is nothing to download. Use load({name!r})."
        raise CrowdwiseError(message)
    root = cache_folder() / "data" if folder is None else Path(folder)
    target = root / name
    if all((target / file).is_file() for file in entry.needs):
        return target
    if entry.prepare is None:
        message = f"{name} cannot be downloaded. {entry.by_hand} in {root}, or in the folder named by CROWDWISE_DATA."
        raise CrowdwiseError(message)
    originals = root / "original" / name
    for original in entry.files:
        _download(original, originals)
    with tempfile.TemporaryDirectory(dir=root) as prepared:
        try:
            entry.prepare(originals, Path(prepared))
        except CrowdwiseError:
            raise
        except (ValueError, KeyError, IndexError, OSError, EOFError) as error:
            message = f"the original files of {name} in {originals} are invalid ({error}). Delete them and retry."
            raise CrowdwiseError(message) from None
        _load_from(name, Path(prepared), check=True)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(Path(prepared).iterdir()):
            file.replace(target / file.name)
    return target


def _load_from(name: str, folder: Path, check: bool) -> Dataset:
    entry = _ENTRIES[name]
    data = replace(entry.load(folder), licence=entry.licence, source=entry.source)
    if check:
        integrity.check(data, str(folder))
    return data


def _entry(name: str) -> DatasetEntry:
    if name not in _ENTRIES:
        near = difflib.get_close_matches(str(name).lower(), _ENTRIES, n=3, cutoff=0.5)
        near += [known for known in _ENTRIES if known.endswith(f"/{str(name).lower()}")]
        hint = f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else "see datasets.names()."
        message = f"unknown data set {name!r}: {hint}"
        raise ParameterError(message)
    return _ENTRIES[name]


def _roots() -> list[Path]:
    """Return the folders to search, in order."""
    folder = os.environ.get("CROWDWISE_DATA")
    return [*([Path(folder).expanduser()] if folder else []), cache_folder() / "data"]


def _not_found(name: str) -> str:
    entry = _ENTRIES[name]
    places = []
    for root in _roots():
        missing = [file for file in entry.needs if not (root / name / file).is_file()]
        places.append(f"{root / name} (missing: {', '.join(missing)})")
    if entry.prepare is None:
        remedy = (
            f"It cannot be downloaded. {entry.by_hand} and set CROWDWISE_DATA to the folder that contains it, or "
            f"put it into {cache_folder() / 'data'}."
        )
    else:
        remedy = (
            f"Download it ({entry.source}) with datasets.load({name!r}, download=True), set CROWDWISE_DATA to a folder "
            f"that contains {name}/, or put that folder into {cache_folder() / 'data'}."
        )
    return f"{name} was not found in {' or '.join(places)}. {remedy}"
