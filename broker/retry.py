"""The delivery policy: when a message that failed is tried again, and when it becomes a dead letter. It only decides.

Given as `App(retry=RetryPolicy(...))` for all agent types of an app, as `@app.agent(..., retry=...)` for one of them, or
as `RedisAgentRuntime(retry=...)`; else made of the settings `max_attempts`, `retry_base` and `retry_cap`. Another rule is a
subclass with a `decide` of its own. An error of a handler may ask for a pause with an attribute `retry_after` (seconds, at
most an hour), or say with `permanent = True` that another attempt is useless.
"""

from __future__ import annotations

import math
import random as random_module
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .encoding.remote_errors import text_of
from .errors import SettingsError
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

    Raises:
        SettingsError: a value can't be used.
    """

    max_attempts: int = 3
    base: float = 0.1
    cap: float = 30.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise SettingsError(f"max_attempts={self.max_attempts!r} has to be a whole number, 1 or more")
        for name, most in (("base", math.inf), ("cap", math.inf), ("jitter", 1.0)):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= most:
                wanted = "a number from 0 to 1" if most == 1 else "a number of seconds, 0 or more"
                raise SettingsError(f"{name}={value!r} has to be {wanted}")

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
        """The outcome when attempt number `attempt` (from 1) ended with `error`.

        An error whose attribute `permanent` is true is not tried again, and one with an attribute `retry_after` not
        before so many seconds have passed.
        """
        info = info or ErrorInfo(type(error).__name__, text_of(error))
        if getattr(error, "permanent", False):
            return DeadLetter("permanent", info)
        # guard: the last attempt is the last
        if attempt >= self.max_attempts:
            return DeadLetter("failed", info)
        ceiling = min(self.cap, math.ldexp(self.base, min(attempt - 1, MAX_DOUBLINGS)))
        delay = ceiling * (1 - self.jitter * random())
        # Behind what was asked for and not instead of it: all that were refused together would come back together.
        delay += _asked_for(error)
        return Retry(delay, f"{info.type}: {info.message}", info)


def decided(policy: RetryPolicy, attempt: int, error: BaseException, info: ErrorInfo) -> Retry | DeadLetter:
    """What a policy decides, which may be an app's own: a decision that can't be carried out is a dead letter.

    Without this a pause that is no number would end the turn that commits it, and no other decision would leave any more.
    """
    outcome: object = policy.decide(attempt, error, info)
    if isinstance(outcome, DeadLetter):
        return outcome
    if isinstance(outcome, Retry) and _is_number(outcome.delay) and outcome.delay >= 0:
        return outcome
    returned = (
        f"a pause of {outcome.delay!r} seconds" if isinstance(outcome, Retry) else type(outcome).__name__
    )
    return DeadLetter(f"{type(policy).__name__}.decide returned {returned[:100]}", info)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _asked_for(error: BaseException) -> float:
    """Seconds that an error asks to wait."""
    seconds = getattr(error, "retry_after", None)
    return min(max(0.0, float(seconds)), LONGEST_ASKED) if isinstance(seconds, int | float) else 0.0
