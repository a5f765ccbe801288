"""When to try again: a policy that decides and does nothing."""

from __future__ import annotations

import math
import random as random_module
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .outcome import DeadLetter, ErrorInfo, Retry
from .settings import BrokerSettings

LONGEST_ASKED: Final = 3_600.0  # seconds; who asks for more is tried after an hour
MAX_DOUBLINGS: Final = 60  # beyond it any base is over any cap, and a float might overflow


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, below a cap.

    Attributes:
        max_attempts: attempts in all.
        base: seconds, upper bound of the first pause; doubles with each attempt.
        cap: longest pause, seconds.
        jitter: share of a pause that is left to chance, 0 to 1. With 0.5 no pause is shorter than half of its
            upper bound, so that what just failed is given some time.
    """

    max_attempts: int = 3
    base: float = 0.1
    cap: float = 30.0
    jitter: float = 0.5

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

        An error whose attribute `permanent` is true is not tried again, and one with an attribute `retry_after` not
        before so many seconds have passed.
        """
        info = info or ErrorInfo(type(error).__name__, str(error))
        if getattr(error, "permanent", False):
            return DeadLetter("permanent", info)
        if attempt >= self.max_attempts:
            return DeadLetter("failed", info)
        ceiling = min(self.cap, math.ldexp(self.base, min(attempt - 1, MAX_DOUBLINGS)))
        delay = ceiling * (1 - self.jitter * random())
        # Behind what was asked for and not instead of it: all that were refused together would come back together.
        delay += _asked_for(error)
        return Retry(delay, f"{info.type}: {info.message}", info)


def _asked_for(error: BaseException) -> float:
    """Seconds that an error asks to wait."""
    seconds = getattr(error, "retry_after", None)
    return min(max(0.0, float(seconds)), LONGEST_ASKED) if isinstance(seconds, int | float) else 0.0
