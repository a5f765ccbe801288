"""Reads from the annotations of a handler which message classes it takes and returns.

Annotations may be written as strings, and name classes that are defined later or inside a function. They are
read when the handler is decorated if that is possible, else when its agent class is first used.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, NamedTuple, NewType, Union, get_args, get_origin, get_type_hints

from .errors import HandlerDeclarationError
from .requests import response_of

ANY = object
"""Stands for every message class: what `Any` is read as."""


class HandlerTypes(NamedTuple):
    """The classes that a handler takes and returns; `Any` is `object` and `None` is `NoneType`."""

    accepts: tuple[type[Any], ...]
    returns: tuple[type[Any], ...]


class HandlerSignature:
    """The declared types of one function ``(agent, message, ctx)``, read as early as possible.

    Args:
        function: The function as the user wrote it.
        scope: Local names where the function was defined, for annotations written as strings.
        answers: Whether it answers requests, so that it has to return what they say.

    Raises:
        HandlerDeclarationError: The function can't be a handler.
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
            HandlerDeclarationError: A name in them can't be found, or they are no classes.
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
            raise HandlerDeclarationError(self.name, reason)
        message = parameters[1]
        if message.annotation is inspect.Parameter.empty:
            reason = f"Message type not found: annotate `{message.name}` with the message class."
            raise HandlerDeclarationError(self.name, reason)
        if signature.return_annotation is inspect.Signature.empty:
            reason = "return not found in function signature: add `-> None`, or the class of the response."
            raise HandlerDeclarationError(self.name, reason)
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
            raise HandlerDeclarationError(self.name, reason) from error

    def _hints(self) -> dict[str, Any]:
        # Only the two annotations that matter: MessageContext may well be imported for type checkers alone.
        def holder() -> None: ...

        holder.__annotations__ = dict(self._annotations)
        try:
            scope = dict(self._scope) if self._scope else None
            return get_type_hints(holder, globalns=self._globals, localns=scope)
        except (SyntaxError, TypeError) as error:
            raise HandlerDeclarationError(self.name, f"its annotations can't be read: {error}.") from error

    def _check(self, hints: Mapping[str, Any]) -> HandlerTypes:
        accepts = classes_of(hints["message"])
        if accepts is None:
            reason = f"Message type not found: {hints['message']!r} is no class. {_ADVICE}"
            raise HandlerDeclarationError(self.name, reason)
        returns = classes_of(hints["return"])
        if returns is None:
            reason = f"Return type not found: {hints['return']!r} is no class. {_ADVICE}"
            raise HandlerDeclarationError(self.name, reason)
        if self._answers:
            self._check_answers(accepts, returns)
        return HandlerTypes(accepts, returns)

    def _check_answers(self, accepts: tuple[type[Any], ...], returns: tuple[type[Any], ...]) -> None:
        """What it returns has to fit the requests that say what answers them, see requests.py."""
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
    ) -> HandlerDeclarationError:
        reason = (
            f"it returns {names_of(returns)}, and {request.__name__} is a Request[{names_of(wanted)}]: return that, or "
            "change what the request says."
        )
        return HandlerDeclarationError(self.name, reason)


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PARAMETERS = 3
_ADVICE = "Use a class, a union of classes, None or Any; wrap a collection of models in a model."


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


def _generic_class(origin: Any, arguments: tuple[Any, ...]) -> tuple[type[Any], ...] | None:
    """`list[str]` is routed as `list`; `list[Model]` is refused: its elements would arrive as plain dicts."""
    if not isinstance(origin, type) or inspect.isabstract(origin):
        return None
    if origin in _COLLECTIONS and not all(map(_is_plain, arguments)):
        return None
    return (origin,)


_COLLECTIONS = (list, dict, tuple, set, frozenset)


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
        raise HandlerDeclarationError(
            name, "it yields: publish messages instead, and return at most one response."
        )
    # A decorated function may return a coroutine without being one itself; that can't be seen from outside.
    wrapped = plain is not function
    if isinstance(plain, types.FunctionType) and not wrapped and not inspect.iscoroutinefunction(plain):
        raise HandlerDeclarationError(name, "a handler must be async: write `async def`.")
