"""Training loops to compare ours with: the bare network, and the crowd layers of crowd-kit and peerannot.

Runs in the peers' environment as a server for `learn_speed.py`: a line of JSON asks for a measurement, a line of JSON
answers. So both sides take turns on the same machine without reloading their data. The bare network runs in our
environment; it is in this file because it shares the network and the loop with crowd-kit's layers.

    bare                one label per task: the lower limit
    crowd-kit           one answer per row (features of the task, worker, label), as in its notebook
                        examples/Learning.ipynb: cross-entropy of the layer's output; CoNAL reads the last hidden layer
    peerannot           its own `run_epoch` on its own dense targets, tasks x workers, -1 where there is no answer

    , loader            batches by a DataLoader, as in the notebook and in peerannot; rows of a tensor, no files read
    , gathered          batches gathered by index, the fastest way in plain torch; as the bare network
    , same steps        as gathered, with as many rows per batch as the tasks of a batch have answers

All train the same network in batches of the same size with a fused Adam, which is faster than peerannot's default.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.files import ROOT

CAP_GB = 8  # memory limit of a peer
SAMPLE = 30  # batches timed where an epoch has many more
Batches = Callable[[], Iterable[Any]]  # one epoch
Case = tuple[Callable[[Iterable[Any]], Any], Batches, int]  # train on batches; the batches; how many make an epoch


@lru_cache(maxsize=2)
def load(folder: str) -> SimpleNamespace:
    """Return features, answers and one label per task, as tensors."""
    arrays = np.load(Path(folder) / "answers.npz")
    data = {name: torch.from_numpy(arrays[name].astype(np.int64)) for name in ("task", "worker", "label", "voted")}
    tasks, workers, classes = (int(n) for n in arrays["sizes"])
    x = torch.from_numpy(np.load(Path(folder) / "x.npy"))
    return SimpleNamespace(x=x, tasks=tasks, workers=workers, classes=classes, folder=folder, **data)


def network(data: SimpleNamespace) -> nn.Sequential:
    """Return the network that all cases train."""
    return nn.Sequential(nn.Linear(data.x.shape[1], 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, data.classes))


def train(loss_of: Callable[..., Tensor], optimiser: torch.optim.Optimizer, batches: Iterable[Any]) -> float:
    """Train with a plain loop and return the summed loss."""
    total = torch.zeros(())
    for batch in batches:
        loss = loss_of(*batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.detach()
    return float(total)


def gathered(x: Tensor, row: Tensor | None, columns: tuple[Tensor, ...], size: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield one epoch of shuffled batches; the features of entry i are x[row[i]], or x[i]."""
    for index in torch.randperm(len(columns[0])).split(size):
        rows = index if row is None else row.index_select(0, index)
        yield x.index_select(0, rows), *(column.index_select(0, index) for column in columns)


class AnswerRows(Dataset):  # type: ignore[type-arg]
    """One answer per row."""

    def __init__(self, data: SimpleNamespace) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data.task)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.data.x[self.data.task[i]], self.data.worker[i], self.data.label[i]


