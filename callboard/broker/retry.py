"""The delivery policy: when a failed message is tried again, when it is a dead letter, and what its sender is told.

Also here: `Backoff`, the pauses of this package's own attempts to reach a server.

A policy is given as `App(retry=RetryPolicy(...))` for all agent types of an app, as `@app.agent(..., retry=...)` for one
of them, or as `RedisAgentRuntime(retry=...)`; else made of the settings `max_attempts`, `retry_base` and `retry_cap`.
Another rule is a subclass with a `decide` of its own. An error of a handler may ask for a pause with an attribute
`retry_after` (seconds, at most an hour), say with `permanent = True` that another attempt is useless, or with
`is_outage = True` that something which the handler needs can't be reached: that uses up no attempt, see `decide_outage`.
"""

from __future__ import annotations

import math
import random as random_module
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .codec import message
from .errors import SettingsError, is_outage
from .outcome import DeadLetter, ErrorInfo, Retry
from .remote_errors import text_of
from .settings import BrokerSettings

LONGEST_ASKED: Final = 3_600.0  # seconds; who asks for more is tried after an hour
SHORTEST_STEP: Final = 0.01  # seconds; with a base of 0 a message that waits would be tried without a pause
SHORTEST_WAIT: Final = 0.001  # seconds; less would not be kept, and then it was no outage
MAX_DOUBLINGS: Final = 60  # beyond it any base is over any cap, and a float might overflow


class Backoff:
    """Pauses between attempts, each twice as long as the one before it.

    Args:
        first, longest: seconds.
    """

    __slots__ = ("_longest", "_next")

    def __init__(self, first: float, longest: float) -> None:
        self._next = first
        self._longest = longest

    def pause(self) -> float:
        """Seconds to wait now; the next time it is longer."""
        now, self._next = self._next, min(2 * self._next, self._longest)
        return now


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, below a cap.

    Attributes:
        max_attempts: attempts in all.
        base: seconds, upper bound of the first pause; doubles with each attempt.
        cap: longest pause, seconds.
        jitter: share of a pause that is left to chance, 0 to 1. With 0.5 no pause is shorter than half of its
            upper bound, so that what just failed is given some time.
        outage: seconds of pauses, all together, for which a message is tried again without using up an attempt while
            its errors are outages. 0: an outage is an error like any other.

    Raises:
        SettingsError: a value can't be used.
    """

    max_attempts: int = 3
    base: float = 0.1
    cap: float = 30.0
    jitter: float = 0.5
    outage: float = 600.0

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise SettingsError(f"max_attempts={self.max_attempts!r} has to be a whole number, 1 or more")
        for name, most in (("base", math.inf), ("cap", math.inf), ("jitter", 1.0), ("outage", math.inf)):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= most:
                wanted = "a number from 0 to 1" if most == 1 else "a number of seconds, 0 or more"
                raise SettingsError(f"{name}={value!r} has to be {wanted}")

    @classmethod
    def of(cls, settings: BrokerSettings, *, max_attempts: int | None = None) -> RetryPolicy:
        """The policy that the settings describe."""
        return cls(
            max_attempts or settings.max_attempts,
            settings.retry_base,
            settings.retry_cap,
            outage=settings.retry_outage,
        )

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
        return Retry(self._pause(ceiling, error, random), f"{info.type}: {info.message}", info)

    def decide_outage(
        self,
        waited: float,
        error: BaseException,
        info: ErrorInfo | None = None,
        random: Callable[[], float] = random_module.random,
    ) -> Retry | DeadLetter:
        """The outcome when `error` is an outage and the message has waited `waited` seconds for it to end.

        Each pause is as long as all before it, so they double as those of `decide` do. What was waited counts, not the
        time that has passed: a message whose worker was stopped overnight is not given up in the morning. An error whose
        attribute `has_sure_end` is true ends by itself, and is waited for however long it takes.
        """
        info = info or ErrorInfo(type(error).__name__, text_of(error))
        # A limit of so much a day has room tomorrow: its message is not given up before, nor does that wait count with what
        # may never end.
        # guard: what ends for sure is waited for
        if getattr(error, "has_sure_end", False):
            delay = self._pause(max(self.base, SHORTEST_STEP), error, random)
            return Retry(delay, f"{info.type}: {info.message}", info, waited=max(waited, SHORTEST_WAIT))
        # guard: an outage does not last for ever
        if waited >= self.outage:
            return DeadLetter(f"an outage of more than {self.outage:g} s", info)
        ceiling = min(self.cap, max(self.base, waited, SHORTEST_STEP))
        delay = self._pause(ceiling, error, random)
        return Retry(delay, f"{info.type}: {info.message}", info, waited=waited + delay)

    def _pause(self, ceiling: float, error: BaseException, random: Callable[[], float]) -> float:
        # Behind what was asked for and not instead of it: all that were refused together would come back together.
        return ceiling * (1 - self.jitter * random()) + _asked_for(error)


def decided(
    policy: RetryPolicy, attempt: int, error: BaseException, info: ErrorInfo, waited: float = 0.0
) -> Retry | DeadLetter:
    """The decision of a policy, which may be an app's own: one that can't be carried out is a dead letter.

    Without this a pause that is no number would end the turn that commits it, and no other decision would leave any more.

    Args:
        policy: decides.
        attempt: number of the attempt that failed, from 1.
        error: how it failed.
        info: the same as text.
        waited: seconds that the message has waited so far for an outage to end.
    """
    if _waits_for_outages(policy) and is_outage(error):
        outcome: object = policy.decide_outage(waited, error, info)
    else:
        outcome = policy.decide(attempt, error, info)
    if isinstance(outcome, DeadLetter):
        return outcome
    if isinstance(outcome, Retry) and _is_number(outcome.delay) and outcome.delay >= 0:
        return outcome
    returned = (
        f"a pause of {outcome.delay!r} seconds" if isinstance(outcome, Retry) else type(outcome).__name__
    )
    return DeadLetter(f"{type(policy).__name__}.decide returned {returned[:100]}", info)


def _waits_for_outages(policy: RetryPolicy) -> bool:
    """Whether outages are no attempts to it; a policy that is no subclass of ours may know nothing of them."""
    return getattr(policy, "outage", 0.0) > 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _asked_for(error: BaseException) -> float:
    """Seconds that an error asks to wait."""
    seconds = getattr(error, "retry_after", None)
    return min(max(0.0, float(seconds)), LONGEST_ASKED) if isinstance(seconds, int | float) else 0.0


WIRE_NAME: Final = "callboard.buried"  # deadletters.lua writes it


@message(name=WIRE_NAME)
@dataclass(frozen=True, slots=True)
class Buried:
    """A message that was sent with ``tell(..., if_buried=True)`` became a dead letter; an `@event` of its sender gets this.

    It comes from the agent that could not handle the message, in one step with the dead letter. A letter that is replayed
    and buried again is told again.

    Attributes:
        message_id: Of the message.
        recipient: The agent that it was for, as ``type/key``.
        type: Wire name of the message's class.
        reason: Of the dead letter, such as ``"crashed"``.
        error: Text of the error, "" when there was none.
    """

    message_id: str
    recipient: str
    type: str
    reason: str
    error: str = ""
