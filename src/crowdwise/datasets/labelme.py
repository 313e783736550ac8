"""LabelMe: 2,688 images of scenes in 8 classes, 1,000 of them labelled by 59 workers on Mechanical Turk.

The 512 features are averages of VGG16's last block. The original files are the answers (one row per image, one column
for each of the 77 workers hired, -1 for no answer), truth and features as published by PyLearningCrowds. `images` needs
the image files, which are in the authors' archive, and is None without them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry, LazyImages, as_feature_matrix, decode_classes, load_arrays
from crowdwise.datasets.download import RemoteFile
from crowdwise.io import read

CLASSES = ("highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry")
SPLITS = ("train", "valid", "test")
_HOME = (
    "https://raw.githubusercontent.com/fmenat/PyLearningCrowds/272bf1deb6237908262b8103ae0538ae08638f41/data/LabelMe/"
)
FILES = (
    RemoteFile(_HOME + "answers.txt"),
    *(RemoteFile(f"{_HOME}LabelMe_VGG_avg_{split}.npy") for split in SPLITS),
    *(RemoteFile(f"{_HOME}LabelMe_Z_{split}.txt") for split in SPLITS),
)


def load(folder: Path) -> Dataset:
    """Read the prepared files."""
    file, image_file = folder / "features.npz", folder / "images_150.npz"
    classes, *parts = load_arrays(file, "classes", *(f"{what}_{split}" for what in "Xy" for split in SPLITS))
    X, X_valid, X_test = features = [as_feature_matrix(file, part) for part in parts[:3]]
    truth, truth_valid, truth_test = (
        decode_classes(file, f"y_{split}", codes, classes, len(rows))
        for split, codes, rows in zip(SPLITS, parts[3:], features, strict=True)
    )
    answers = read(folder / "answers.csv", kind="classes", tasks=np.arange(len(X)))
    answers = answers.with_truth((answers.tasks, truth))
    images = LazyImages(image_file, {split: (f"jpeg_{split}", f"offsets_{split}") for split in SPLITS})
    return Dataset(
        "labelme", answers, truth, answers.classes, X, X_valid, truth_valid, X_test, truth_test,
        images=images if image_file.exists() else None,
    )  # fmt: skip


def prepare(raw: Path, out: Path) -> None:
    """Convert the original files; workers without answers are left out, as in every paper."""
    labels = np.loadtxt(raw / "answers.txt", dtype=np.int64, ndmin=2)  # (tasks, workers hired), -1 for no answer
    labels = labels[:, (labels >= 0).any(axis=0)]
    rows = (f"{t},w{w:02d},{CLASSES[labels[t, w]]}\n" for t, w in np.argwhere(labels >= 0).tolist())
    (out / "answers.csv").write_text("task,worker,label\n" + "".join(rows))
    parts = {f"X_{s}": np.load(raw / f"LabelMe_VGG_avg_{s}.npy", allow_pickle=False) for s in SPLITS}
    parts |= {f"y_{s}": np.loadtxt(raw / f"LabelMe_Z_{s}.txt").astype(np.int8) for s in SPLITS}
    np.savez_compressed(out / "features.npz", classes=np.array(CLASSES), **parts)


ENTRIES = {
    "labelme": DatasetEntry(
        load,
        needs=("answers.csv", "features.npz"),
        files=FILES,
        prepare=prepare,
        source="https://fprodrigues.com/deep_LabelMe.tar.gz; features: https://github.com/fmenat/PyLearningCrowds",
        licence=(
            "Images of the LabelMe data (Russell et al., 2008); answers by F. Rodrigues and F. Pereira, who publish "
            "them without naming a licence; features by F. Mena. For research; ask the authors for any other use. "
            "Cite: Rodrigues and Pereira, Deep learning from crowds, AAAI 2018."
        ),
    )
}
