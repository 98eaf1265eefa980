"""Weight files: a network and how it was made, as one `.npz` that holds numbers and JSON only."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pave_policy.rl.network import ACTIONS, Activation, Layer, Network
from voville_env.errors import InvalidValueError
from voville_env.flat import FLAT_SIZE, FLAT_VERSION

FORMAT = 1
METADATA = "metadata"
MOST_BYTES = 64 * 2**20
"""Beyond this nothing is read: no policy of this town is that large."""


class Metadata(BaseModel):
    """How a network was made, and what it needs.

    Attributes:
        format: Format of the file.
        flat_version: Version of the layout of flat observations.
        flat_size: Their width.
        activation: What stands between two layers.
        scenario: The scenario it was trained on, with the keys that were changed.
        plays: Scenarios that it is meant for, the control included.
        suite: Id of the suite whose training seeds were used.
        train_seeds: First training seed, and the one after the last.
        seed: Seed of the training itself.
        algorithm: `ppo` or `maskable-ppo`.
        total_steps: Steps of single agents that it was trained for.
        rewards: Weights of the reward terms.
        settings: Everything else that was set.
        command: The command line.
        versions: Versions of the libraries.
        curve: The learning curve, one entry a line of `curve.csv`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    format: int = FORMAT
    flat_version: int = FLAT_VERSION
    flat_size: int = FLAT_SIZE
    activation: str = Activation.TANH.value
    scenario: str = ""
    plays: list[str] = Field(default_factory=list)
    suite: str = ""
    train_seeds: list[int] = Field(default_factory=list)
    seed: int = 0
    algorithm: str = "ppo"
    total_steps: int = Field(default=0, ge=0)
    rewards: dict[str, float] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    curve: list[dict[str, float | None]] = Field(default_factory=list)


@dataclass(frozen=True)
class Weights:
    """A network that is ready to play.

    Attributes:
        network: The network.
        metadata: How it was made.
        digest: Hash of the file, sixteen hex digits.
    """

    network: Network
    metadata: Metadata
    digest: str


def save_weights(path: Path | str, network: Network, metadata: Metadata) -> None:
    """Writes a weight file aside and renames it when whole; the same content, the same bytes.

    Args:
        path: The file.
        network: The network.
        metadata: How it was made.
    """
    target = Path(path)
    text = metadata.model_dump_json().encode()
    arrays: dict[str, NDArray[Any]] = {METADATA: np.frombuffer(text, np.uint8)}
    for number, layer in enumerate(network.layers):
        arrays[f"weight_{number}"] = layer.weight
        arrays[f"bias_{number}"] = layer.bias
    aside = target.with_name(target.name + ".part")
    try:
        with aside.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def load_weights(path: Path | str) -> Weights:
    """Reads a weight file, or a checkpoint of Stable-Baselines3.

    Args:
        path: A `.npz` file, or a `.zip` file, for which torch is needed.

    Returns:
        The network and how it was made.

    Raises:
        InvalidValueError: If there is no such file, or it does not hold a policy for this layout.
        MissingExtraError: If it is a checkpoint, and torch is not installed.
    """
    content = _content(path)
    if Path(path).suffix == ".zip":
        from pave_policy.rl.checkpoint import read_checkpoint

        network, metadata = read_checkpoint(content, str(path))
    else:
        network, metadata = _read(content, str(path))
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Weights(network, metadata, digest)


def _content(path: Path | str) -> bytes:
    file = Path(path)
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise InvalidValueError(
                f"weights {str(path)!r} have {size} bytes; allowed: {MOST_BYTES}"
            )
        return file.read_bytes()
    except OSError as error:
        raise InvalidValueError(
            f"weights {str(path)!r} cannot be read: {error.strerror}; "
            "allowed: a .npz file of `voville train`, or a .zip file of Stable-Baselines3"
        ) from error


def _read(content: bytes, name: str) -> tuple[Network, Metadata]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(item.file_size for item in archive.infolist()) > MOST_BYTES:
                raise InvalidValueError(f"weights {name!r} unpack to more than {MOST_BYTES} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except InvalidValueError:
        raise
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, KeyError) as error:
        raise InvalidValueError(f"weights {name!r} are damaged or no .npz file: {error}") from error
    metadata = _metadata(arrays.pop(METADATA, None), name)
    check_layout(metadata, name)
    network = Network(_layers(arrays, name), _activation(metadata, name))
    check_network(network, name)
    return network, metadata


def _metadata(raw: NDArray[Any] | None, name: str) -> Metadata:
    if raw is None or raw.dtype != np.uint8 or raw.ndim != 1:
        raise InvalidValueError(f"weights {name!r} hold no {METADATA!r}: not made by voville train")
    try:
        return Metadata.model_validate_json(raw.tobytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or METADATA
        raise InvalidValueError(f"weights {name!r}: {where}: {first['msg']}") from error


def check_layout(metadata: Metadata, name: str) -> None:
    """Refuses weights for another layout of observations, or of another format.

    Args:
        metadata: What the file says.
        name: The file, for the message.

    Raises:
        InvalidValueError: If they do not fit.
    """
    wanted = {"format": FORMAT, "flat_version": FLAT_VERSION, "flat_size": FLAT_SIZE}
    for key, value in wanted.items():
        found = getattr(metadata, key)
        if found != value:
            raise InvalidValueError(
                f"weights {name!r} have {key} {found}; allowed: {value}; train them again"
            )


def _activation(metadata: Metadata, name: str) -> Activation:
    if metadata.activation not in list(Activation):
        raise InvalidValueError(
            f"weights {name!r} have activation {metadata.activation!r}; "
            f"allowed: {', '.join(Activation)}"
        )
    return Activation(metadata.activation)


def _layers(arrays: Mapping[str, NDArray[Any]], name: str) -> tuple[Layer, ...]:
    count = len(arrays) // 2
    wanted = [f"{part}_{number}" for number in range(count) for part in ("weight", "bias")]
    if count == 0 or sorted(arrays) != sorted(wanted):
        raise InvalidValueError(
            f"weights {name!r} hold {', '.join(sorted(arrays)) or 'no arrays'}; "
            "allowed: weight_0, bias_0, weight_1, bias_1, …"
        )
    return tuple(Layer(arrays[f"weight_{k}"], arrays[f"bias_{k}"]) for k in range(count))


def check_network(network: Network, name: str) -> None:
    """Refuses a network that does not lead from flat observations to actions.

    Args:
        network: The network.
        name: Where it comes from, for the message.

    Raises:
        InvalidValueError: If a shape, a type or a number is wrong.
    """
    width = FLAT_SIZE
    for number, layer in enumerate(network.layers):
        last = number == len(network.layers) - 1
        out = ACTIONS if last else (*layer.bias.shape, 0)[0]
        for part, array, shape in (
            ("bias", layer.bias, (out,)),
            ("weight", layer.weight, (out, width)),
        ):
            if array.dtype != np.float32 or array.shape != shape:
                raise InvalidValueError(
                    f"weights {name!r}: {part}_{number} is {array.dtype} of shape {array.shape}; "
                    f"allowed: float32 of shape {shape}"
                )
            if not np.isfinite(array).all():
                raise InvalidValueError(f"weights {name!r}: {part}_{number} holds NaN or infinity")
        width = out
