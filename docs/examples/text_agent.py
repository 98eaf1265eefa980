"""A policy that reads: every agent gets its observation as text, and answers with an action.

`decide` stands for a language model; here it looks for one line of the text.
"""

from __future__ import annotations

import re

import voville_env
from voville_env.core.codes import Action
from voville_env.wrappers.text import TextObservation


def decide(text: str) -> int:
    """Takes the lawful way to where the text says it should go."""
    target = "safe zone" if "Escaping: True" in text else "goal"
    found = re.search(rf"lawful way to the {target}: \d+ steps, first (\w+), red wait (\d+)", text)
    if found is None or (int(found[2]) > 0 and found[1].startswith("CROSS")):
        return Action.WAIT
    return Action[found[1]]


def main() -> None:
    """Plays a few ticks of the fire."""
    env = TextObservation(voville_env.parallel_env("fire_escape", window=(1, 48, 60)))
    texts, infos = env.reset(seed=0)
    print(texts["CC"])
    while env.agents:
        actions = {agent: decide(texts[agent]) for agent in env.agents}
        texts, _, _, _, infos = env.step(actions)
    print(texts["CC"])
    print("possible:", infos["CC"]["action_mask"])


if __name__ == "__main__":
    main()
