"""truth/<name>: eleven sets of answers with known truth and, but for `leaves` (64), no features.

Where a worker answered a task twice, the last answer counts. In `s_rel` and `web` truth is known of some tasks alone.
The nine that can be fetched come as yuan-li/truth-inference-at-scale keeps them: two tables, `item,worker,label` and
`item,truth`. The other two are in Ceka, a Java library.
"""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

from crowdwise.datasets.base import Dataset, DatasetEntry, arrays, rows_of
from crowdwise.datasets.download import File
from crowdwise.errors import FormatError
from crowdwise.io import read, read_truth

_HOME = (
    "https://raw.githubusercontent.com/yuan-li/truth-inference-at-scale/ff6d32971fb3ca17e2f0c784a126d8b26495dbce/data/"
)
_ZHENG = "Zheng et al., Truth inference in crowdsourcing, PVLDB 2017"
_ZHOU = "Zhou et al., Learning from the wisdom of crowds by minimax entropy, NIPS 2012"
_TOOLKIT = "Venanzi et al., The ActiveCrowdToolkit, HCOMP 2015"

# Where each is, and who asked the crowd.
ORIGINALS = {
    "bluebird": ("SpectralMethodsMeetEM/bluebird", "Welinder et al., The multidimensional wisdom of crowds, NIPS 2010"),
    "d_possent": ("crowd_truth_inference/d_sentiment", _ZHENG),
    "dog": ("SpectralMethodsMeetEM/dog", _ZHOU),
    "face": ("crowd_truth_inference/s4_Face%20Sentiment%20Identification", _ZHENG),
    "rte": ("SpectralMethodsMeetEM/rte", "Snow et al., Cheap and fast, but is it good?, EMNLP 2008"),
    "s_rel": ("crowd_truth_inference/s4_Relevance", f"Buckley et al., TREC 2010 relevance feedback track; {_ZHENG}"),
    "weather_cf": ("active-crowd-toolkit/CF", f"CrowdScale 2013; {_TOOLKIT}"),
    "web": ("SpectralMethodsMeetEM/web", _ZHOU),
    "zencrowd_us": ("active-crowd-toolkit/ZenCrowd_us", f"Demartini et al., ZenCrowd, WWW 2012; {_TOOLKIT}"),
}
CEKA = ("fej2013", "leaves")


def load(folder: Path, *, name: str) -> Dataset:
    """Read the prepared tables, and features where there are some."""
    file = folder / "features.npz"
    answers = read(folder / "answers.csv.gz", duplicates="last")
    known = read_truth(folder / "truth.csv.gz")
    answers = answers.with_truth((known["task"], known["label"]))
    assert answers.truth is not None
    truth = answers.classes[answers.truth]
    if (answers.truth < 0).any():
        truth = truth.astype(object)
        truth[answers.truth < 0] = None
    X = rows_of(file, *arrays(file, "X")) if file.exists() else None
    return Dataset(f"truth/{name}", answers, truth, answers.classes, X)


def prepare(raw: Path, out: Path) -> None:
    """From the originals: the columns get our names."""
    for original, header, ours, columns in (
        ("label.csv", "item,worker,label", "answers.csv.gz", "task,worker,label"),
        ("truth.csv", "item,truth", "truth.csv.gz", "task,truth"),
    ):
        first, _, rows = (raw / original).read_text().partition("\n")
        if first.strip() != header:
            message = f"{raw / original} begins with {first!r}, not {header!r}: it was changed at its source."
            raise FormatError(message)
        with gzip.open(out / ours, "wt") as file:
            file.write(f"{columns}\n{rows}")


def _entry(name: str) -> DatasetEntry:
    needs = ("answers.csv.gz", "truth.csv.gz", *(["features.npz"] if name == "leaves" else []))
    if name in CEKA:
        return DatasetEntry(
            partial(load, name=name),
            needs=needs,
            source="http://ceka.sourceforge.net",
            by_hand=(
                f"It is one of the data sets of Ceka (http://ceka.sourceforge.net): turn its files *.response.txt and "
                f"*.gold.txt into answers.csv.gz (task,worker,label) and truth.csv.gz (task,truth), and put "
                f"{', '.join(needs)} into a folder truth/{name}/"
            ),
            licence=(
                "Published with Ceka without naming a licence. For research. Cite: Zhang, Sheng, Nicholson and Wu, "
                "CEKA: a tool for mining the wisdom of crowds, JMLR 2015."
            ),
        )
    path, citation = ORIGINALS[name]
    return DatasetEntry(
        partial(load, name=name),
        needs=needs,
        files=tuple(File(f"{_HOME}{path}/{table}") for table in ("label.csv", "truth.csv")),
        prepare=prepare,
        source=f"https://github.com/yuan-li/truth-inference-at-scale, data/{path}",
        licence=(
            f"As published in a repository under the MIT licence (Yuan Li, 2019), which those who asked the crowd did "
            f"not choose. For research. Cite: {citation}."
        ),
    )


ENTRIES = {f"truth/{name}": _entry(name) for name in sorted((*ORIGINALS, *CEKA))}
