"""What a run may spend: checked before each request, settled after it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from pave_policy.llm.settings import ChatSettings
from voville_env.errors import VovilleError

CHARACTERS_PER_TOKEN = 3
"""On the low side for English, so that prompts are rather overestimated."""


class OverBudgetError(VovilleError):
    """A request would go beyond a limit: the message names it."""


@dataclass(frozen=True)
class Reservation:
    """The tokens that a request is expected to use at most."""

    prompt_tokens: int
    completion_tokens: int


class Budget:
    """Counts what is spent, requests in flight included by their estimate; safe across threads.

    Attributes:
        calls: Requests.
        tokens: Tokens sent and received.
        cost: US dollars.
    """

    def __init__(self, settings: ChatSettings, spent: tuple[int, int, float]) -> None:
        """Starts from what the run has spent before.

        Args:
            settings: With the limits and the prices.
            spent: Calls, tokens and US dollars.
        """
        self._settings = settings
        self._lock = threading.Lock()
        self.calls, self.tokens, self.cost = spent

    def cost_of(self, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """Prices tokens.

        Args:
            prompt_tokens: Tokens sent, as far as known.
            completion_tokens: Tokens received, as far as known.

        Returns:
            US dollars; 0 without prices.
        """
        sent = (prompt_tokens or 0) * (self._settings.price_in or 0.0)
        received = (completion_tokens or 0) * (self._settings.price_out or 0.0)
        return (sent + received) / 1_000_000

    def reserve(self, prompt: str, max_tokens: int) -> Reservation:
        """Counts a request that is about to be sent.

        Args:
            prompt: What is sent.
            max_tokens: What may come back.

        Returns:
            What to settle afterwards.

        Raises:
            OverBudgetError: If it would go beyond a limit; nothing is counted then.
        """
        estimate = Reservation(len(prompt) // CHARACTERS_PER_TOKEN, max_tokens)
        tokens = estimate.prompt_tokens + estimate.completion_tokens
        cost = self.cost_of(estimate.prompt_tokens, estimate.completion_tokens)
        limits = self._settings
        with self._lock:
            for name, limit, used, more in (
                ("max_calls", limits.max_calls, self.calls, 1),
                ("max_tokens_total", limits.max_tokens_total, self.tokens, tokens),
                ("max_cost", limits.max_cost, self.cost, cost),
            ):
                if limit is not None and used + more > limit:
                    raise OverBudgetError(
                        f"{name} is {limit:g}: {used:g} are used or in flight, and the next "
                        f"request may take {more:g} more"
                    )
            self._add(1, tokens, cost)
        return estimate

    def settle(
        self, reserved: Reservation, prompt_tokens: int | None, completion_tokens: int | None
    ) -> None:
        """Puts what a request used in place of its estimate.

        Args:
            reserved: The estimate.
            prompt_tokens: Tokens sent; None keeps the estimate.
            completion_tokens: Tokens received; None keeps the estimate.
        """
        sent = reserved.prompt_tokens if prompt_tokens is None else prompt_tokens
        received = reserved.completion_tokens if completion_tokens is None else completion_tokens
        with self._lock:
            self._add(
                0,
                sent + received - reserved.prompt_tokens - reserved.completion_tokens,
                self.cost_of(sent, received)
                - self.cost_of(reserved.prompt_tokens, reserved.completion_tokens),
            )

    def _add(self, calls: int, tokens: int, cost: float) -> None:
        self.calls += calls
        self.tokens += tokens
        self.cost += cost
