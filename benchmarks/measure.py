"""One measurement in one process: `python measure.py CASE DATA [--iterations N] [--out FILE]` prints a line of JSON.

Our environment and the peers' both run this file, so that each side is timed by the same code on the same data. What is
timed is the call a user would make; imports, reading the data and (for us) loading compiled kernels come before it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

Case = Callable[[Any, int], Callable[[], Any]]


def load(path: str, columns: tuple[str, ...]) -> Any:
    """Columns of the data as a pandas frame named task, worker, label."""
    frame = pq.read_table(path, columns=list(columns)).to_pandas()
    return frame.set_axis(["task", "worker", "label"], axis=1)


CODES, STRINGS = ("task", "worker", "label"), ("task_id", "worker_id", "label_id")

# Ours


def our_answers(path: str) -> Any:
    """Answers with codes ready."""
    from crowdwise import Answers

    table = pq.read_table(path, columns=list(CODES))
    task, worker, label = (table.column(c).to_numpy() for c in CODES)
    sizes = {"tasks": int(task.max()) + 1, "workers": int(worker.max()) + 1, "classes": int(label.max()) + 1}
    answers = Answers.from_codes(task, worker, label, **sizes)
    _ = answers.pairs, answers.task_starts
    return answers


def our_fit(name: str, **parameters: Any) -> Case:
    """A method of ours on codes; compiled first on a few answers."""

    def case(path: str, iterations: int) -> Callable[[], Any]:
        from crowdwise import make

        answers = our_answers(path)
        model = make(name, **parameters, **({"max_iter": iterations, "tol": 0} if iterations else {}))
        model.fit(answers[:50])
        return lambda: model.fit(answers).proba_

    return case


def our_end_to_end(path: str, iterations: int) -> Callable[[], Any]:
    """From a data frame of string ids to posteriors."""
    from crowdwise import Answers, DawidSkene

    frame = load(path, STRINGS)
    model = DawidSkene(prior=None, max_iter=iterations, tol=0)
    model.fit(Answers.from_frame(frame.iloc[:50]))
    return lambda: model.fit(Answers.from_frame(frame)).proba_


def our_alpha(path: str, iterations: int) -> Callable[[], Any]:
    """Krippendorff's alpha."""
    from crowdwise.evaluate import krippendorff_alpha

    answers = our_answers(path)
    krippendorff_alpha(answers[:50])
    return lambda: np.array([krippendorff_alpha(answers)])


def our_quality(path: str, iterations: int) -> Callable[[], Any]:
    """Label and worker quality tables, from codes."""
    from crowdwise import MajorityVote
    from crowdwise.truth.tables import label_table, worker_table

    answers = our_answers(path)
    worker_table(MajorityVote().fit(answers[:50]))

    def run() -> Any:
        model = MajorityVote().fit(answers)
        label_table(model), worker_table(model)

    return run


# Peers


def crowdkit_fit(name: str, columns: tuple[str, ...] = CODES, **parameters: Any) -> Case:
    """A method of crowd-kit on a frame."""

    def case(path: str, iterations: int) -> Callable[[], Any]:
        from crowdkit import aggregation

        frame = load(path, columns)
        model = getattr(aggregation, name)(**parameters, **({"n_iter": iterations} if iterations else {}))

        def run() -> Any:
            model.fit(frame)
            return model.probas_.sort_index(axis=0).sort_index(axis=1).to_numpy() if hasattr(model, "probas_") else None

        return run

    return case


def peerannot_ds(path: str, iterations: int) -> Callable[[], Any]:
    """Dawid-Skene of peerannot, on its dictionary of dictionaries."""
    from peerannot.models.aggregation.dawid_skene import DawidSkene

    frame = load(path, CODES)
    answers: dict[int, dict[int, int]] = {}
    for task, worker, label in frame.itertuples(index=False):
        answers.setdefault(task, {})[worker] = label
    model = DawidSkene(answers, n_workers=int(frame.worker.max()) + 1, n_classes=int(frame.label.max()) + 1)
    return lambda: model.run(maxiter=iterations, epsilon=0)


def cleanlab_quality(path: str, iterations: int) -> Callable[[], Any]:
    """Label and worker quality of cleanlab, on its wide table, with smoothed vote shares for a classifier's output."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    frame = load(path, CODES)
    wide = frame.pivot(index="task", columns="worker", values="label").astype(float)
    share = np.zeros((len(wide), int(frame.label.max()) + 1))
    np.add.at(share, (frame.task.to_numpy(), frame.label.to_numpy()), 1)
    proba = (share + 0.5) / (share + 0.5).sum(axis=1, keepdims=True)
    return lambda: get_label_quality_multiannotator(
        wide.to_numpy(), proba, return_detailed_quality=False, verbose=False
    )


CASES: dict[str, Case] = {
    "ours dawid-skene": our_fit("dawid-skene", prior=None),
    "ours end-to-end": our_end_to_end,
    "ours one-coin": our_fit("one-coin"),
    "ours glad": our_fit("glad"),
    "ours mace": our_fit("mace", n_init=1),
    "ours mmsr": our_fit("mmsr"),
    "ours ibcc": our_fit("ibcc"),
    "ours alpha": our_alpha,
    "ours quality": our_quality,
    "crowd-kit dawid-skene": crowdkit_fit("DawidSkene", tol=-1e9),
    "crowd-kit end-to-end": crowdkit_fit("DawidSkene", STRINGS, tol=-1e9),
    "crowd-kit one-coin": crowdkit_fit("OneCoinDawidSkene", tol=-1e9),
    "crowd-kit glad": crowdkit_fit("GLAD", silent=True, tol=-1e9),
    "crowd-kit mace": crowdkit_fit("MACE", n_restarts=1, random_state=0),
    "peerannot dawid-skene": peerannot_ds,
    "cleanlab quality": cleanlab_quality,
}


def main() -> None:
    """Run one case and print what it cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("data")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    run = CASES[options.case](options.data, options.iterations)
    seconds = []
    for _ in range(options.repeats):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    if options.out and result is not None:
        np.save(options.out, result)
    print(json.dumps({"seconds": min(seconds), "first": seconds[0], "peak_mb": peak_mb()}))


def peak_mb() -> float:
    """Most memory this process has held; `ru_maxrss` would begin with what the parent held."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
