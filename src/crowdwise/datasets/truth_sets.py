"""truth/<name>: eleven sets of answers with known truth. Only `leaves` has features (64).

If a worker answered a task twice, the last answer counts. In `s_rel` and `web` the truth is known for some tasks only.
Nine can be downloaded from yuan-li/truth-inference-at-scale, as two tables `item,worker,label` and `item,truth`. The
other two are in Ceka, a Java library.
"""

from __future__ import annotations

import gzip
from functools import partial
from pathlib import Path

from crowdwise.datasets.base import Dataset, DatasetEntry, as_feature_matrix, load_arrays
from crowdwise.datasets.download import RemoteFile
from crowdwise.errors import FormatError
from crowdwise.io import read, read_truth

_HOME = (
    "https://raw.githubusercontent.com/yuan-li/truth-inference-at-scale/ff6d32971fb3ca17e2f0c784a126d8b26495dbce/data/"
)
_ZHENG = "Zheng et al., Truth inference in crowdsourcing, PVLDB 2017"
_ZHOU = "Zhou et al., Learning from the wisdom of crowds by minimax entropy, NIPS 2012"
_TOOLKIT = "Venanzi et al., The ActiveCrowdToolkit, HCOMP 2015"

# The folder of each data set, and whom to cite.
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
    """Read the prepared tables, and the features if there are any."""
    file = folder / "features.npz"
    answers = read(folder / "answers.csv.gz", kind="classes", duplicates="last")
    known = read_truth(folder / "truth.csv.gz")
    answers = answers.with_truth((known["task"], known["label"]))
    assert answers.truth is not None
    truth = answers.classes[answers.truth]
    if (answers.truth < 0).any():
        truth = truth.astype(object)
        truth[answers.truth < 0] = None
    X = as_feature_matrix(file, *load_arrays(file, "X")) if file.exists() else None
    return Dataset(f"truth/{name}", answers, truth, answers.classes, X)


def prepare(raw: Path, out: Path) -> None:
    """Convert the original tables: rename their columns."""
    for original, header, ours, columns in (
        ("label.csv", "item,worker,label", "answers.csv.gz", "task,worker,label"),
        ("truth.csv", "item,truth", "truth.csv.gz", "task,truth"),
    ):
        first, _, rows = (raw / original).read_text().partition("\n")
        if first.strip() != header:
            message = f"{raw / original} begins with {first!r}, not {header!r}. The file has changed at its source."
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
                f"It is part of Ceka (http://ceka.sourceforge.net). Convert its files *.response.txt and "
                f"*.gold.txt to answers.csv.gz (task,worker,label) and truth.csv.gz (task,truth), and put "
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
        files=tuple(RemoteFile(f"{_HOME}{path}/{table}") for table in ("label.csv", "truth.csv")),
        prepare=prepare,
        source=f"https://github.com/yuan-li/truth-inference-at-scale, data/{path}",
        licence=(
            f"Published in a repository under the MIT licence (Yuan Li, 2019), which the authors of the data did not "
            f"choose. For research. Cite: {citation}."
        ),
    )


ENTRIES = {f"truth/{name}": _entry(name) for name in sorted((*ORIGINALS, *CEKA))}
