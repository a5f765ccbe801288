"""Programs that were written for other frameworks, on our bus. Each package needs the framework that it is named after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random as usual_random

from callboard.broker.outcome import DeadLetter, ErrorInfo, Retry
from callboard.broker.remote_errors import text_of
from callboard.broker.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class OnceUnlessKilled(RetryPolicy):
    """A handler that fails is not run again; a message whose worker died is, `max_attempts` times in all.

    AutoGen's handlers are written for a runtime that never tries again: they tell of their failure and then raise.
    """

    outage: float = 0.0

    def decide(
        self,
        attempt: int,
        error: BaseException,
        info: ErrorInfo | None = None,
        random: Callable[[], float] = usual_random,
    ) -> Retry | DeadLetter:
        """A dead letter, whatever the error."""
        return DeadLetter("failed", info or ErrorInfo(type(error).__name__, text_of(error)))
