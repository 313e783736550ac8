"""Real data sets of the field, and made ones, all in one form.

    data = cw.datasets.load("labelme")
    model = cw.CrowdLayer().fit(data.X, data.answers)
    (model.predict(data.X_test) == data.truth_test).mean()

They are looked for in the folder that the environment variable CROWDWISE_DATA names, then in the user's cache, a folder
for each. Those whose originals are simple can be fetched into the cache: `fetch(name)`, or `load(name, download=True)`.
Of the others the error says where to get them. Figures (counts, accuracy of answers, imbalance) and content (see
`facts`) are checked on load. No data is part of crowdwise; `data.licence` says who made it and on what terms.

>>> load("digits")
Dataset('digits': tasks 738 train; 64 features, 40 workers, 1845 answers, 10 classes)
"""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from crowdwise.datasets import (
    cifar,
    dogs_vs_cats,
    facts,
    gas_drift,
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
    """Names of all data sets.

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
        Fetch it, where that can be done, if it is in neither place.
    check : bool
        Refuse it unless its figures are those it should have.

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
            message = f"{what}={value!r}: use True or False."
            raise ParameterError(message)
    if not entry.needs:  # made, not read
        return _loaded(name, Path(), check)
    for root in _roots():
        if all((root / name / file).is_file() for file in entry.needs):
            return _loaded(name, root / name, check)
    if download:
        return _loaded(name, fetch(name), check)
    raise CrowdwiseError(_not_found(name))


def fetch(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Fetch the originals of a data set and turn them into what `load` reads.

    Parameters
    ----------
    name : str
        One of `names()`.
    folder : path, optional
        Where to put it, the user's cache if not given. To have `load` find it elsewhere, set CROWDWISE_DATA.

    Returns
    -------
    Path
        Of its folder, `<folder>/<name>`. Its files appear there once all is downloaded and the figures are right;
        the originals and their checksums stay in `<folder>/original/<name>`. What is there is not fetched again.
    """
    entry = _entry(name)
    if not entry.needs:
        message = f"{name} is made, not read: there is nothing to fetch. load({name!r}) gives it."
        raise CrowdwiseError(message)
    root = _cache() if folder is None else Path(folder)
    target = root / name
    if all((target / file).is_file() for file in entry.needs):
        return target
    if entry.prepare is None:
        message = f"{name} cannot be fetched. {entry.by_hand} in {root}, or in the folder that CROWDWISE_DATA names."
        raise CrowdwiseError(message)
    originals = root / "original" / name
    for original in entry.files:
        _download(original, originals)
    with tempfile.TemporaryDirectory(dir=root) as made:
        try:
            entry.prepare(originals, Path(made))
        except CrowdwiseError:
            raise
        except (ValueError, KeyError, IndexError, OSError, EOFError) as error:
            message = f"the originals of {name} in {originals} are not as they should be ({error}): delete them, retry."
            raise CrowdwiseError(message) from None
        _loaded(name, Path(made), check=True)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(Path(made).iterdir()):
            file.replace(target / file.name)
    return target


def _loaded(name: str, folder: Path, check: bool) -> Dataset:
    entry = _ENTRIES[name]
    data = replace(entry.load(folder), licence=entry.licence, source=entry.source)
    if check:
        facts.check(data, str(folder))
    return data


def _entry(name: str) -> DatasetEntry:
    if name not in _ENTRIES:
        near = difflib.get_close_matches(str(name).lower(), _ENTRIES, n=3, cutoff=0.5)
        near += [known for known in _ENTRIES if known.endswith(f"/{str(name).lower()}")]
        hint = f"did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else "see datasets.names()."
        message = f"there is no data set {name!r}: {hint}"
        raise ParameterError(message)
    return _ENTRIES[name]


def _roots() -> list[Path]:
    """Where data is looked for, in this order."""
    given = os.environ.get("CROWDWISE_DATA")
    return [*([Path(given).expanduser()] if given else []), _cache()]


def _cache() -> Path:
    """The user's cache: `$XDG_CACHE_HOME`, or the usual place of the system."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        base = Path(given)
    elif sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        base = Path(local)
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "crowdwise" / "data"


def _not_found(name: str) -> str:
    entry = _ENTRIES[name]
    places = []
    for root in _roots():
        missing = [file for file in entry.needs if not (root / name / file).is_file()]
        places.append(f"{root / name} (no {', '.join(missing)})")
    at_hand = "set CROWDWISE_DATA to a folder that holds it"
    if entry.prepare is None:
        remedy = f"It cannot be fetched. {entry.by_hand} and {at_hand}, or put that folder into {_cache()}."
    else:
        remedy = (
            f"Fetch it from its original address ({entry.source}) with datasets.load({name!r}, download=True), "
            f"{at_hand} as {name}/, or put that folder into {_cache()}."
        )
    return f"{name} was not found; looked in {' and '.join(places)}. {remedy}"
