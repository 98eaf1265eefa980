"""A multilayer perceptron from flat observations to the logits of actions, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from voville_env.core.codes import Action
from voville_env.core.mixing import mix

ACTIONS = len(Action)
Floats = NDArray[np.float32]


class Activation(StrEnum):
    """What stands between two layers."""

    TANH = "tanh"
    RELU = "relu"


@dataclass(frozen=True)
class Layer:
    """One affine layer.

    Attributes:
        weight: `(out, in)` float32.
        bias: `(out,)` float32.
    """

    weight: Floats
    bias: Floats


@dataclass(frozen=True)
class Network:
    """The policy head of an actor-critic; the value head is not needed to play.

    Attributes:
        layers: The hidden layers, then the one of the logits.
        activation: What stands between them.
    """

    layers: tuple[Layer, ...]
    activation: Activation = Activation.TANH

    @property
    def size(self) -> int:
        """Width of the input."""
        return int(self.layers[0].weight.shape[1])

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return tuple(len(layer.bias) for layer in self.layers[:-1])

    def logits(self, flat: Floats) -> Floats:
        """Runs the network.

        Args:
            flat: `(K, size)` float32, one row an agent.

        Returns:
            `(K, 10)` float32, unmasked.
        """
        values = flat
        for layer in self.layers[:-1]:
            values = values @ layer.weight.T + layer.bias
            if self.activation is Activation.TANH:
                np.tanh(values, out=values)
            else:
                np.maximum(values, 0, out=values)
        last = self.layers[-1]
        return values @ last.weight.T + last.bias


def greedy(logits: Floats, masks: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The likeliest possible action, the first of several.

    Args:
        logits: `(K, 10)`.
        masks: `(K, 10)`, at least one possible action a row.

    Returns:
        `(K,)` actions.
    """
    found: NDArray[np.intp] = np.argmax(np.where(masks, logits, -np.inf), axis=1)
    return found


def sample(logits: Floats, masks: NDArray[np.bool_], lots: NDArray[np.float64]) -> NDArray[np.intp]:
    """Draws possible actions from the softmax of their logits.

    Args:
        logits: `(K, 10)`.
        masks: `(K, 10)`, at least one possible action a row.
        lots: `(K,)` uniform numbers from 0 to below 1.

    Returns:
        `(K,)` actions.
    """
    wide = np.where(masks, logits.astype(np.float64), -np.inf)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    steps = np.cumsum(weights, axis=1)
    found = (steps <= (lots * steps[:, -1])[:, None]).sum(axis=1)
    last = ACTIONS - 1 - np.argmax(masks[:, ::-1], axis=1)  # a lot that rounds up to the total
    chosen: NDArray[np.intp] = np.minimum(found, last)
    return chosen


def lots(seed: int, agents: NDArray[np.uint64], when: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniform numbers that depend on their arguments alone (splitmix64).

    Args:
        seed: Of the episode.
        agents: `(K,)` numbers of the agents.
        when: `(K,)` a number for each step of the run.

    Returns:
        `(K,)` from 0 to below 1.
    """
    key = np.full(len(agents), seed % 2**64, np.uint64)
    for part in (agents, when):
        key = mix(mix(key) ^ part)
    return (key >> np.uint64(11)).astype(np.float64) * 2.0**-53
