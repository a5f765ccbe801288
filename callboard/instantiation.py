"""The agent or agent type that is being made, for its factory, its constructor or a subscription callback."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from .context import ContextScope
from .errors import MisuseError, OutsideContextError

if TYPE_CHECKING:
    from callboard.broker.ids import AgentId, AgentType

    from .protocol import AgentRuntime


agent_being_made: ContextVar[tuple[AgentRuntime, AgentId]] = ContextVar("callboard_agent_instantiation")
"""The agent that a factory makes, and for which runtime. A runtime of ours sets it by itself, see `context.handling`."""


class AgentInstantiationContext:
    """Tells a factory and a constructor which agent they make, and for which runtime.

    ```python
    def factory() -> Counter:
        return Counter(f"counts for {AgentInstantiationContext.current_agent_id().key}")
    ```
    """

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(
        cls, ctx: tuple[AgentRuntime, AgentId]
    ) -> ContextScope[tuple[AgentRuntime, AgentId]]:
        """Make `ctx` the agent being made, for a `with` block. For runtimes."""
        return ContextScope(agent_being_made, ctx)

    @classmethod
    def current_runtime(cls) -> AgentRuntime:
        """The runtime that is making an agent.

        Raises:
            OutsideContextError: No agent is being made here.
        """
        return cls._get("current_runtime")[0]

    @classmethod
    def current_agent_id(cls) -> AgentId:
        """The id of the agent that is being made.

        Raises:
            OutsideContextError: No agent is being made here.
        """
        return cls._get("current_agent_id")[1]

    @classmethod
    def is_in_factory_call(cls) -> bool:
        """Whether an agent is being made here."""
        return agent_being_made.get(None) is not None

    @classmethod
    def _get(cls, call: str) -> tuple[AgentRuntime, AgentId]:
        try:
            return agent_being_made.get()
        except LookupError as error:
            where = "an agent's factory or constructor, called by a runtime"
            raise OutsideContextError(f"AgentInstantiationContext.{call}()", where) from error


class SubscriptionInstantiationContext:
    """Tells a subscription which agent type is being registered."""

    _current: ClassVar[ContextVar[AgentType]] = ContextVar("callboard_subscription_instantiation")

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(cls, ctx: AgentType) -> ContextScope[AgentType]:
        """Make `ctx` the type being registered, for a `with` block."""
        return ContextScope(cls._current, ctx)

    @classmethod
    def agent_type(cls) -> AgentType:
        """The agent type that is being registered.

        Raises:
            OutsideContextError: Nothing is being registered here.
        """
        try:
            return cls._current.get()
        except LookupError as error:
            where = "the registration of an agent type"
            raise OutsideContextError("SubscriptionInstantiationContext.agent_type()", where) from error
