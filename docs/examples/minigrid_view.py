"""The town as MiniGrid shows it, for all agents: image, direction, mission, and seven actions."""

from __future__ import annotations

import numpy as np

import voville_env
from voville_env.wrappers.minigrid import ParallelMiniGridView
from voville_env.wrappers.minigrid_image import Thing

SIGNS = {
    Thing.UNSEEN: "?",
    Thing.EMPTY: ".",
    Thing.WALL: "#",
    Thing.FLOOR: "_",
    Thing.DOOR: "+",
    Thing.BALL: "@",
    Thing.GOAL: "G",
    Thing.LAVA: "!",
}


def main() -> None:
    """Walks at random, and draws what one person sees."""
    town = voville_env.parallel_env("fire_escape", window=(1, 48, 56))
    env = ParallelMiniGridView(town, view_size=7, actions="minigrid")
    draw = np.random.default_rng(0)
    observations, infos = env.reset(seed=0)
    while env.agents:
        actions = {
            agent: int(draw.choice(np.flatnonzero(infos[agent]["action_mask"])))
            for agent in env.agents
        }
        observations, _, _, _, infos = env.step(actions)
    seen = observations["CC"]
    print(seen["mission"])
    print("looks", ("east", "south", "west", "north")[seen["direction"]])
    for row in seen["image"][..., 0].T:  # the image is indexed by column first
        print("".join(SIGNS.get(Thing(cell), "o") for cell in row))


if __name__ == "__main__":
    main()
