"""A rollout buffer of sb3-contrib that learns mostly from who had something to decide."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer, MaskableRolloutBufferSamples


class ActiveRolloutBuffer(MaskableRolloutBuffer):
    """Leaves out most of the steps in which only one action was possible.

    Those have no policy gradient, and in a town most people are settled most of the time. Each pass
    has all the other steps, and as many of these, drawn anew, for the value to be learned from.
    """

    def get(
        self, batch_size: int | None = None
    ) -> Generator[MaskableRolloutBufferSamples, None, None]:
        """One pass over what was played.

        Args:
            batch_size: Most steps in a minibatch; all in one unless given.

        Yields:
            Minibatches of like size.
        """
        if not self.generator_ready:
            next(super().get(1))  # lays the arrays out, slot by slot
        free = self.action_masks.sum(axis=-1) > 1
        active, idle = free.nonzero()[0], (~free).nonzero()[0]
        shuffled = np.random.permutation  # of the generator that the learner seeds
        kept = shuffled(idle)[: max(len(active), 2)]
        chosen = shuffled(np.concatenate([active, kept]))
        count = 1 if batch_size is None else -(-len(chosen) // batch_size)
        for part in np.array_split(chosen, count):
            yield self._get_samples(part)
