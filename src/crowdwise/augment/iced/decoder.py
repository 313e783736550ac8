"""Decodes a network's hidden layer to features: an autoencoder whose encoder is the classifier.

z = G(x)                      the hidden layers of all `n_models` networks, concatenated
loss = mean over tasks and features of (Q(z) - x~)^2,    x~ the features standardised to mean 0 and variance 1

Only Q is trained: an encoder that also learns to reconstruct forgets what it has learnt to classify.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crowdwise.errors import FeaturesError
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.network.batches import Batch, Batches
from crowdwise.learn.network.modules import Dense, Network
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.learn.network.training import CrowdModule, Settings, Trainer

BLOCK = 4096  # tasks at a time
SEED = 202  # separates the random numbers of the decoder from those of the network


class Autoencoder(CrowdModule):
    """The network's hidden layers as the encoder, and a decoder with one hidden layer of the same width.

    Parameters
    ----------
    network : Network
        The classifier, on the device where it is trained.
    features : Features
        Features to decode to: rows of numbers.
    seed : int
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, network: Network, features: Features, seed: int) -> None:
        super().__init__(network, 0)
        if len(features.shape) > 1:
            message = (
                f"X has rows of shape {tuple(features.shape)}; only rows of numbers can be decoded. Use decode=False, "
                f"which creates tasks only in the hidden layer, or X.reshape(len(X), -1)."
            )
            raise FeaturesError(message)
        mean, scale = mean_and_scale(features)
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float32))
        width = self.n_models * network.width
        self.decoder = Dense(width, [width], len(mean), 1, seed + SEED, standardise=False)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean squared error of the features; all models have the same rows."""
        self.network.eval()  # no dropout, no running means
        with torch.no_grad():
            z = concatenate_models(self.network.embed(batch.x.expand(self.n_models, *batch.x.shape[1:])))
        error = self.decoder(z[None])[0] - (batch.x[0] - self.mean) * self.scale  # (rows, features)
        return batch.gather_rows(error[None]).square().mean()

    def train_on(self, batches: Batches, settings: Settings, epochs: int, *, phase: int) -> None:
        """Train the decoder."""
        settings = replace(settings, epochs=epochs, scheduler=None, patience=None)
        Trainer(self, batches, settings, phase=phase, parameters=list(self.decoder.parameters())).run()

    def decode(self, z: Array) -> Array:
        """Return features (rows, features) from hidden layers (rows, models * width)."""
        self.eval()
        out = np.empty((len(z), len(self.mean)), np.float32)
        with torch.no_grad():
            for first in range(0, len(z), BLOCK):
                block = torch.from_numpy(z[first : first + BLOCK]).to(self.mean.device)
                out[first : first + BLOCK] = (self.decoder(block[None])[0] / self.scale + self.mean).cpu().numpy()
        return out


def encode(network: Network, features: Features, device: str) -> Array:
    """Return the hidden layers (rows, models * width) of all rows."""
    network.eval()
    out = np.empty((features.n_rows, network.n_models * network.width), np.float32)
    done = 0
    with torch.no_grad():
        for block in features.blocks(BLOCK):
            x = torch.from_numpy(block).to(device)
            hidden = network.embed(x[None].expand(network.n_models, *x.shape))
            out[done : done + len(block)] = concatenate_models(hidden).cpu().numpy()
            done += len(block)
    return out


def concatenate_models(hidden: Tensor) -> Tensor:
    """Return (models, rows, width) as (rows, models * width)."""
    return hidden.transpose(0, 1).flatten(1)
