"""The agent that routes each message to a handler by the message's class."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from .agent import BaseAgent
from .annotations import ANY
from .context import MessageContext
from .errors import CantHandleException
from .handlers import Handler, find_handler
from .state_argument import StateT

__all__ = ["RoutedAgent", "RoutingTable"]

logger = logging.getLogger("callboard.actors")


class _Routes(dict[type[Any], tuple[Handler, ...]]):
    """Message class -> the handlers to ask, in order; worked out once per message class that arrives."""

    def __init__(self, handlers: tuple[Handler, ...], *, is_rpc: bool) -> None:
        super().__init__()
        self._handlers = tuple(handler for handler in handlers if handler.takes(is_rpc=is_rpc))

    def __missing__(self, message_class: type[Any]) -> tuple[Handler, ...]:
        nearest_first = {
            handler: None
            for base in message_class.__mro__
            for handler in self._handlers
            if base in handler.accepts
        }
        self[message_class] = found = tuple(nearest_first)
        return found


class RoutingTable:
    """The handlers of an agent class, in the order in which they are asked.

    That is the order of definition; those of a subclass come before those of its bases, and what a subclass
    overrides is gone.

    Args:
        agent_class: Any class with decorated methods.

    Raises:
        HandlerDeclarationError: The annotations of a handler can't be read.
    """

    __slots__ = ("events", "handlers", "requests")

    def __init__(self, agent_class: type[Any]) -> None:
        self.handlers = _discover(agent_class)
        self.events = _Routes(self.handlers, is_rpc=False)
        self.requests = _Routes(self.handlers, is_rpc=True)
        for handler in self.handlers:
            # Read now, so that a mistake is found where the agent is made and not where a message arrives.
            handler.signature.types  # noqa: B018

    def handled_types(self) -> tuple[type[Any], ...]:
        """The message classes that handlers name, without repetition."""
        return _named(cls for handler in self.handlers for cls in handler.accepts)

    def produced_types(self) -> tuple[type[Any], ...]:
        """The classes of the responses that handlers name, without repetition."""
        return _named(cls for handler in self.handlers for cls in handler.produces)


class RoutedAgent(BaseAgent[StateT]):
    """An agent whose methods handle messages by type.

    A message goes to the first handler that takes its class, then to one for a base class of it, nearest
    first; among handlers for one class the order of definition counts, and the first whose kind (`event`,
    `rpc` or both) and `match=` fit gets it.

    ```python
    class Counter(RoutedAgent):
        @event
        async def on_visit(self, message: Visit, ctx: MessageContext) -> None: ...

        @rpc
        async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count: ...
    ```

    Args:
        description: What the agent is for, in a sentence.

    Raises:
        HandlerDeclarationError: The annotations of a handler can't be read (an AssertionError).
    """

    _own_routing: ClassVar[RoutingTable | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._own_routing = None

    def __init__(self, description: str = "") -> None:
        if self._own_routing is None:
            self._routing()
        super().__init__(description)

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        """Route a message to its handler. Add handlers instead of overriding this."""
        routing = self._own_routing or self._routing()
        routes = routing.requests if ctx.is_rpc else routing.events
        for handler in routes[type(message)]:
            if handler.match is None or handler.match(message, ctx):
                result = await handler.function(self, message, ctx)
                # The exact class is the common case, and half as dear as the full check.
                return result if type(result) in handler.results else handler.check_result(result)
        return await self._unhandled(message, ctx)

    async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
        """Called for a message without a handler; logs its class at INFO. Override it to do something else.

        A request is answered with CantHandleException after this, unless it raises something itself.
        """
        logger.info(
            "Unhandled message: %s has no handler for %s", type(self).__name__, type(message).__name__
        )

    async def _unhandled(self, message: Any, ctx: MessageContext) -> None:
        await self.on_unhandled_message(message, ctx)
        if ctx.is_rpc:
            asked = type(message).__name__
            raise CantHandleException(
                f"{type(self).__name__} has no handler for a request of type {asked}. "
                f"Add a method with @rpc and `message: {asked}`, or check its `match=`."
            )

    @classmethod
    def _routing(cls) -> RoutingTable:
        if cls._own_routing is None:
            cls._own_routing = RoutingTable(cls)
        return cls._own_routing

    @classmethod
    def hears(cls, message_class: type[Any]) -> bool | None:
        """Whether a handler takes published messages of a class; None where the class has a way of its own with them."""
        own_ways = (cls.on_message_impl, cls.on_unhandled_message)
        if own_ways != (RoutedAgent.on_message_impl, RoutedAgent.on_unhandled_message):
            return None
        return bool(cls._routing().events[message_class])

    @classmethod
    def handled_types(cls) -> tuple[type[Any], ...]:
        """The message classes that its handlers take."""
        return cls._routing().handled_types()

    @classmethod
    def produced_types(cls) -> tuple[type[Any], ...]:
        """The classes of the responses that its handlers return."""
        return cls._routing().produced_types()

    @classmethod
    def _handles_types(cls) -> list[type[Any]]:
        return [*super()._handles_types(), *cls.handled_types(), *cls.produced_types()]


def _discover(agent_class: type[Any]) -> tuple[Handler, ...]:
    found: dict[str, Handler | None] = {}
    for cls in agent_class.__mro__:
        for name, attribute in vars(cls).items():
            found.setdefault(name, find_handler(attribute))
    return tuple(handler for handler in found.values() if handler is not None)


def _named(classes: Any) -> tuple[type[Any], ...]:
    return tuple(dict.fromkeys(cls for cls in classes if cls not in (ANY, type(None))))
