"""One measurement in one process: `python -m benchmarks.measure CASE DATA` prints a line of JSON.

Our environment and that of the peers both run this file, so that each side is timed by the same code on the same data.
The timed part is the call a user would make; imports, reading the data and (for us) loading compiled kernels come
before it. Cases named "whole" read a Parquet file, fit and write labels, and report each part.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.drawn_crowds import draw

Case = Callable[[Any, int], Callable[[], Any]]


def load(path: str, columns: tuple[str, ...]) -> Any:
    """Return these columns of the data as a pandas frame with columns task, worker, label."""
    frame = pq.read_table(path, columns=list(columns)).to_pandas()
    return frame.set_axis(["task", "worker", "label"], axis=1)


CODES, STRINGS = ("task", "worker", "label"), ("task_id", "worker_id", "label_id")

# Ours


def our_answers(path: str) -> Any:
    """Return answers with all indices built."""
    from crowdwise import Answers

    table = pq.read_table(path, columns=list(CODES))
    task, worker, label = (table.column(c).to_numpy() for c in CODES)
    sizes = {"tasks": int(task.max()) + 1, "workers": int(worker.max()) + 1, "classes": int(label.max()) + 1}
    answers = Answers.from_codes(task, worker, label, **sizes)
    _ = answers.pairs, answers.task_starts
    return answers


def our_fit(name: str, **parameters: Any) -> Case:
    """Fit a method of ours on codes; it is compiled on a few answers before the clock starts."""

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
    """Compute Krippendorff's alpha."""
    from crowdwise.evaluate import krippendorff_alpha

    answers = our_answers(path)
    krippendorff_alpha(answers[:50])
    return lambda: np.array([krippendorff_alpha(answers)])


def our_quality(path: str, iterations: int) -> Callable[[], Any]:
    """Compute label and worker quality tables, from codes."""
    from crowdwise import MajorityVote
    from crowdwise.truth.tables import label_table, worker_table

    answers = our_answers(path)
    worker_table(MajorityVote().fit(answers[:50]))

    def run() -> Any:
        model = MajorityVote().fit(answers)
        label_table(model), worker_table(model)

    return run


