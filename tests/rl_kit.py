"""Small networks with random weights, for tests that need none that was trained."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pave_policy.rl.network import ACTIONS, Activation, Layer, Network
from pave_policy.rl.weight_file import Metadata, save_weights
from voville_env.flat import FLAT_SIZE


def network(
    seed: int = 0, hidden: tuple[int, ...] = (8, 8), activation: Activation = Activation.TANH
) -> Network:
    draws = np.random.default_rng(seed)
    sizes = [FLAT_SIZE, *hidden, ACTIONS]
    layers = tuple(
        Layer(
            draws.normal(0, 0.3, (out, width)).astype(np.float32),
            draws.normal(0, 0.3, out).astype(np.float32),
        )
        for width, out in pairwise(sizes)
    )
    return Network(layers, activation)


def weights_file(folder: Path, seed: int = 0, name: str = "weights.npz", **metadata: Any) -> Path:
    path = folder / name
    save_weights(path, network(seed), Metadata(**metadata))
    return path
