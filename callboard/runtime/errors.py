"""Errors in using a runtime, and which errors come back from other processes as themselves.

```
ActorError
├── UnknownInstanceError     there is no agent of this key, and no factory to make it (RuntimeError)
├── MaxRuntimeError          a handler ran too long (TimeoutError)
├── EventTooLargeError       an event of a run is larger than the limit (ValueError)
├── RunRightsError           the user of the server may not read runs (PermissionError)
└── DeadlockError            a request would wait for itself, or reentrant agents ask each other without end
```
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callboard import errors as actor_errors, foundation as common_errors
from callboard.broker.remote_errors import register_error, register_errors_of
from callboard.foundation import ActorError, CallboardError


class EventTooLargeError(ActorError, ValueError):
    """An event of a run is larger than the limit."""

    template = (
        "the event has {size:,} bytes, the limit is {limit:,}: "
        "write less, or raise max_payload (CALLBOARD_MAX_PAYLOAD)"
    )
    permanent = True

    size: int
    limit: int


class RunRightsError(ActorError, PermissionError):
    """The user that a runtime logs in as may not read runs."""

    template = (
        "the user of the server may not read runs: log in as one with the rights of an operator, which "
        "`callboard acl operator` prints; a publisher can begin a run with `TeamClient.start`, and not read it. "
        "The server says: {said}"
    )

    said: str


class UnknownInstanceError(ActorError, RuntimeError):
    """An agent type that has registered instances only was asked for another key."""

    template = (
        "there is no agent {agent_id}: its type has registered instances only; "
        "register a factory for agents that are made when needed"
    )
    permanent = True

    agent_id: str


class MaxRuntimeError(ActorError, TimeoutError):
    """A handler ran longer than `max_runtime` and was cancelled."""

    template = "the handler ran longer than max_runtime={seconds:g} s"

    seconds: float


class DeadlockError(ActorError):
    """A request would wait for an agent that waits for this very request, or reentrant agents ask each other without end."""

    template = "{sentence}"
    permanent = True

    chain: Sequence[str]  # from the first agent to the one that would be asked again
    limit: int = 0  # how many reentrant agents may wait for each other; 0: it is not about that

    @property
    def sentence(self) -> str:
        """Which agent asks which, and what to do instead."""
        if self.limit:
            last = " asks ".join(self.chain[-4:])
            return (
                f"the chain of requests is {len(self.chain) - 1} deep, the limit is {self.limit}: ... {last}"
            )
        advice = "publish an event instead, answer first, or declare the agent with reentrant=True"
        if self.chain[-1:] == self.chain[-2:-1]:
            advice = "call the method itself, or send the agent a message for later with `await self.remind(message)`"
        asked = " asks ".join(self.chain)
        return f"deadlock: {asked}, which handles one message at a time and is waiting; {advice}"


def register_errors() -> None:
    """Makes our errors come back as themselves from other processes."""
    for module in (common_errors, actor_errors, sys.modules[__name__]):
        found = [cls for cls in vars(module).values() if isinstance(cls, type)]
        register_error(*(cls for cls in found if issubclass(cls, CallboardError)))
    # By their names: model clients know the execution in which they are called, so the runtime must not depend on them.
    # And most workers never meet an error of theirs.
    register_errors_of("callboard.models.errors", "callboard.memory.errors")
