"""Many towns of one scenario stepped together, as arrays with axes `B` towns and `N` agents."""

from voville_env.vector.env import AUTORESET_MODES, VovilleVectorEnv

__all__ = ["AUTORESET_MODES", "VovilleVectorEnv"]
