"""The decorators that make a method of a `RoutedAgent` a message handler."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Coroutine
from types import FrameType, NoneType
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from .annotations import HandlerSignature, local_scope, names_of, signature_of
from .context import MessageContext
from .errors import CantHandleException, HandlerDeclarationError, HandlerResultError

__all__ = ["Handler", "event", "find_handler", "message_handler", "rpc"]

logger = logging.getLogger("callboard.actors")

Kind = Literal["event", "rpc", "message"]
Match: TypeAlias = Callable[[Any, MessageContext], bool]
HandlerFunction: TypeAlias = Callable[[Any, Any, MessageContext], Coroutine[Any, Any, Any]]
EventFunction: TypeAlias = Callable[[Any, Any, MessageContext], Coroutine[Any, Any, None]]

HandlerT = TypeVar("HandlerT", bound=HandlerFunction)
EventT = TypeVar("EventT", bound=EventFunction)

_HANDLER = "__callboard_handler__"


class Handler:
    """One declared message handler.

    Args:
        function: The method as the user wrote it.
        kind: ``"event"`` takes published messages, ``"rpc"`` requests, ``"message"`` both.
        strict: Whether a wrong type is an error; else it is logged and passed through.
        match: Decides whether this handler takes a message whose type fits; None: always.
        signature: Its declared types.
    """

    __slots__ = ("__dict__", "function", "kind", "match", "name", "signature", "strict")

    def __init__(
        self,
        function: HandlerFunction,
        kind: Kind,
        *,
        strict: bool,
        match: Match | None,
        signature: HandlerSignature,
    ) -> None:
        self.function = function
        self.kind: Kind = kind
        self.strict = strict
        self.match = match
        self.signature = signature
        self.name = signature.name

    @property
    def accepts(self) -> tuple[type[Any], ...]:
        """The message classes it takes; `object` stands for `Any`."""
        return self.signature.types.accepts

    @property
    def produces(self) -> tuple[type[Any], ...]:
        """The classes in its return annotation; `NoneType` for None, `object` for `Any`."""
        return self.signature.types.returns

    @functools.cached_property
    def results(self) -> tuple[type[Any], ...]:
        """The classes that it may return: what it produces, and for events only None."""
        nothing: tuple[type[Any], ...] = (NoneType,)
        return nothing if self.kind == "event" else self.produces

    def takes(self, *, is_rpc: bool) -> bool:
        """Whether it takes requests, or published messages."""
        return self.kind == "message" or (self.kind == "rpc") is is_rpc

    def check_message(self, message: Any) -> None:
        """Check the type of a message that is about to be passed to it.

        Raises:
            CantHandleException: It does not fit, and the handler is strict.
        """
        if isinstance(message, self.accepts):
            return
        error = CantHandleException(
            f"Message type {type(message).__name__} not in target types {names_of(self.accepts)} of {self.name}."
        )
        if self.strict:
            raise error
        logger.warning("%s", error)

    def check_result(self, result: Any) -> Any:
        """Check the type of what it returned.

        Returns:
            The result; None for an event, whatever it returned.

        Raises:
            HandlerResultError: It does not fit, and the handler is strict (a ValueError).
        """
        if isinstance(result, self.results):
            return result
        error = self._wrong_result(type(result).__name__)
        if self.strict:
            raise error
        logger.warning("%s", error)
        return None if self.kind == "event" else result

    def _wrong_result(self, result: str) -> HandlerResultError:
        declared = names_of(self.results)
        if self.kind == "event":
            advice = "Nobody waits for what an @event returns: publish it, or make the handler an @rpc."
            return HandlerResultError(self.name, result, declared, advice)
        return HandlerResultError(self.name, result, declared)


def find_handler(attribute: object) -> Handler | None:
    """The handler that a decorator of this module left on a class attribute; None when it has no decorator."""
    # vars() and not getattr(): a mock has every attribute.
    found = getattr(attribute, "__dict__", {}).get(_HANDLER)
    return found if isinstance(found, Handler) else None


@overload
def message_handler(func: HandlerT) -> HandlerT: ...


@overload
def message_handler(
    func: None = None, *, strict: bool = ..., match: Match | None = ...
) -> Callable[[HandlerT], HandlerT]: ...


def message_handler(
    func: HandlerT | None = None, *, strict: bool = True, match: Match | None = None
) -> HandlerT | Callable[[HandlerT], HandlerT]:
    """Decorator: the method handles requests and published messages alike.

    The method is ``async def name(self, message: SomeClass, ctx: MessageContext) -> SomeResponse``; its parameters may
    have other names, unlike AutoGen's. The
    annotations decide what is routed to it: a class, a union of classes, or `Any` for everything that no
    other handler takes. A message of a subclass comes here too, unless a handler names its own class.

    Args:
        func: The method.
        strict: True raises for a wrong message type (CantHandleException) or result type (ValueError); False
            logs it.
        match: Takes the message and its context and says whether this handler takes it. Handlers whose type
            fits are asked in the order in which they are defined, those of a subclass first.

    Raises:
        HandlerDeclarationError: The method can't be a handler (an AssertionError).
    """
    return _decorate("message", func, strict, match, sys._getframe(1))


@overload
def event(func: EventT) -> EventT: ...


@overload
def event(
    func: None = None, *, strict: bool = ..., match: Match | None = ...
) -> Callable[[EventT], EventT]: ...


def event(
    func: EventT | None = None, *, strict: bool = True, match: Match | None = None
) -> EventT | Callable[[EventT], EventT]:
    """Decorator: the method handles published messages, and returns None. Otherwise as `message_handler`.

    Args:
        func: The method.
        strict: True raises for a wrong message type (CantHandleException) or a result (ValueError); False
            logs it.
        match: Takes the message and its context and says whether this handler takes it.

    Raises:
        HandlerDeclarationError: The method can't be a handler (an AssertionError).
    """
    return _decorate("event", func, strict, match, sys._getframe(1))


@overload
def rpc(func: HandlerT) -> HandlerT: ...


@overload
def rpc(
    func: None = None, *, strict: bool = ..., match: Match | None = ...
) -> Callable[[HandlerT], HandlerT]: ...


def rpc(
    func: HandlerT | None = None, *, strict: bool = True, match: Match | None = None
) -> HandlerT | Callable[[HandlerT], HandlerT]:
    """Decorator: the method handles requests, and returns the response. Otherwise as `message_handler`.

    Args:
        func: The method.
        strict: True raises for a wrong message type (CantHandleException) or result type (ValueError); False
            logs it.
        match: Takes the message and its context and says whether this handler takes it.

    Raises:
        HandlerDeclarationError: The method can't be a handler (an AssertionError).
    """
    return _decorate("rpc", func, strict, match, sys._getframe(1))


def _decorate(
    kind: Kind, func: HandlerT | None, strict: bool, match: Match | None, frame: FrameType
) -> HandlerT | Callable[[HandlerT], HandlerT]:
    if func is not None:
        return _declare(kind, func, strict, match, frame)
    # A decorator with arguments is applied by the frame that called it with them.
    return lambda function: _declare(kind, function, strict, match, frame)


def _declare(kind: Kind, function: HandlerT, strict: bool, match: Match | None, frame: FrameType) -> HandlerT:
    if not callable(function):
        raise HandlerDeclarationError(repr(function), f"@{kind} decorates a method; pass options by name.")
    signature = HandlerSignature(function, scope=local_scope(function, frame), answers=kind != "event")
    if match is not None and inspect.iscoroutinefunction(match):
        raise HandlerDeclarationError(
            signature.name, "match= must be an ordinary function, not an async one."
        )
    handler = Handler(function, kind, strict=strict, match=match, signature=signature)

    # Agents dispatch to handler.function; this wrapper is what a call by name goes through.
    @functools.wraps(function)
    async def checked(*given: Any, **named: Any) -> Any:
        bound = signature_of(function).bind(*given, **named)
        handler.check_message(bound.args[1])
        return handler.check_result(await function(*bound.args, **bound.kwargs))

    setattr(checked, _HANDLER, handler)
    return cast("HandlerT", checked)
