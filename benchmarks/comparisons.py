"""Rankings from comparisons, beside choix and crowd-kit: `python -m benchmarks comparisons`.

Accuracy: Kendall's tau between estimated and true scores on simulated comparisons, with uneven workers and without, and
how many true scores the 90 % intervals contain. choix is maximum likelihood with its default regularisation (0.01).
crowd-kit's BradleyTerry runs for 100 steps with `tol=0`, because it stops after two steps otherwise.

Speed: the same frame of string ids goes in, scores come out, crowd-kit in its own process; processor seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import crowdwise as cw
from benchmarks.files import RESULTS, ROOT, write_results
from crowdwise.simulate.comparisons import item_scores

SETTINGS = {  # items, workers, comparisons, share of careless and of reversing workers
    "all workers judge": (20, 30, 800, 0.0, 0.0),
    "20 % careless": (20, 30, 800, 0.2, 0.0),
    "10 % careless, 10 % reversing": (20, 30, 800, 0.1, 0.1),
    "20 % careless, many comparisons": (20, 30, 3000, 0.2, 0.0),
}
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
CROWDKIT = """
import sys, time, json, pandas as pd
from crowdkit.aggregation import BradleyTerry
data = pd.read_csv(sys.argv[1], dtype=str)
start = time.process_time()
scores = BradleyTerry(n_iter=100, tol=0).fit_predict(data)
print(json.dumps([time.process_time() - start, scores.to_dict()]))
"""


def frame(comparisons: cw.Comparisons) -> pd.DataFrame:
    """Return comparisons in crowd-kit's columns; ties are decided for the left item."""
    table = comparisons.to_arrow().to_pandas().astype(str)
    winner = table["winner"].where(table["winner"] != "tie", table["left"])
    return pd.DataFrame({"worker": table["worker"], "left": table["left"], "right": table["right"], "label": winner})


def crowdkit(data: pd.DataFrame, folder: Path) -> tuple[float, dict[str, float]]:
    """Return the processor seconds and the scores of crowd-kit's BradleyTerry."""
    file = folder / "comparisons.csv"
    data.to_csv(file, index=False)
    done = subprocess.run([str(PEERS_PYTHON), "-c", CROWDKIT, str(file)], capture_output=True, text=True, check=True)
    seconds, scores = json.loads(done.stdout.splitlines()[-1])
    return seconds, scores


def accuracy(seeds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Return the mean tau of each method in each setting, and the coverage of the 90 % intervals."""
    import choix

    out = {}
    for name, (items, workers, n, careless, reversing) in SETTINGS.items():
        truth, rows = item_scores(items), []
        for seed in range(seeds):
            made = cw.simulate.comparisons(
                items, workers, n, ties=0.4, careless=careless, reversing=reversing, seed=1000 + seed
            )
            row = {}
            for method in (cw.BradleyTerry(), cw.Davidson(), cw.CrowdBradleyTerry()):
                model = method.fit(made)
                label = type(method).__name__
                row[label] = kendalltau(model.scores_, truth)[0]
                row[f"{label}, coverage"] = (np.abs(model.scores_ - truth) < 1.645 * model.standard_error_).mean()
            left, right, won = made.left[made.task], made.right[made.task], made.label
            pairs = [(a, b) if w == 0 else (b, a) for a, b, w in zip(left, right, won, strict=True) if w < 2]
            row["choix"] = kendalltau(choix.ilsr_pairwise(items, pairs, alpha=0.01), truth)[0]
            scores = crowdkit(frame(made), folder)[1]
            row["crowd-kit"] = kendalltau([scores[str(item)] for item in made.items], truth)[0]
            rows.append(row)
        table = pd.DataFrame(rows)
        gain = table["CrowdBradleyTerry"] - table["choix"]
        out[name] = {**table.mean().to_dict(), "gain": gain.mean(), "error": gain.std() / np.sqrt(seeds)}
        print(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in out[name].items()), flush=True)
    return out


def speed(n: int, folder: Path, *, peer: bool) -> dict[str, float]:
    """Return the processor seconds of each method on n comparisons of 200 items by 1,000 workers."""
    made = cw.simulate.comparisons(200, 1000, n, careless=0.2, seed=0)
    data = frame(made)
    out: dict[str, float] = {"comparisons": n}
    for method in (cw.BradleyTerry(), cw.CrowdBradleyTerry()):
        start = time.process_time()
        table = cw.Comparisons.from_frame(data, winner="label")
        out["reading"] = time.process_time() - start
        method.fit(table)
        out[type(method).__name__] = time.process_time() - start
    if peer:
        out["crowd-kit"] = crowdkit(data, folder)[0]
        out["ratio"] = out["crowd-kit"] / out["BradleyTerry"]
    print(", ".join(f"{key} {value:,.2f}" for key, value in out.items()), flush=True)
    return out


def main() -> None:
    """Run the benchmark and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**5, 10**6, 10**7])
    parser.add_argument("--out", type=Path, default=RESULTS / "comparisons.json")
    options = parser.parse_args()
    if not PEERS_PYTHON.exists():
        sys.exit("error: run `python -m benchmarks comparisons`, which creates the environment of the other libraries.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {"accuracy": accuracy(options.seeds, folder)}
        results["speed"] = {str(n): speed(n, folder, peer=n <= 10**6) for n in options.sizes}
    write_results(options.out, results)


if __name__ == "__main__":
    main()
