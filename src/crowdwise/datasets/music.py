"""Music: 1,000 song clips in 10 genres, 700 of them labelled by 44 workers on Mechanical Turk.

124 features (Marsyas), unscaled. The original files are three tables: gold (id, features and class of the training
songs), test (the same for the other songs) and mturk (one row per answer: id of the song, features, annotator, class).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from crowdwise.datasets.base import Dataset, DatasetEntry, as_feature_matrix, decode_classes, load_arrays
from crowdwise.datasets.download import RemoteFile, read_archive_members
from crowdwise.io import read

ARCHIVE = RemoteFile("https://fprodrigues.com/mturk-datasets.tar.gz")
TABLES = ["music_genre_gold.csv", "music_genre_test.csv", "music_genre_mturk.csv"]


def load(folder: Path) -> Dataset:
    """Read the prepared files."""
    file = folder / "features.npz"
    classes, X, X_test, y, y_test = load_arrays(file, "classes", "X_train", "X_test", "y_train", "y_test")
    X, X_test = as_feature_matrix(file, X), as_feature_matrix(file, X_test)
    truth = decode_classes(file, "y_train", y, classes, len(X))
    truth_test = decode_classes(file, "y_test", y_test, classes, len(X_test))
    answers = read(folder / "answers.csv", kind="classes", tasks=np.arange(len(X)))
    answers = answers.with_truth((answers.tasks, truth))
    return Dataset("music", answers, truth, answers.classes, X, X_test=X_test, truth_test=truth_test)


def prepare(raw: Path, out: Path) -> None:
    """Convert the archive: tasks are the rows of the gold table; workers are numbered by first occurrence."""
    found = read_archive_members(raw / ARCHIVE.name, TABLES)
    gold, test, crowd = (pyarrow.csv.read_csv(io.BytesIO(found[name])) for name in TABLES)
    task = {song: row for row, song in enumerate(gold["id"].to_pylist())}
    worker = {name: number for number, name in enumerate(dict.fromkeys(crowd["annotator"].to_pylist()))}
    triples = zip(*(crowd[name].to_pylist() for name in ("id", "annotator", "class")), strict=True)
    rows = sorted((task[song], worker[name], label) for song, name, label in triples)
    lines = (f"{t},w{w:02d},{label}\n" for t, w, label in rows)
    (out / "answers.csv").write_text("task,worker,label\n" + "".join(lines))
    classes = np.unique(gold["class"].to_pylist())
    parts: dict[str, Any] = {}
    for split, table in (("train", gold), ("test", test)):
        features = [name for name in table.column_names if name not in ("id", "class")]
        parts[f"X_{split}"] = np.column_stack([table[name].to_numpy() for name in features])
        parts[f"y_{split}"] = np.searchsorted(classes, table["class"].to_pylist())
    np.savez_compressed(out / "features.npz", classes=classes, **parts)


ENTRIES = {
    "music": DatasetEntry(
        load,
        needs=("answers.csv", "features.npz"),
        files=(ARCHIVE,),
        prepare=prepare,
        source=ARCHIVE.url,
        licence=(
            "Songs of the GTZAN collection (Tzanetakis and Cook, 2002); features and answers by F. Rodrigues, F. "
            "Pereira and B. Ribeiro, who publish them without naming a licence. For research; ask the authors for any "
            "other use. Cite: Rodrigues, Pereira and Ribeiro, Learning from multiple annotators, Pattern Recognition "
            "Letters 2013."
        ),
    )
}
