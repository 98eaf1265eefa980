"""`ppo`: a trained network plays everybody, one forward pass a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from pave_policy.rl.network import greedy, lots, sample
from pave_policy.rl.settled import open_to
from pave_policy.rl.weight_file import Weights, load_weights
from voville_env.core.codes import Action
from voville_env.errors import InvalidValueError, LifecycleError, invalid
from voville_env.flat import flatten
from voville_env.policy import Actions, BasePolicy, Briefing, Infos, Observations


class Mode(StrEnum):
    """How an action is chosen: drawn from the policy's distribution, or its likeliest one."""

    SAMPLE = "sample"
    GREEDY = "greedy"


@cache
def shipped() -> dict[str, Weights]:
    """The weights that come with the package.

    Returns:
        By the name of the file: that of the scenario it was trained on.
    """
    folder = files("pave_policy.rl") / "weights"
    found = sorted(
        (item for item in folder.iterdir() if item.name.endswith(".npz")),
        key=lambda item: item.name,
    )
    return {Path(item.name).stem: load_weights(Path(str(item))) for item in found}


@dataclass
class PPOPolicy(BasePolicy):
    """A network trained by PPO plays every person, from flat observations and masks alone.

    Settled people wait, as in training: the network is not asked. A draw depends on the seed, the
    agent, the day, the tick and the step alone.

    Attributes:
        path: A weight file; without one, the shipped weights of the scenario that is played.
        mode: `sample` or `greedy`.
    """

    name: str = "ppo"
    idle_when_settled: bool = True
    path: str = ""
    mode: str = Mode.SAMPLE.value
    _own: Weights | None = field(default=None, init=False, repr=False)
    _playing: Weights | None = field(default=None, init=False, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Reads the weights.

        Raises:
            InvalidValueError: If the mode is unknown or the file cannot be used.
            MissingExtraError: If the file needs torch.
        """
        super().__post_init__()
        if self.mode not in list(Mode):
            raise invalid("mode", self.mode, list(Mode))
        self._own = load_weights(self.path) if self.path else None

    def settings(self) -> dict[str, Any]:
        """The mode and hashes of the weights, so that results tell files apart.

        Returns:
            JSON-ready settings.
        """
        weights: Any = (
            self._own.digest
            if self._own is not None
            else {name: item.digest for name, item in shipped().items()}
        )
        return {"mode": str(self.mode), "weights": weights}

    def reset(self, briefing: Briefing) -> None:
        """Starts an episode.

        Args:
            briefing: Whose scenario, seed and agents count.

        Raises:
            InvalidValueError: If no file was given and no weights are shipped for the scenario.
        """
        super().reset(briefing)
        self._playing = self._own or _weights_for(briefing.scenario)
        self._numbers = {agent: number for number, agent in enumerate(sorted(briefing.personas))}

    def act(self, observations: Observations, infos: Infos) -> Actions:
        """Chooses an action for everybody.

        Args:
            observations: One observation an agent.
            infos: Not used.

        Returns:
            One possible action an agent.

        Raises:
            LifecycleError: If no episode has begun.
        """
        if self._playing is None or self.briefing is None:
            raise LifecycleError("act() before reset()")
        if not observations:
            return {}
        seen = list(observations.values())
        together = {key: np.stack([one[key] for one in seen]) for key in seen[0]}
        masks = open_to(together, together["action_mask"])
        if not masks[:, 1:].any():
            return dict.fromkeys(observations, int(Action.WAIT))
        logits = self._playing.network.logits(flatten(together))
        if self.mode == Mode.GREEDY:
            chosen = greedy(logits, masks)
        else:
            _, _, day, tick, step = together["self"][:, :5].T.astype(np.uint64)
            agents = np.array([self._numbers[agent] for agent in observations], np.uint64)
            when = day << np.uint64(40) | tick << np.uint64(8) | step
            chosen = sample(logits, masks, lots(self.briefing.seed, agents, when))
        return dict(zip(observations, chosen.tolist(), strict=True))


def _weights_for(scenario: str) -> Weights:
    known = shipped()
    plain = scenario.partition("@")[0]  # whatever keys it changes, such as its variation
    for weights in known.values():
        if plain in weights.metadata.plays:
            return weights
    plays = sorted(name for weights in known.values() for name in weights.metadata.plays)
    raise InvalidValueError(
        f"policy 'ppo' has no weights for scenario {scenario!r}; allowed: {', '.join(plays)}, "
        "or ppo:PATH with a file of `voville train`"
    )
