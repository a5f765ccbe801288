"""Errors in using a runtime, and which errors come back from other processes as themselves.

```
ActorError
├── RuntimeStateError        the runtime is not running, or running already (RuntimeError)
├── AgentInstanceError       a factory or a registration gave an instance that can't be used (ValueError)
├── UnknownInstanceError     there is no agent of this key, and no factory to make it (RuntimeError)
├── WrongAgentClassError     an agent is not of the class that was asked for (TypeError)
├── ScheduleError            a message can't be sent at that time (ValueError)
├── UnknownScheduleError     there is no schedule of this name (LookupError)
├── MaxRuntimeError          a handler ran too long (TimeoutError)
├── EventTooLargeError       an event of a run is larger than the limit (ValueError)
├── RunRightsError           the user of the server may not read runs (PermissionError)
├── DeadlockError            a request would wait for itself
└── ChainTooDeepError        reentrant agents ask each other without end
```
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callboard import errors as actor_errors, foundation as common_errors
from callboard.broker.remote_errors import register_error, register_errors_of
from callboard.foundation import ActorError, CallboardError


class RuntimeStateError(ActorError, RuntimeError):
    """Something was asked of a runtime that is not running, or running already."""

    template = "{text}"

    text: str


class AgentInstanceError(ActorError, ValueError):
    """A factory or a registration gave an instance that can't be used."""

    template = "{text}"
    permanent = True

    text: str


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


class UnknownScheduleError(ActorError, LookupError):
    """There is no schedule of this name.

    Attributes:
        name: What was asked for.
        advice: The nearest one, or all.
    """

    template = "There is no schedule {name!r}. {advice}"

    name: str
    advice: str


class UnknownInstanceError(ActorError, RuntimeError):
    """An agent type that has registered instances only was asked for another key."""

    template = (
        "there is no agent {agent_id}: its type has registered instances only; "
        "register a factory for agents that are made when needed"
    )
    permanent = True

    agent_id: str


class WrongAgentClassError(ActorError, TypeError):
    """An agent was asked for as an instance of a class that it is not."""

    template = "{agent_id} is a {given}, not a {expected}"

    agent_id: str
    expected: str
    given: str


class ScheduleError(ActorError, ValueError):
    """A message can't be sent at that time."""

    template = "{text}"

    text: str


class MaxRuntimeError(ActorError, TimeoutError):
    """A handler ran longer than `max_runtime` and was cancelled."""

    template = "the handler ran longer than max_runtime={seconds:g} s"

    seconds: float


class DeadlockError(ActorError):
    """A request would wait for an agent that waits for this very request.

    Attributes:
        chain: the agents from the first to the one that would be asked again.
    """

    template = "deadlock: {asked}, which handles one message at a time and is waiting; {advice}"
    permanent = True

    chain: Sequence[str]

    @property
    def asked(self) -> str:
        """Which agent asks which."""
        return " asks ".join(self.chain)

    @property
    def advice(self) -> str:
        """What to do instead."""
        if self.chain[-1:] == self.chain[-2:-1]:
            return "call the method itself, or send the agent a message for later with `await self.remind(message)`"
        return "publish an event instead, answer first, or declare the agent with reentrant=True"


class ChainTooDeepError(ActorError):
    """Reentrant agents ask each other without end.

    Attributes:
        chain: the agents from the first to the one that would be asked again.
        limit: how many of them may wait for each other.
    """

    template = "the chain of requests is {depth} deep, the limit is {limit}: ... {last}"
    permanent = True

    chain: Sequence[str]
    limit: int

    @property
    def depth(self) -> int:
        """How many agents wait for another."""
        return len(self.chain) - 1

    @property
    def last(self) -> str:
        """Which agent asks which, at the end of the chain."""
        return " asks ".join(self.chain[-4:])


def register_errors() -> None:
    """Makes our errors come back as themselves from other processes."""
    for module in (common_errors, actor_errors, sys.modules[__name__]):
        found = [cls for cls in vars(module).values() if isinstance(cls, type)]
        register_error(*(cls for cls in found if issubclass(cls, CallboardError)))
    # By their names: model clients know the execution in which they are called, so the runtime must not depend on them.
    # And most workers never meet an error of theirs.
    register_errors_of("callboard.models.errors", "callboard.memory.errors")
