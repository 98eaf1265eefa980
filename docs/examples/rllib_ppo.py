"""PPO of RLlib, with one policy for all agents and RLlib's own masking module.

Run with: python docs/examples/rllib_ppo.py [iterations]
"""

import os
import sys
from typing import Any

# Before ray is imported: no usage statistics.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
from ray.tune.registry import register_env

import voville_env
from voville_env.wrappers.rllib import RLlibTown


def make(config: dict[str, Any]) -> RLlibTown:
    """One town; agents that arrive leave it."""
    env = voville_env.parallel_env("fire_escape", window=(1, 45, 100), terminal_goal=True)
    return RLlibTown(env)


def main(iterations: int = 20, batch: int = 512) -> dict[str, Any]:
    """Trains for some iterations of `batch` steps of the town."""
    ray.init(include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1", num_cpus=1)
    register_env("voville", make)
    module = RLModuleSpec(
        module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [64, 64]}
    )
    config = (
        PPOConfig()
        .environment("voville")
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"shared": module}))
        .training(train_batch_size_per_learner=batch, minibatch_size=min(batch, 256), num_epochs=2)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    result: dict[str, Any] = {}
    for _ in range(iterations):
        result = algorithm.train()
        print(result["env_runners"].get("episode_return_mean"))
    algorithm.stop()
    ray.shutdown()
    return result


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
