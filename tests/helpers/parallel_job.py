"""The jobs of the tests of training on several processes: `python -m tests.helpers.parallel_job FOLDER`.

Each job runs in a process group and in a single process. Every process writes its results to FOLDER. Processes are
forked, so that torch is imported once.
"""

import multiprocessing
import os
import socket
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # the first optimiser imports it; here, once for all processes
from torch.optim.optimizer import register_optimizer_step_pre_hook

import crowdwise as cw
from crowdwise._core.registry import methods
from crowdwise.errors import CrowdwiseWarning, ParameterError
from crowdwise.learn.network import distributed
from crowdwise.learn.network.batches import Batch
from reproduction.baselines.graph_completion import GraphCompletion
from reproduction.baselines.irgan import IRGAN
from tests.helpers.crowds import answers_of, blobs, uneven

FEW = {
    "epochs": 2, "max_iter": 2, "batch_size": 33, "lr": 0.01, "weight_epochs": 2, "rounds": 1, "iterations": 1,
    "warmup_epochs": 1, "decoder_epochs": 1, "generator_epochs": 1, "discriminator_epochs": 1, "adversarial_epochs": 1,
    "steps": 1,
}  # fmt: skip
# A bias before a batch normalisation has a gradient of 0 up to rounding, which Adam would turn into full steps.
SGD_ONLY = ("crowding", "normalised", "several, normalised", "images", "own")
RECORDED = 2  # steps of each training whose gradients are recorded


def data(n_tasks=93):
    X, truth = blobs(n_tasks=n_tasks, n_features=9)  # the default network then has a hidden layer with dropout
    return X, answers_of(truth, uneven())


def reset(model, parameters):
    """Set those parameters that the model, or its base, has."""
    known = model.get_params()
    own = {k: v for k, v in parameters.items() if k in known}
    return model.set_params(**own, **{f"base__{k}": v for k, v in parameters.items() if f"base__{k}" in known})


def learners():
    """Every registered learner with few steps, and variants that take other paths through the code."""
    every = {m.name: cw.make(m.name) for m in methods("classes") if m.needs_features}
    for model in every.values():
        if isinstance(getattr(model, "base", None), str):
            model.set_params(base=cw.make(model.base))
    images = cw.CNN(channels=(4,), hidden=8)
    every |= {
        "logistic": cw.CrowdLayer(network="logistic"),
        "vectors": cw.CrowdLayer("vw+b", loss="focal", sampling="resample"),
        "normalised": cw.AnnoReg(network=cw.MLP(16, batchnorm=True), clip=0.1, weight_decay=0.01),
        "several": cw.CoNAL(n_models=3, loss="reweight"),
        "several, normalised": cw.CrowdInG(n_models=2, network=cw.MLP(8, batchnorm=True), two_step=False),
        "images": cw.CrowdLayer(network=images),
        "own": cw.CoNAL(network=own_network()),
        "weights of others": cw.DoctorNet(exclude_self=True, n_models=2),
        "volume of matrices": cw.GeoCrowdNet("W"),
        "shares learnt": cw.MaxMIG(learn_prior=True, n_models=2),
        "hidden layers": cw.ICED(decode=False),
        "held out": cw.CrowdLayer(select="held_out", patience=1),
        "networks apart": cw.DASC(cw.CrowdLayer(n_models=2), apart=True, hidden=0.0),
        "adaptive by a network": cw.AdaptiveDifficultyEM(network="mlp"),
        "cross-fitted": cw.AggNet(cross_fit=2, calibrate=True),
        "a graph": GraphCompletion(),
        "a game": IRGAN(),
        "ambiguity": cw.WAUM(),
        "without kernels": cw.CoNAL(),
    }
    for model in every.values():
        reset(model, FEW)
    for name in SGD_ONLY:
        every[name].set_params(optimizer="sgd")
    every["hidden layers"].set_params(decoder_epochs=10)  # of a learner without a decoder
    return every


def own_network():
    """A user's module with batch normalisation of torch, and random weights that differ between processes."""
    return torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.BatchNorm1d(8, momentum=None), torch.nn.Linear(8, 3))


