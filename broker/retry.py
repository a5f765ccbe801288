"""When to try again: a policy that decides and does nothing."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable
from dataclasses import dataclass

from .outcome import DeadLetter, ErrorInfo, Retry
from .settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter below a cap.

    Attributes:
        max_attempts: attempts in all.
        base: seconds, upper bound of the first pause; doubles with each attempt.
        cap: longest pause, seconds.
    """

    max_attempts: int = 3
    base: float = 0.1
    cap: float = 30.0

    @classmethod
    def of(cls, settings: BrokerSettings, *, max_attempts: int | None = None) -> RetryPolicy:
        """The policy that the settings describe."""
        return cls(max_attempts or settings.max_attempts, settings.retry_base, settings.retry_cap)

    def decide(
        self,
        attempt: int,
        error: BaseException,
        info: ErrorInfo | None = None,
        random: Callable[[], float] = random_module.random,
    ) -> Retry | DeadLetter:
        """What follows when attempt number `attempt` (from 1) ended with `error`.

        An error whose attribute `permanent` is true is not tried again.
        """
        info = info or ErrorInfo(type(error).__name__, str(error))
        if getattr(error, "permanent", False):
            return DeadLetter("permanent", info)
        if attempt >= self.max_attempts:
            return DeadLetter("failed", info)
        ceiling = min(self.cap, self.base * 2 ** (attempt - 1))
        return Retry(ceiling * (0.5 + 0.5 * random()), f"{info.type}: {info.message}", info)
