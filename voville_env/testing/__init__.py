"""The conformance kit: what an environment of this kind promises, as checks for everybody to run.

`check_environment(make_env)` runs them all; each check also stands alone. The checks of spaces,
repeats and lifecycle fit any PettingZoo `ParallelEnv`; those of the mask and of privileged
information need a `VovilleEnv`, which may be wrapped.
"""

from voville_env.testing.kit import check_environment
from voville_env.testing.lifecycle import check_actions, check_lifecycle, check_seeds
from voville_env.testing.mask import check_mask, check_norms_unmasked
from voville_env.testing.privilege import check_no_privilege
from voville_env.testing.repeat import (
    check_action_order,
    check_copy,
    check_determinism,
    check_processes,
)
from voville_env.testing.report import CheckResult, ConformanceError
from voville_env.testing.spaces import check_aliasing, check_spaces
from voville_env.testing.trajectory import ActionSource, digest_of, play, trajectory_hash

__all__ = [
    "ActionSource",
    "CheckResult",
    "ConformanceError",
    "check_action_order",
    "check_actions",
    "check_aliasing",
    "check_copy",
    "check_determinism",
    "check_environment",
    "check_lifecycle",
    "check_mask",
    "check_no_privilege",
    "check_norms_unmasked",
    "check_processes",
    "check_seeds",
    "check_spaces",
    "digest_of",
    "play",
    "trajectory_hash",
]
