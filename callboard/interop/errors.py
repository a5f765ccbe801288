"""Errors of the interop runtime, and the retries of its agents. Needs nothing of AutoGen.

```
CallboardError
└── InteropError
    ├── UnportableSubscriptionError   a subscription of the user's own class (TypeError)
    ├── UnportableMessageError        a message that can't leave the process (TypeError)
    ├── UnknownMemberError            a team has no member of this name (LookupError)
    ├── UnsavableAgentError           `save_state` of an agent failed, or returned something else than JSON (ValueError)
    └── TeamInUseError                a team is to be shared that has been set up already (RuntimeError)
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random as usual_random

from callboard.broker.outcome import DeadLetter, ErrorInfo, Retry
from callboard.broker.remote_errors import text_of
from callboard.broker.retry import RetryPolicy
from callboard.errors import did_you_mean
from callboard.foundation import CallboardError


class InteropError(CallboardError):
    """The root of what hosting agents of another framework raises."""


class UnportableSubscriptionError(InteropError, TypeError):
    """A subscription is of a class of the user's own, whose rule no other process could apply."""

    template = "{name} can't cross processes: use TypeSubscription or TypePrefixSubscription"

    name: str


class UnportableMessageError(InteropError, TypeError):
    """A message is of a class that can't be written, so that it can't leave the process."""

    template = "a message of class {name} can't leave the process: {reason}"
    permanent = True

    name: str
    reason: str


class UnknownMemberError(InteropError, LookupError):
    """A team has no member of this name."""

    template = "the team has no member {name!r}. {advice}"

    name: str
    known: tuple[str, ...]

    @property
    def advice(self) -> str:
        """The nearest name, or all of them."""
        return did_you_mean(self.name, self.known)


class UnsavableAgentError(InteropError, ValueError):
    """The state of a hosted agent could not be taken after it had handled a message."""

    template = (
        "save_state of {agent_id} failed with {reason}: what it returns has to fit into JSON. "
        "CallboardRuntime(save_states=False) does without"
    )
    permanent = True

    agent_id: str
    reason: str


class TeamInUseError(InteropError, RuntimeError):
    """A team is to be shared that has been run, or otherwise set up, under the name that AutoGen gave it."""

    template = "the team {name!r} has been used already: share it before its first run"

    name: str


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
