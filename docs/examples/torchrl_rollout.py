"""A rollout with masks and one step of PPO in TorchRL.

Run with: python docs/examples/torchrl_rollout.py [steps]
"""

import sys

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import voville_env
from voville_env.actions import N_ACTIONS
from voville_env.flat import FLAT_SIZE
from voville_env.wrappers.torchrl import ACTION, GROUP, MASK, VECTOR, torchrl_town


def network(outputs: int) -> torch.nn.Sequential:
    """A small network for one agent's vector."""
    return torch.nn.Sequential(
        torch.nn.Linear(FLAT_SIZE, 64), torch.nn.Tanh(), torch.nn.Linear(64, outputs)
    )


def main(steps: int = 100) -> tuple[TensorDictBase, float]:
    """Plays, and learns from it once."""
    torch.manual_seed(0)
    env = torchrl_town(voville_env.parallel_env("fire_escape", window=(1, 45, 100)), seed=0)
    policy = TensorDictModule(network(N_ACTIONS), in_keys=[VECTOR], out_keys=[(GROUP, "logits")])
    actor = ProbabilisticActor(
        policy,
        in_keys={"logits": (GROUP, "logits"), "mask": MASK},
        out_keys=[ACTION],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        log_prob_key=(GROUP, "log_prob"),
    )
    critic = ValueOperator(network(1), in_keys=[VECTOR], out_keys=[(GROUP, "value")])
    names = {
        "action": ACTION,
        "reward": (GROUP, "reward"),
        "done": (GROUP, "done"),
        "terminated": (GROUP, "terminated"),
        "value": (GROUP, "value"),
        "advantage": (GROUP, "advantage"),
        "value_target": (GROUP, "value_target"),
    }
    loss = ClipPPOLoss(actor, critic)
    loss.set_keys(**names, sample_log_prob=(GROUP, "log_prob"))
    with torch.no_grad():
        played = env.rollout(steps, actor)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    advantage.set_keys(**{key: name for key, name in names.items() if key != "action"})
    advantage(played)
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-4)
    losses = loss(played)
    total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
    total.backward()
    optimiser.step()
    print(f"{tuple(played.shape)} steps, loss {total.item():.3f}")
    return played, total.item()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