def every_learner(results):
    steps = {}  # gradients by optimiser, in the order of the trainings

    def record(optimiser, *_):
        each = steps.setdefault(optimiser, [])
        parameters = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        each.append([p.grad.clone().numpy() for p in parameters] if len(each) < RECORDED else None)

    register_optimizer_step_pre_hook(record)
    X, answers = data()
    supports_fused = Batch.supports_fused
    torch.manual_seed(0)
    models = learners()
    for name, model in models.items():
        steps.clear()
        Batch.supports_fused = property(lambda self: False) if name == "without kernels" else supports_fused
        rows = np.tile(X[:, None, :, None], (1, 1, 1, 6)) if name == "images" else X
        model.fit(rows, answers)
        for training, each in enumerate(steps.values()):
            for step, gradients in enumerate(each[:RECORDED]):
                results |= {f"{name}/gradient/{training}/{step}/{i}": slope for i, slope in enumerate(gradients)}
        results[f"{name}/steps"] = np.array([len(each) for each in steps.values()])
        results[f"{name}/proba"] = model.proba_
        inner = model
        while hasattr(inner, "model_"):
            inner = inner.model_
        if hasattr(inner, "module_"):
            results |= {f"{name}/state/{k}": v.numpy() for k, v in inner.module_.state_dict().items()}


def three_processes(results):
    """Parts of unequal size, errors, a checkpoint that only the first process can read, and fits of one process."""
    X, answers = data()
    group = distributed.current()
    rank = 0 if group is None else group.rank
    model = cw.AnnoReg(epochs=2, batch_size=31, network=cw.MLP(8, batchnorm=True), optimizer="sgd").fit(X, answers)
    results |= {f"uneven/{k}": v.numpy() for k, v in model.module_.state_dict().items()}
    torch.manual_seed(rank)  # all start from the weights of the first process
    own = cw.CrowdLayer(epochs=1, network=torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(9, 3)))
    results["own dropout"] = own.fit(X, answers).proba_
    if group is None:
        return
    results["errors"] = np.array(sum(text in error_message(fit, X, answers) for text, fit in ERRORS.items()))
    folder = Path(sys.argv[1])
    cw.CrowdLayer(epochs=2, checkpoint=folder / "state").fit(X, answers)
    path = folder / "state" if rank == 0 else folder / "nowhere" / "deep" / "state"
    seen = []
    callback = lambda record: seen.append(record["epoch"])  # noqa: E731
    resumed = cw.CrowdLayer(epochs=2, checkpoint=path).fit(X, answers, callback=callback)
    with distributed.alone():
        alone = cw.CrowdLayer(epochs=1 + rank, random_state=rank).fit(X, answers)
    results |= {"resumed epochs": np.array(seen), "resumed": resumed.proba_, "alone": np.array(len(alone.history_))}


def error_message(fit, X, answers):
    try:
        fit(distributed.current().rank, X, answers)
    except ParameterError as error:
        return str(error)
    return ""


ERRORS = {
    "different data or settings": lambda rank, X, a: cw.CrowdLayer(lr=0.1 + 0.1 * (rank == 2)).fit(X, a),
    "must call fit with the same arguments": lambda rank, X, a: cw.CrowdLayer().fit(X + (rank == 1), a),
    "a batch of 2 tasks is too small for 3 processes": lambda rank, X, a: cw.CrowdLayer().fit(X[:2], a[:2]),
    "batch_size=2). Use fewer": lambda rank, X, a: cw.CrowdLayer(batch_size=2).fit(X, a),
}
JOBS = {every_learner: 2, three_processes: 3}  # job: number of processes in the group


def process(job, rank, size, port):
    """Run a job as one process of a group, or as a single process."""
    warnings.simplefilter("ignore", CrowdwiseWarning)
    if size > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        torch.distributed.init_process_group("gloo")
    results = {}
    job(results)
    np.savez(Path(sys.argv[1]) / f"{job.__name__}-{'alone' if size == 1 else rank}.npz", **results)
    if size > 1:
        torch.distributed.destroy_process_group()


def run(job, size):
    """Run a job in a single process and in a group of `size`; return whether all succeeded."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    arguments = [(job, 0, 1, port), *((job, rank, size, port) for rank in range(size))]
    processes = [fork.Process(target=process, args=each) for each in arguments]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    return not any(each.exitcode for each in processes)


if __name__ == "__main__":
    sys.exit(not all(run(job, size) for job, size in JOBS.items()))
