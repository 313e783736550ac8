"""The options that all network learners share, and their defaults."""

from __future__ import annotations

from typing import Literal, TypedDict

from crowdwise.learn.network.architectures import Spec
from crowdwise.learn.network.imbalance import Loss
from crowdwise.learn.network.training import Scheduler


class TrainingOptions(TypedDict, total=False):
    """Options of every network learner.

    network : spec, name, torch module or None
        The classifier: `Logistic()`, `MLP()`, `CNN()`, their names, or a module that returns logits. None selects the
        default for the shape of X.
    epochs : int or "auto"
        Number of passes over the tasks. "auto" finds how long to train on held-out answers, together with the scale of
        the features, then trains on all answers; see `training_length`. The search takes at most twice as many steps as
        the training it finds. `epochs_`, `n_steps_` and `training_search_` show the result. With a number nothing is
        searched.
    weight_decay : float or "auto"
        Weight decay of the network; it does not apply to the parameters of workers. "auto" is 5e-4 for `Logistic` and
        `MLP` with `epochs="auto"`, otherwise 0.
    batch_size, lr, optimizer, scheduler, clip
        Training settings. `scheduler` is "cosine", "step", "cyclic", or a function from the fraction of epochs
        completed to a factor of `lr`; `clip` limits the norm of the gradient.
    loss : {"ce", "focal", "cb_focal", "reweight"}
        Loss on the answers; all but "ce" are for imbalanced classes.
    sampling : {None, "resample"}
        Whether answers are sampled so that each label is equally frequent.
    select : {"last", "held_out", "validation"}
        Which epoch to keep: the last, the one with the highest likelihood of held-out answers (a fraction `hidden` of
        all answers), or the most accurate one on the `validation` tasks passed to `fit`.
    patience : int or None
        Stop after this many epochs without improvement, unless select="last".
    n_models : int
        Number of networks to train at once, from different seeds; predictions are their mean.
    device : str
        "cpu", "cuda", ...
    checkpoint : path or None
        File that stores the state after each epoch; a fit that finds it resumes from there.
    random_state : int
        Seed. The same seed gives the same numbers, bit for bit, on one thread. If torch uses several threads
        (predictions, and networks with at least 20 million multiplications per batch), the order of sums may differ:
        predictions then agree to 1e-6, and to 1e-4 after training on several threads.
    """

    network: Spec
    epochs: int | Literal["auto"]
    batch_size: int
    lr: float
    weight_decay: float | Literal["auto"]
    optimizer: Literal["adam", "adamw", "sgd"]
    scheduler: Scheduler
    clip: float | None
    loss: Loss
    sampling: Literal["resample"] | None
    select: Literal["last", "held_out", "validation"]
    hidden: float
    patience: int | None
    n_models: int
    device: str
    checkpoint: str | None
    random_state: int


DEFAULTS: TrainingOptions = {
    "network": None, "epochs": "auto", "batch_size": 64, "lr": 1e-3, "weight_decay": "auto", "optimizer": "adam",
    "scheduler": None, "clip": None, "loss": "ce", "sampling": None, "select": "last", "hidden": 0.1, "patience": None,
    "n_models": 1, "device": "cpu", "checkpoint": None, "random_state": 0,
}  # fmt: skip
