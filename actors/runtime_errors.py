"""What can go wrong in using a runtime."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker.remote_errors import register_error

from . import errors
from .errors import ActorError


class RuntimeStateError(ActorError, RuntimeError):
    """Something was asked of a runtime that is not running, or running already."""


class FactoryResultError(ActorError, ValueError):
    """A factory made something else than it was registered for."""

    permanent = True

    def __init__(self, agent_type: str, expected: str, given: str) -> None:
        super().__init__(agent_type, expected, given)
        self.agent_type = agent_type
        self.expected = expected
        self.given = given

    def __str__(self) -> str:
        return (
            f"the factory of {self.agent_type!r} made a {self.given}; it was registered for {self.expected}"
        )


class UndeclaredStateError(ActorError, ValueError):
    """A factory made a persistent agent, and was registered without saying so."""

    permanent = True

    def __init__(self, agent_type: str, given: str) -> None:
        super().__init__(agent_type, given)
        self.agent_type = agent_type
        self.given = given

    def __str__(self) -> str:
        return (
            f"the factory of {self.agent_type!r} made a {self.given}, whose State would not be stored: "
            f"register it with expected_class={self.given}"
        )


class UnknownInstanceError(ActorError, RuntimeError):
    """An agent type that has instances only was asked for another key."""

    permanent = True

    def __init__(self, agent_id: str) -> None:
        super().__init__(agent_id)
        self.agent_id = agent_id

    def __str__(self) -> str:
        return (
            f"there is no agent {self.agent_id}: its type has registered instances only; "
            "register a factory for agents that are made when needed"
        )


class AgentInstanceError(ActorError, ValueError):
    """An agent instance can't be registered."""

    def __init__(self, agent_id: str, reason: str) -> None:
        super().__init__(agent_id, reason)
        self.agent_id = agent_id
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.agent_id} can't be registered: {self.reason}"


class WrongAgentClassError(ActorError, TypeError):
    """An agent was asked for as an instance of a class that it is not."""

    def __init__(self, agent_id: str, expected: str, given: str) -> None:
        super().__init__(agent_id, expected, given)
        self.agent_id = agent_id
        self.expected = expected
        self.given = given

    def __str__(self) -> str:
        return f"{self.agent_id} is a {self.given}, not a {self.expected}"


class MaxRuntimeError(ActorError, TimeoutError):
    """A handler ran longer than `max_runtime` and was cancelled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the handler ran longer than max_runtime={self.seconds:g} s"


class DeadlockError(ActorError):
    """A request would wait for an agent that waits for this very request.

    Attributes:
        chain: the agents from the first to the one that would be asked again.
    """

    permanent = True

    def __init__(self, chain: Sequence[str]) -> None:
        self.chain = tuple(chain)
        super().__init__(self.chain)

    def __str__(self) -> str:
        return (
            f"deadlock: {' asks '.join(self.chain)}, which handles one message at a time and is waiting; "
            "publish an event instead, answer first, or declare the agent with reentrant=True"
        )


class ChainTooDeepError(ActorError):
    """Reentrant agents ask each other without end.

    Attributes:
        chain: the agents from the first to the one that would be asked again.
        limit: how many of them may wait for each other.
    """

    permanent = True

    def __init__(self, chain: Sequence[str], limit: int) -> None:
        self.chain = tuple(chain)
        self.limit = limit
        super().__init__(self.chain, limit)

    def __str__(self) -> str:
        last = " asks ".join(self.chain[-4:])
        return f"the chain of requests is {len(self.chain) - 1} deep, the limit is {self.limit}: ... {last}"


class ScheduleError(ActorError, ValueError):
    """A time to send a message at that can't work."""


def register_errors() -> None:
    """Makes our errors come back as themselves from other processes."""
    from memory.llm_errors import LLM_ERRORS

    from .models.errors import MODEL_ERRORS

    register_error(*LLM_ERRORS, *MODEL_ERRORS)
    for module in (errors, sys.modules[__name__]):
        register_error(
            *(cls for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, ActorError))
        )
