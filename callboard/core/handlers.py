"""Message handlers: the agent that routes to them, their decorators, and what their annotations say.

Annotations may be written as strings, and name classes that are defined later or inside a function. They are
read when the handler is decorated if that is possible, else when its agent class is first used.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import types
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import is_dataclass
from types import FrameType, NoneType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from callboard.errors import DeclarationError
from callboard.foundation import CantHandleException

from .agent import BaseAgent, StateT
from .context import MessageContext
from .protocol import response_of

logger = logging.getLogger("callboard.actors")
Kind = Literal["event", "rpc", "message"]
Match: TypeAlias = Callable[[Any, MessageContext], bool]
HandlerFunction: TypeAlias = Callable[[Any, Any, MessageContext], Coroutine[Any, Any, Any]]


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
            DeclarationError: It does not fit, and the handler is strict (a ValueError).
        """
        if isinstance(result, self.results):
            return result
        error = self._wrong_result(type(result).__name__)
        if self.strict:
            raise error
        logger.warning("%s", error)
        return None if self.kind == "event" else result

    def _wrong_result(self, result: str) -> DeclarationError:
        advice = "Correct the annotation, or use strict=False."
        if self.kind == "event":
            advice = "Nobody waits for what an @event returns: publish it, or make the handler an @rpc."
        declared = names_of(self.results)
        return DeclarationError(self.name, f"Return type {result} not in return types {declared}. {advice}")


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
        DeclarationError: The annotations of a handler can't be read.
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
        DeclarationError: The annotations of a handler can't be read (an AssertionError).
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


ANY = object
"""Stands for every message class: what `Any` is read as."""


def _named(classes: Any) -> tuple[type[Any], ...]:
    return tuple(dict.fromkeys(cls for cls in classes if cls not in (ANY, type(None))))


# The decorators

EventFunction: TypeAlias = Callable[[Any, Any, MessageContext], Coroutine[Any, Any, None]]

HandlerT = TypeVar("HandlerT", bound=HandlerFunction)
EventT = TypeVar("EventT", bound=EventFunction)

_HANDLER = "__callboard_handler__"


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
        DeclarationError: The method can't be a handler (an AssertionError).
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
        DeclarationError: The method can't be a handler (an AssertionError).
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
        DeclarationError: The method can't be a handler (an AssertionError).
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
        raise DeclarationError(repr(function), f"@{kind} decorates a method; pass options by name.")
    signature = HandlerSignature(function, scope=local_scope(function, frame), answers=kind != "event")
    if match is not None and inspect.iscoroutinefunction(match):
        raise DeclarationError(signature.name, "match= must be an ordinary function, not an async one.")
    handler = Handler(function, kind, strict=strict, match=match, signature=signature)

    # Agents dispatch to handler.function; this wrapper is what a call by name goes through.
    @functools.wraps(function)
    async def checked(*given: Any, **named: Any) -> Any:
        bound = signature_of(function).bind(*given, **named)
        handler.check_message(bound.args[1])
        return handler.check_result(await function(*bound.args, **bound.kwargs))

    setattr(checked, _HANDLER, handler)
    return cast("HandlerT", checked)


# What annotations say


class HandlerTypes(NamedTuple):
    """The classes that a handler takes and returns; `Any` is `object` and `None` is `NoneType`."""

    accepts: tuple[type[Any], ...]
    returns: tuple[type[Any], ...]


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PARAMETERS = 3
_ADVICE = "Use a class, a union of classes, None or Any; wrap a collection of models in a model."


