"""How networks are trained on each data set: as in the papers, as far as fixed features instead of images allow.

    labelme     FC128, dropout .5, raw features, Adam 1e-3, batch 51, 25 epochs, weight decay 5e-4: the steps of
                DASC's 25 epochs on 10,000 augmented images in batches of 512
    music       FC128 with batch normalisation, Adam 1e-3 (Weighted Doctor Net 1e-2), batch 128, 100 epochs
    cifar10h    FC128 on fixed features (the papers fine-tune a ResNet18 or VGG16), Adam 1e-3, batch 128, 50 epochs,
                weight decay 5e-4
    heavy       FC128 (the paper: FC1000 at an illegible rate), Adam 1e-3, batch 128, 50 epochs
    product     the same, batch 512, 25 epochs
    cifar10n    as cifar10h, 25 epochs: three times its tasks
    leaves, and long-tailed digits, usps, gas_drift      from no paper: FC128, Adam 1e-3, batch 64, 50 epochs

What a paper leaves open is the default of the learners.
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
    """Return the options of the training loop for the data set of a setting."""
    data = setting.data
    found = TRAINING[data if data in TRAINING else data.partition("-")[0]]  # heavy-2, product-folds
    own = {"random_state": setting.seed, "n_models": setting.n_models, "epochs": setting.epochs(found["epochs"])}
    return {**found, **own}


def learner(name: str, **options: Any) -> Make:
    """Return a maker of a learner, with the training of the data set; `options` take precedence."""

    def make(setting: Setting) -> Any:
        chosen = training(setting)
        if name == "doctornet" and setting.data == "music":
            chosen["lr"] = 1e-2
        if name == "doctornet" and setting.quick:
            chosen["weight_epochs"] = 10
        return make_method(name, **{**chosen, **options})

    return make


def aggregated(truth: Any, **options: Any) -> Make:
    """Return a maker of a network trained on the labels of a truth method."""
    return lambda setting: make_method("aggregated", truth=truth, **{**training(setting), **options})


CEILING = Method(aggregated("majority-vote", soft=False), together=True, truth=True)


def prepare(methods: Mapping[str, Method], cell: Cell) -> tuple[Any, Problem]:
    """Return the model and the problem of a cell."""
    method, problem = methods[cell.method], load_problem(cell.problem, cell.seeds[0])
    model = method.make(Setting(cell.problem, cell.seeds[0], len(cell.seeds), cell.quick))
    return model, problem.with_true_answers() if method.truth else problem