class Parts:
    """Wall-clock seconds, processor seconds and peak memory of the parts of one job."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self._at = time.perf_counter(), time.process_time()

    def end(self, part: str) -> None:
        """End a part and start the next."""
        now = time.perf_counter(), time.process_time()
        self.figures[f"{part}_seconds"], self.figures[f"{part}_cpu_seconds"] = (
            after - before for after, before in zip(now, self._at, strict=True)
        )
        self.figures[f"{part}_peak_bytes"] = peak_mb() * 2**20
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak for the next part
        self._at = time.perf_counter(), time.process_time()


WHOLE: dict[str, tuple[str, dict[str, Any]]] = {  # method and settings of each case
    "reading": ("reading", {}),
    **{name: (name, {}) for name in ("alpha", "majority-vote", "naive-soft", "one-coin", "dawid-skene", "wds", "ibcc")},
    "dawid-skene hierarchical": ("dawid-skene", {"prior": "hierarchical"}),
    "glad": ("glad", {}),
}
FEWER = {"glad": 2}  # maximum iterations: one costs as much as ten of the others


def our_whole(names: Sequence[str]) -> Case:
    """Do what `crowdwise aggregate` does, from a Parquet file to a file of labels (or Krippendorff's alpha).

    Several methods share the reading; each gets answers without any index.
    """

    def job(path: str, iterations: int, *, show: bool = True) -> dict[str, Any]:
        from crowdwise import read

        parts = Parts()
        answers = read(path)
        parts.end("read")
        sizes = {what: getattr(answers, f"n_{what}") for what in ("tasks", "workers", "classes")}
        done: dict[str, Any] = {}
        for name in names:
            done[name] = sizes | fit_method(name, replace(answers), path, iterations, parts)
            if show:  # finished cases count if the process runs out of time
                print(json.dumps({"cases": done}), flush=True)
        return {"cases": done}

    def case(path: str, iterations: int) -> Callable[[], Any]:
        with tempfile.TemporaryDirectory() as folder:  # compiled kernels are loaded before the clock starts
            few = draw(Path(folder) / "few.parquet", 5000, strings="strings" in path)
            job(str(few), min(iterations, 2), show=False)
        return lambda: job(path, iterations)

    return case


def fit_method(name: str, answers: Any, path: str, iterations: int, read: Parts) -> dict[str, float]:
    """Return the figures of reading and of one method."""
    from crowdwise import DawidSkene, evaluate, make
    from crowdwise.io import write
    from crowdwise.truth.tables import label_table

    parts, clock = Parts(), []
    method, parameters = WHOLE[name]
    if method == "reading":
        return read.figures
    if method == "alpha":
        evaluate.krippendorff_alpha(answers)
        parts.end("fit")
        return read.figures | parts.figures
    limits: dict[str, Any] = {"max_iter": min(iterations, FEWER.get(name, iterations)), "tol": 0}
    if method == "wds":
        parameters = {"base": DawidSkene(**limits)}
    elif method not in ("majority-vote", "naive-soft"):
        parameters = parameters | limits
    model = make(method, **parameters)
    model.fit(answers, callback=lambda *_: clock.append((time.perf_counter(), time.process_time())))
    parts.end("fit")
    write(label_table(model), f"{path}.labels.parquet")
    parts.end("write")
    parts.figures["iterations"] = len(clock)
    if len(clock) > 1:
        for i, what in enumerate(("iteration_seconds", "iteration_cpu_seconds")):
            parts.figures[what] = (clock[-1][i] - clock[0][i]) / (len(clock) - 1)
    return read.figures | parts.figures


def bandwidth(path: str, iterations: int) -> Callable[[], Any]:
    """Measure the bytes that two threads move in a[i] = b[i] + 2 c[i] over large arrays, best of six."""
    from crowdwise.truth.kernels.threads import compiled, run

    @compiled
    def triad(first, end, a, b, c):
        for i in range(first, end):
            a[i] = b[i] + 2 * c[i]

    a, b, c = (np.ones(60_000_000) for _ in range(3))

    def job() -> dict[str, float]:
        seconds, cpu = [], []
        for _ in range(6):
            start = time.perf_counter(), time.process_time()
            run(triad, len(a), a, b, c)
            seconds.append(time.perf_counter() - start[0])
            cpu.append(time.process_time() - start[1])
        return {"bytes_a_second": 3 * a.nbytes / min(seconds), "bytes_a_cpu_second": 3 * a.nbytes / min(cpu)}

    return job


# Peers


def crowdkit_whole(method: str, name: str, **parameters: Any) -> Case:
    """Do the same with crowd-kit, as in its documentation: pandas reads, the model fits, pandas writes."""

    def case(path: str, iterations: int) -> Callable[[], Any]:
        import pandas as pd
        from crowdkit import aggregation
        from crowdkit.metrics.data import alpha_krippendorff

        def job() -> dict[str, float]:
            parts = Parts()
            frame = pd.read_parquet(path)
            parts.end("read")
            if name == "alpha":
                alpha_krippendorff(frame)
                parts.end("fit")
                return {"cases": {method: parts.figures}}
            limits = {"n_iter": iterations} if iterations else {}
            labels = getattr(aggregation, name)(**parameters, **limits).fit_predict(frame)
            parts.end("fit")
            labels.to_frame().to_parquet(f"{path}.labels.parquet")
            parts.end("write")
            return {"cases": {method: parts.figures}}

        return job

    return case


def crowdkit_fit(name: str, columns: tuple[str, ...] = CODES, **parameters: Any) -> Case:
    """Fit a method of crowd-kit on a frame."""

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
    """Fit Dawid-Skene of peerannot on its dictionary of dictionaries."""
    from peerannot.models.aggregation.dawid_skene import DawidSkene

    frame = load(path, CODES)
    answers: dict[int, dict[int, int]] = {}
    for task, worker, label in frame.itertuples(index=False):
        answers.setdefault(task, {})[worker] = label
    model = DawidSkene(answers, n_workers=int(frame.worker.max()) + 1, n_classes=int(frame.label.max()) + 1)
    return lambda: model.run(maxiter=iterations, epsilon=0)


def wide_table(path: str) -> tuple[Any, Any]:
    """Return cleanlab's input: a frame (tasks, workers), and smoothed vote shares as classifier output."""
    frame = load(path, CODES)
    wide = frame.pivot(index="task", columns="worker", values="label").astype(float)
    share = np.zeros((len(wide), int(frame.label.max()) + 1))
    np.add.at(share, (frame.task.to_numpy(), frame.label.to_numpy()), 1)
    return wide, (share + 0.5) / (share + 0.5).sum(axis=1, keepdims=True)


def multiannotator(package: str, function: str, **arguments: Any) -> Case:
    """Call a function for several annotators of cleanlab, or of our drop-in, with its defaults."""

    def case(path: str, iterations: int) -> Callable[[], Any]:
        call = getattr(importlib.import_module(f"{package}.multiannotator"), function)
        wide, proba = wide_table(path)
        few = wide.iloc[:50].dropna(axis=1, how="all")
        call(few, proba[:50], **arguments)  # ours is compiled before the clock starts

        def run() -> Any:
            found = call(wide, proba, **arguments)
            return found[0] if isinstance(found, tuple) else found["label_quality"].to_numpy(float)

        return run

    return case


def cleanlab_quality(path: str, iterations: int) -> Callable[[], Any]:
    """Compute label and worker quality with cleanlab: its wide table, smoothed vote shares as classifier output."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    wide, proba = wide_table(path)
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
    "ours bandwidth": bandwidth,
    **{f"ours whole {name}": our_whole([name]) for name in WHOLE},
    "ours whole together": our_whole(list(WHOLE)),
    **{
        f"crowd-kit whole {method}": crowdkit_whole(method, name, **parameters)
        for method, name, parameters in (
            ("alpha", "alpha", {}),
            ("majority-vote", "MajorityVote", {}),
            ("one-coin", "OneCoinDawidSkene", {"tol": -1e9}),
            ("dawid-skene", "DawidSkene", {"tol": -1e9}),
            ("glad", "GLAD", {"silent": True, "tol": -1e9}),
        )
    },
    "crowd-kit dawid-skene": crowdkit_fit("DawidSkene", tol=-1e9),
    "crowd-kit end-to-end": crowdkit_fit("DawidSkene", STRINGS, tol=-1e9),
    "crowd-kit one-coin": crowdkit_fit("OneCoinDawidSkene", tol=-1e9),
    "crowd-kit glad": crowdkit_fit("GLAD", silent=True, tol=-1e9),
    "crowd-kit mace": crowdkit_fit("MACE", n_restarts=1, random_state=0),
    "peerannot dawid-skene": peerannot_ds,
    "cleanlab quality": cleanlab_quality,
    **{
        f"{side} multiannotator {name}": multiannotator(package, function, **arguments)
        for side, package in (("ours", "crowdwise.compat.cleanlab"), ("cleanlab", "cleanlab"))
        for name, function, arguments in (
            ("quality", "get_label_quality_multiannotator", {"verbose": False}),
            ("active", "get_active_learning_scores", {}),
        )
    },
}


def main() -> None:
    """Run one case and print its time and memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("data")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    run = CASES[options.case](options.data, options.iterations)
    seconds, cpu_seconds = [], []
    for _ in range(options.repeats):
        start, cpu_start = time.perf_counter(), time.process_time()
        result = run()
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    if options.out and isinstance(result, np.ndarray):
        np.save(options.out, result)
    figures = result if isinstance(result, dict) else {}
    times = {"seconds": min(seconds), "first": seconds[0], "cpu_seconds": min(cpu_seconds)}
    print(json.dumps({**times, "peak_mb": peak_mb(), **figures}))


def peak_mb() -> float:
    """Return the peak memory of this process; `ru_maxrss` would include that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