class HandlerSignature:
    """The declared types of one function ``(agent, message, ctx)``, read as early as possible.

    Args:
        function: The function as the user wrote it.
        scope: Local names where the function was defined, for annotations written as strings.
        answers: Whether it answers requests, so that it has to return what they say.

    Raises:
        DeclarationError: The function can't be a handler.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        scope: Mapping[str, Any] | None = None,
        answers: bool = True,
    ) -> None:
        self.name: str = getattr(function, "__qualname__", repr(function))
        self._globals = _globals_of(function)
        self._scope = scope
        self._answers = answers
        self._types: HandlerTypes | None = None
        self._annotations = self._find_annotations(signature_of(function))
        _check_async(function, self.name)
        self._read_if_possible()

    @property
    def types(self) -> HandlerTypes:
        """The declared types.

        Raises:
            DeclarationError: A name in them can't be found, or they are no classes.
        """
        if self._types is None:
            self._types = self._read()
            self._scope = None
        return self._types

    def _find_annotations(self, signature: inspect.Signature) -> dict[str, Any]:
        parameters = [p for p in signature.parameters.values() if p.kind in _POSITIONAL]
        required = [p for p in parameters if p.default is inspect.Parameter.empty]
        if len(parameters) < _PARAMETERS or len(required) > _PARAMETERS:
            reason = f"it must have {_PARAMETERS} parameters: the agent, the message and its context."
            raise DeclarationError(self.name, reason)
        message = parameters[1]
        if message.annotation is inspect.Parameter.empty:
            reason = f"Message type not found: annotate `{message.name}` with the message class."
            raise DeclarationError(self.name, reason)
        if signature.return_annotation is inspect.Signature.empty:
            reason = "return not found in function signature: add `-> None`, or the class of the response."
            raise DeclarationError(self.name, reason)
        return {"message": message.annotation, "return": signature.return_annotation}

    def _read_if_possible(self) -> None:
        try:
            self._types = self._check(self._hints())
        except NameError:
            # Defined later in its module, or local to a function: asked for again at the first use.
            return

    def _read(self) -> HandlerTypes:
        try:
            return self._check(self._hints())
        except NameError as error:
            reason = (
                f"the name {error.name!r} in its annotations can't be found. Define or import it at the top "
                "level of its module (not only for type checkers), or in a function before the agent class."
            )
            raise DeclarationError(self.name, reason) from error

    def _hints(self) -> dict[str, Any]:
        # Only the two annotations that matter: MessageContext may well be imported for type checkers alone.
        def holder() -> None: ...

        holder.__annotations__ = dict(self._annotations)
        try:
            scope = dict(self._scope) if self._scope else None
            return get_type_hints(holder, globalns=self._globals, localns=scope)
        except (SyntaxError, TypeError) as error:
            raise DeclarationError(self.name, f"its annotations can't be read: {error}.") from error

    def _check(self, hints: Mapping[str, Any]) -> HandlerTypes:
        accepts = classes_of(hints["message"])
        if accepts is None:
            reason = f"Message type not found: {hints['message']!r} is no class. {_ADVICE}"
            raise DeclarationError(self.name, reason)
        returns = classes_of(hints["return"])
        if returns is None:
            reason = f"Return type not found: {hints['return']!r} is no class. {_ADVICE}"
            raise DeclarationError(self.name, reason)
        if self._answers:
            self._check_answers(accepts, returns)
        return HandlerTypes(accepts, returns)

    def _check_answers(self, accepts: tuple[type[Any], ...], returns: tuple[type[Any], ...]) -> None:
        """Check that it returns the responses that its requests name, see `Request`."""
        wanted = {cls: classes for cls in accepts if (classes := classes_of(response_of(cls))) is not None}
        if ANY in returns:
            return
        for request, classes in wanted.items():
            if not any(issubclass(cls, classes) for cls in returns):
                raise self._wrong_answer(request, classes, returns)
        all_wanted = tuple(cls for classes in wanted.values() for cls in classes)
        if len(wanted) == len(accepts) and not all(issubclass(cls, all_wanted) for cls in returns):
            request, classes = next(iter(wanted.items()))
            raise self._wrong_answer(request, classes, returns)

    def _wrong_answer(
        self, request: type[Any], wanted: tuple[type[Any], ...], returns: tuple[type[Any], ...]
    ) -> DeclarationError:
        reason = (
            f"it returns {names_of(returns)}, and {request.__name__} is a Request[{names_of(wanted)}]: return that, or "
            "change what the request says."
        )
        return DeclarationError(self.name, reason)


def names_of(classes: tuple[type[Any], ...]) -> str:
    """Classes as an annotation would name them."""
    return " | ".join(
        "Any" if cls is ANY else "None" if cls is types.NoneType else cls.__name__ for cls in classes
    )


def classes_of(annotation: Any) -> tuple[type[Any], ...] | None:
    """The classes that an annotation stands for.

    Args:
        annotation: A resolved annotation.

    Returns:
        Its classes in order, without repetition; None when it does not stand for classes that a message can
        have.
    """
    if annotation is Any or annotation is object:
        return (ANY,)
    if annotation is None:
        return (types.NoneType,)
    origin = get_origin(annotation)
    if origin is None:
        return _plain_class(annotation)
    if origin is Union or origin is types.UnionType:
        return _merged([classes_of(part) for part in get_args(annotation)])
    if origin is Literal:
        return _merged([(type(value),) for value in get_args(annotation)])
    return _generic_class(origin, get_args(annotation))


def _plain_class(annotation: Any) -> tuple[type[Any], ...] | None:
    if isinstance(annotation, type):
        return (annotation,)
    if isinstance(annotation, NewType):
        return classes_of(annotation.__supertype__)
    # A `type X = ...` statement of Python 3.12.
    if hasattr(annotation, "__value__"):
        return classes_of(annotation.__value__)
    return None


_COLLECTIONS = (list, dict, tuple, set, frozenset)


def _generic_class(origin: Any, arguments: tuple[Any, ...]) -> tuple[type[Any], ...] | None:
    """`list[str]` is routed as `list`; `list[Model]` is refused: its elements would arrive as plain dicts."""
    if not isinstance(origin, type) or inspect.isabstract(origin):
        return None
    if origin in _COLLECTIONS and not all(map(_is_plain, arguments)):
        return None
    return (origin,)


def _is_plain(annotation: Any) -> bool:
    if annotation is Any or annotation is Ellipsis or annotation is None:
        return True
    if get_origin(annotation) is not None:
        return all(map(_is_plain, get_args(annotation)))
    return not (is_dataclass(annotation) or hasattr(annotation, "model_validate_json"))


def _merged(parts: list[tuple[type[Any], ...] | None]) -> tuple[type[Any], ...] | None:
    merged: dict[type[Any], None] = {}
    for part in parts:
        if part is None:
            return None
        merged.update(dict.fromkeys(part))
    return tuple(merged)


def local_scope(function: Callable[..., Any], frame: types.FrameType | None) -> Mapping[str, Any] | None:
    """The local names that are visible where a function is being defined.

    Args:
        function: The function.
        frame: The frame that defines it.

    Returns:
        The names of the class bodies and functions around it, the inner ones winning; None when no annotation
        is a string, which is the only case in which they are needed.
    """
    signature = signature_of(function)
    annotations = (*(p.annotation for p in signature.parameters.values()), signature.return_annotation)
    if not any(isinstance(annotation, str) for annotation in annotations):
        return None
    names: dict[str, Any] = {}
    around = _enclosing_names(getattr(function, "__qualname__", ""))
    while frame is not None and frame.f_code.co_qualname in around:
        names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names or None


def _enclosing_names(qualified: str) -> frozenset[str]:
    """Of ``"f.<locals>.C.m"``: ``"f.<locals>.C"`` and ``"f"``; who merely called `f` is not among them."""
    parts = qualified.split(".")
    prefixes = (".".join(parts[:end]) for end in range(1, len(parts)))
    return frozenset(prefix for prefix in prefixes if not prefix.endswith("<locals>"))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, without asking for what its annotations name."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    plain: Any = inspect.unwrap(function)
    while hasattr(plain, "func"):
        plain = inspect.unwrap(plain.func)
    plain = getattr(plain, "__func__", plain)
    if not hasattr(plain, "__globals__"):
        plain = type(plain).__call__
    found: dict[str, Any] = getattr(plain, "__globals__", {})
    return found


def _check_async(function: Callable[..., Any], name: str) -> None:
    plain: Any = inspect.unwrap(function)
    if inspect.isasyncgenfunction(plain):
        raise DeclarationError(name, "it yields: publish messages instead, and return at most one response.")
    # A decorated function may return a coroutine without being one itself; that can't be seen from outside.
    wrapped = plain is not function
    if isinstance(plain, types.FunctionType) and not wrapped and not inspect.iscoroutinefunction(plain):
        raise DeclarationError(name, "a handler must be async: write `async def`.")
