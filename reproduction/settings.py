"""How networks are trained on each data set: what the papers say, as far as features instead of images allow.

    labelme     FC128, dropout .5, features as they are, Adam 1e-3, batch 51, 25 epochs, weight decay 5e-4: the steps of
                DASC's 25 epochs on 10,000 augmented images in batches of 512
    music       FC128 with batch normalisation, Adam 1e-3 (Weighted Doctor Net 1e-2), batch 128, 100 epochs
    cifar10h    FC128 on fixed features (the papers fine-tune a ResNet18 or VGG16), Adam 1e-3, batch 128, 50 epochs,
                weight decay 5e-4
    heavy       FC128 (the paper: FC1000 at a rate lost in print), Adam 1e-3, batch 128, 50 epochs
    product     the same, batch 512, 25 epochs
    cifar10n    as cifar10h, 25 epochs: three times its tasks
    leaves, and long-tailed digits, usps, gas_drift      no paper's: FC128, Adam 1e-3, batch 64, 50 epochs

Whatever a paper leaves open is what the learners take by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crowdwise._core.registry import make as make_method
from crowdwise.learn.network.architectures import MLP
from reproduction.cells import Cell, Method, Setting
from reproduction.problems import Problem, load_problem

Make = Callable[[Setting], Any]

TRAINING: dict[str, dict[str, Any]] = {
    "digits": {"network": MLP(), "epochs": 25, "batch_size": 64},
    "labelme": {"network": MLP(standardise=False), "epochs": 25, "batch_size": 51, "weight_decay": 5e-4},
    "music": {"network": MLP(batchnorm=True), "epochs": 100, "batch_size": 128},
    "cifar10h": {"network": MLP(), "epochs": 50, "batch_size": 128, "weight_decay": 5e-4},
    "cifar10h-103": {"network": MLP(), "epochs": 25, "batch_size": 128, "weight_decay": 5e-4},
    "heavy": {"network": MLP(), "epochs": 50, "batch_size": 128},
    "product": {"network": MLP(), "epochs": 25, "batch_size": 512},
    "cifar10n": {"network": MLP(), "epochs": 25, "batch_size": 128, "weight_decay": 5e-4},
    **{
        data: {"network": MLP(), "epochs": 50, "batch_size": 64}
        for data in ("leaves", "digits-tail", "usps-tail", "gas_drift-tail")
    },
}


def training(setting: Setting) -> dict[str, Any]:
    """Options of the training loop on the data set of a setting."""
    data = setting.data
    found = TRAINING[data if data in TRAINING else data.partition("-")[0]]  # heavy-2, product-folds
    own = {"random_state": setting.seed, "n_models": setting.n_models, "epochs": setting.epochs(found["epochs"])}
    return {**found, **own}


def learner(name: str, **options: Any) -> Make:
    """A learner by its name, trained as the data set asks for; `options` go before."""

    def make(setting: Setting) -> Any:
        given = training(setting)
        if name == "doctornet" and setting.data == "music":
            given["lr"] = 1e-2
        if name == "doctornet" and setting.quick:
            given["weight_epochs"] = 10
        return make_method(name, **{**given, **options})

    return make


def aggregated(truth: Any, **options: Any) -> Make:
    """A network on the labels of a truth method."""
    return lambda setting: make_method("aggregated", truth=truth, **{**training(setting), **options})


CEILING = Method(aggregated("majority-vote", soft=False), together=True, truth=True)


def prepare(methods: Mapping[str, Method], cell: Cell) -> tuple[Any, Problem]:
    """The model of a cell, and what it is fitted to and tested on."""
    method, problem = methods[cell.method], load_problem(cell.problem, cell.seeds[0])
    model = method.make(Setting(cell.problem, cell.seeds[0], len(cell.seeds), cell.quick))
    return model, problem.with_truth_told() if method.truth else problem