def bare(data: SimpleNamespace, size: int, feed: str) -> Case:
    """Return the network alone, on one label per task."""
    net = network(data)
    adam = torch.optim.Adam(net.parameters(), fused=True)
    step = partial(train, lambda x, y: functional.cross_entropy(net(x), y), adam)
    return step, partial(gathered, data.x, None, (data.voted,), size), -(-data.tasks // size)


def crowdkit(kind: str, data: SimpleNamespace, size: int, feed: str) -> Case:
    """Return a layer of crowd-kit, with one answer per row."""
    # Another layer of crowd-kit imports transformers, which breaks on a torchvision built for another torch.
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]
    from crowdkit.learning import CoNAL, CrowdLayer

    net = network(data)
    body, head = net[:-1], net[-1]
    if kind == "CrowdLayer":
        layer: nn.Module = CrowdLayer(data.classes, data.workers, conn_type="mw")

        def loss_of(x: Tensor, worker: Tensor, label: Tensor) -> Tensor:
            return functional.cross_entropy(layer(net(x), worker), label)

    else:
        layer = CoNAL(data.classes, data.workers)

        def loss_of(x: Tensor, worker: Tensor, label: Tensor) -> Tensor:
            hidden = body(x)
            return functional.cross_entropy(layer(hidden, head(hidden), worker), label)

    if feed == "same steps":
        size = round(size * len(data.task) / data.tasks)
    loss_of(data.x[:2], data.worker[:2], data.label[:2])  # sets the width of CoNAL's lazy layer
    free = [p for p in (*net.parameters(), *layer.parameters()) if p.requires_grad]
    step = partial(train, loss_of, torch.optim.Adam(free, fused=True))
    if feed == "loader":
        batches: Batches = partial(iter, DataLoader(AnswerRows(data), batch_size=size, shuffle=True))
    else:
        batches = partial(gathered, data.x, data.task, (data.worker, data.label), size)
    return step, batches, -(-len(data.task) // size)


@lru_cache(maxsize=1)
def dense_targets(folder: str) -> Tensor:
    """Return targets (tasks, workers) as peerannot builds them from its dictionary of dictionaries."""
    from peerannot.models.agg_deep.Crowdlayer import reformat_labels

    data = load(folder)
    votes: dict[int, dict[int, int]] = {task: {} for task in range(data.tasks)}
    for task, worker, label in zip(data.task.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        votes[task][worker] = label
    return torch.from_numpy(reformat_labels(votes, data.workers))


def peerannot(kind: str, data: SimpleNamespace, size: int, feed: str) -> Case:
    """Return a layer of peerannot, trained by its own code."""
    from peerannot.models.agg_deep.CoNAL import CoNAL, CoNAL_net
    from peerannot.models.agg_deep.Crowdlayer import Crowdlayer, Crowdlayer_net

    net, width = network(data), data.x.shape[1]
    targets = dense_targets(data.folder)
    criterion = nn.CrossEntropyLoss(ignore_index=-1)
    itself = SimpleNamespace(n_classes=data.classes, n_workers=data.workers, scale=1e-5)
    if kind == "CrowdLayer":
        model: nn.Module = Crowdlayer_net(data.classes, data.workers, net)
        adams = [torch.optim.Adam(p, fused=True) for p in (net.parameters(), [model.confusion])]
        run_epoch = Crowdlayer.run_epoch
    else:
        model = CoNAL_net(width, data.classes, data.workers, net, annotator_dim=data.workers, embedding_dim=20)
        adams = [torch.optim.Adam(model.parameters(), fused=True)]
        run_epoch = CoNAL.run_epoch

    def step(batches: Iterable[Any]) -> None:
        run_epoch(itself, model, batches, criterion, *adams, {"train_loss": []})

    if feed == "loader":
        batches: Batches = partial(iter, DataLoader(TensorDataset(data.x, targets), batch_size=size, shuffle=True))
    else:
        batches = partial(gathered, data.x, None, (targets,), size)
    return step, batches, -(-data.tasks // size)


PEERS = {
    f"{package} {kind}, {feed}": (partial(make, kind), feed)
    for kind in ("CrowdLayer", "CoNAL")
    for package, make, feeds in (
        ("crowd-kit", crowdkit, ("loader", "gathered", "same steps")),
        ("peerannot", peerannot, ("loader", "gathered")),
    )
    for feed in feeds
}
CASES = {"bare network": (bare, "gathered"), **PEERS}


def time_epochs(case: Case, epochs: int, *, sample: bool) -> dict[str, Any]:
    """Return seconds per epoch: the median after a warm-up epoch, or extrapolated from some batches if long."""
    step, batches, n_batches = case
    if sample and n_batches > 2 * SAMPLE:
        stream = iter(batches())
        step(islice(stream, 3))
        start = time.perf_counter()
        step(islice(stream, SAMPLE))
        return {"seconds": (time.perf_counter() - start) * n_batches / SAMPLE, "of": [SAMPLE, n_batches]}
    seconds = []
    for _ in range(epochs + 1):
        start = time.perf_counter()
        step(batches())
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds[1:])}


def growth(run: Callable[[str], Any], small: str, folder: str) -> dict[str, Any]:
    """Return the peak memory of a run beyond its data, after a run on small data that loads all code."""
    run(small)
    load(folder)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = status_mb("VmRSS")
    run(folder)
    return {"growth_mb": status_mb("VmHWM") - before}


def status_mb(field: str) -> float:
    """Return a field of /proc/self/status in MB."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request."""
    if request["case"] == "versions":
        return {name: importlib.metadata.version(name) for name in ("crowd-kit", "peerannot", "torch")}
    torch.set_num_threads(request["threads"])
    make, feed = CASES[request["case"]]
    if "small" in request:

        def few(folder: str) -> None:
            step, batches, _ = make(load(folder), request["batch"], feed)
            step(islice(batches(), 5))

        return growth(few, request["small"], request["data"])
    case = make(load(request["data"]), request["batch"], feed)
    return time_epochs(case, request["epochs"], sample=request["case"] in PEERS)


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer requests, one line of JSON each, until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the replies
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(reply), file=out, flush=True)


class Server:
    """A process that answers requests; restarted when it dies."""

    def __init__(self, *command: str) -> None:
        self.command = command
        self.start()

    def start(self) -> None:
        """Start the process."""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request."""
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.close()
            self.start()
            return {"error": "the process was killed"}
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (CAP_GB << 30, CAP_GB << 30))
    serve(measure)
