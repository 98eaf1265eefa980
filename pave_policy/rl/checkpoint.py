"""Reads the policy out of a checkpoint of Stable-Baselines3, without running what is in it.

A checkpoint holds pickled objects beside its tensors. They are not needed, so they are never
unpickled: torch reads the tensors with `weights_only`.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from pave_policy.rl.network import Activation, Layer, Network
from pave_policy.rl.weight_file import MOST_BYTES, Metadata, check_network
from voville_env.errors import InvalidValueError, MissingExtraError

_HIDDEN = "mlp_extractor.policy_net."
_HEAD = "action_net"
_VALUE = ("mlp_extractor.value_net.", "value_net.")


def read_checkpoint(content: bytes, name: str) -> tuple[Network, Metadata]:
    """Reads a checkpoint.

    Args:
        content: The `.zip` file.
        name: Its name, for messages.

    Returns:
        The policy head, and what little a checkpoint says of itself: the layout of observations is
        checked by its width alone.

    Raises:
        InvalidValueError: If it holds no multilayer perceptron from flat observations to actions.
        MissingExtraError: If torch is not installed.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(item.file_size for item in archive.infolist()) > MOST_BYTES:
                raise InvalidValueError(f"weights {name!r} unpack to more than {MOST_BYTES} bytes")
            tensors = archive.read("policy.pth")
            data = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        if isinstance(error, InvalidValueError):
            raise
        raise InvalidValueError(
            f"weights {name!r} are no checkpoint of Stable-Baselines3: {error}"
        ) from error
    activation = _activation(data, name)
    network = network_of(_arrays(tensors, name), activation, name)
    return network, Metadata(activation=activation.value, algorithm="ppo")


def _arrays(tensors: bytes, name: str) -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            f"weights {name!r} are a checkpoint of Stable-Baselines3, which needs torch: "
            "pip install 'voville[rl]'; the .npz file beside it needs neither"
        ) from error
    try:
        state = torch.load(io.BytesIO(tensors), map_location="cpu", weights_only=True)
        return {key: np.asarray(value.numpy()) for key, value in state.items()}
    except (RuntimeError, pickle.UnpicklingError, EOFError, AttributeError) as error:
        raise InvalidValueError(f"weights {name!r} hold no tensors: {error}") from error


def network_of(state: Mapping[str, Any], activation: Activation, name: str) -> Network:
    """The policy head of an actor-critic of Stable-Baselines3.

    Args:
        state: Its parameters as arrays, by name.
        activation: What stands between two layers.
        name: Where they come from, for messages.

    Returns:
        The network.

    Raises:
        InvalidValueError: If there is more in the way from observations to actions, or less.
    """
    stems = [key.removesuffix(".weight") for key in state if key.endswith(".weight")]
    hidden = sorted(
        (stem for stem in stems if stem.startswith(_HIDDEN)),
        key=lambda stem: int(stem.removeprefix(_HIDDEN)),
    )
    others = [s for s in stems if s not in hidden and s != _HEAD and not f"{s}.".startswith(_VALUE)]
    if _HEAD not in stems or others:
        raise InvalidValueError(
            f"weights {name!r} are of no MlpPolicy: they hold {', '.join(stems) or 'nothing'}"
        )
    layers = tuple(
        Layer(
            np.ascontiguousarray(state[f"{stem}.weight"], np.float32),
            np.ascontiguousarray(state[f"{stem}.bias"], np.float32),
        )
        for stem in (*hidden, _HEAD)
    )
    network = Network(layers, activation)
    check_network(network, name)
    return network


def _activation(data: Any, name: str) -> Activation:
    """The activation, which a checkpoint repeats in words beside the pickled class."""
    options = data.get("policy_kwargs") if isinstance(data, dict) else None
    said = options.get("activation_fn") if isinstance(options, dict) else None
    if said is None:
        return Activation.TANH  # what Stable-Baselines3 takes unless told otherwise
    for kind, words in ((Activation.TANH, ".Tanh'"), (Activation.RELU, ".ReLU'")):
        if words in str(said):
            return kind
    raise InvalidValueError(f"weights {name!r} have activation {said!r}; allowed: Tanh, ReLU")
