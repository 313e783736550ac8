"""Product: are two shop offers the same product? 8,315 pairs with three answers each; 12.2 % are the same.

A naturally imbalanced data set. `X` holds 12 similarities of the two texts, named in `extra["names"]`; `texts` holds
the name, description and price of the left and the right offer.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from crowdwise.datasets.base import Array, Dataset, DatasetEntry, as_feature_matrix, decode_classes, load_arrays
from crowdwise.errors import FormatError
from crowdwise.io import read

SIDES = tuple(f"{side}_{what}" for side in ("left", "right") for what in ("name", "desc", "price"))


def load(folder: Path) -> Dataset:
    """Read the files."""
    file, pairs = folder / "features.npz", folder / "pairs_text.csv.gz"
    X, y, names = load_arrays(file, "X", "y", "names")
    X = as_feature_matrix(file, X)
    answers = read(folder / "answers.csv.gz", kind="classes", tasks=np.arange(len(X)))
    answers = answers.with_truth((answers.tasks, decode_classes(file, "y", y, np.arange(2), len(X))))
    return Dataset(
        "product", answers, answers.classes[answers.truth], answers.classes, X,
        texts=_texts(pairs) if pairs.exists() else None, extra={"names": names},
    )  # fmt: skip


def _texts(file: Path) -> dict[str, Array]:
    try:
        table = pyarrow.csv.read_csv(
            file,
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(SIDES, pa.string())),
        )
    except (OSError, pa.ArrowInvalid) as error:
        message = (
            f"{file} is damaged ({error}). Replace it with an intact copy, or delete it to load the data without texts."
        )
        raise FormatError(message) from None
    table = table.sort_by("task")
    return {name: table[name].to_numpy() for name in SIDES}


ENTRIES = {
    "product": DatasetEntry(
        load,
        needs=("answers.csv.gz", "features.npz"),
        source="https://zhydhkcws.github.io/crowd_truth_inference/datasets.zip; texts: Abt-Buy, University of Leipzig",
        by_hand=(
            "Its features are our own, computed from the texts. The answers are d_jn-product of "
            "https://zhydhkcws.github.io/crowd_truth_inference/datasets.zip. Put answers.csv.gz (task,worker,label), "
            "features.npz (X, y, names) and, if you have them, pairs_text.csv.gz into a folder product/"
        ),
        licence=(
            "Answers of J. Wang, T. Kraska, M. Franklin and J. Feng, published by Y. Zheng et al. without naming a "
            "licence. For research. Cite: Wang et al., CrowdER, PVLDB 2012; Zheng et al., Truth inference in "
            "crowdsourcing, PVLDB 2017."
        ),
    )
}
