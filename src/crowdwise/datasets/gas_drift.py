"""Gas drift: 128 readings of chemical sensors, six gases, three years. It has no crowd; `simulate` one.

6,697 measurements: the eight of the ten batches that our benchmarks use (7 and 10 are left out). `extra` has the
`batch` and the `concentration` (ppmv) of each measurement.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from crowdwise.datasets.base import Dataset, DatasetEntry, as_feature_matrix, decode_classes, load_arrays
from crowdwise.datasets.download import RemoteFile, read_archive_members

BATCHES = (1, 2, 3, 4, 5, 6, 8, 9)
GASES = np.array(["ethanol", "ethylene", "ammonia", "acetaldehyde", "acetone", "toluene"])
ARCHIVE = RemoteFile(  # several projects publish this checksum
    "https://archive.ics.uci.edu/static/public/270/gas+sensor+array+drift+dataset+at+different+concentrations.zip",
    "sha256:98fe3a30981a222dd4518fbcc3dddd45d5c0ce9b03ef6dc6fe5cf7a04cfbff5e",
    saved_as="gas_drift.zip",
)


def load(folder: Path) -> Dataset:
    """Read the prepared file."""
    file = folder / "features.npz"
    X, y, batch, concentration = load_arrays(file, "X", "y", "batch", "concentration")
    X = as_feature_matrix(file, X)
    extra = {"batch": batch, "concentration": concentration}
    return Dataset("gas_drift", None, decode_classes(file, "y", y, GASES, len(X)), GASES, X, extra=extra)


def prepare(raw: Path, out: Path) -> None:
    """Convert the archive, whose lines are `gas;concentration 1:value 2:value ...`."""
    found = read_archive_members(raw / ARCHIVE.name, [f"batch{b}.dat" for b in BATCHES])
    parts = [re.sub(rb"\d+:", b"", found[f"batch{b}.dat"].replace(b";", b" ")) for b in BATCHES]
    tables = [np.array(part.split(), dtype=np.float64).reshape(-1, 130) for part in parts]
    table = np.vstack(tables)  # (measurements, 2 + 128)
    np.savez_compressed(
        out / "features.npz",
        X=table[:, 2:].astype(np.float32),
        y=(table[:, 0] - 1).astype(np.int8),
        batch=np.repeat(np.array(BATCHES, np.int8), [len(part) for part in tables]),
        concentration=table[:, 1].astype(np.float32),
    )


ENTRIES = {
    "gas_drift": DatasetEntry(
        load,
        needs=("features.npz",),
        files=(ARCHIVE,),
        prepare=prepare,
        source="https://archive.ics.uci.edu/dataset/270",
        licence=(
            "A. Vergara, J. Fonollosa, I. Rodriguez-Lujan and R. Huerta, UCI Machine Learning Repository (CC BY 4.0 "
            "there; the description says for research alone, no commercial use). Cite: Vergara et al., Chemical gas "
            "sensor drift compensation using classifier ensembles, Sensors and Actuators B 2012; Rodriguez-Lujan et "
            "al., On the calibration of sensor arrays, Chemometrics 2014."
        ),
    )
}
