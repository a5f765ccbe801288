"""Reads from a function's signature which arguments a model may give, and which are injected."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from callboard.cancellation import CancellationToken
from callboard.context import MessageContext

from .docstrings import described_parameters
from .errors import ToolDeclarationError

NONE: Final = inspect.Parameter.empty
_INJECTED: Final[Mapping[str, Any]] = {
    "MessageContext": MessageContext,
    "CancellationToken": CancellationToken,
}


class Injected(Enum):
    """An argument that a function is given and that the model never sees."""

    TOKEN = "cancellation_token"  # noqa: S105 - no password
    CONTEXT = "ctx"
    OPTIONAL_CONTEXT = "ctx or None"
    KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """The signature of a function: the arguments that come from the model, and those that we add.

    Attributes:
        name: The function's own name.
        model: One field for each argument that the model may give.
        fields: Parameter -> field of the model.
        injected: Parameter -> what it is given.
        positional: The parameters that can't be given by name, in order.
        returns: What it returns, without what Annotated says of it; Any without an annotation.
    """

    name: str
    model: type[BaseModel]
    fields: Mapping[str, str]
    injected: Mapping[str, Injected]
    positional: tuple[str, ...]
    returns: Any

    def arguments(
        self, args: BaseModel, token: CancellationToken, ctx: MessageContext | None, key: str | None = None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments for one call."""
        values = {name: _value(args, name, field) for name, field in self.fields.items()}
        given = {Injected.TOKEN: token, Injected.KEY: key}
        for name, what in self.injected.items():
            values[name] = given.get(what, ctx)
        return [values.pop(name) for name in self.positional], values

    @property
    def needs_context(self) -> bool:
        """True if it can't be called without a MessageContext."""
        return Injected.CONTEXT in self.injected.values()


def _value(args: BaseModel, name: str, field: str) -> Any:
    # Programs for AutoGen pass models of their own, whose fields have the names of the parameters.
    return getattr(args, field) if hasattr(args, field) else getattr(args, name)


def read_signature(
    function: Callable[..., Any], tool: str, scope: Mapping[str, Any] | None = None
) -> FunctionSignature:
    """Read a function.

    Args:
        function: Any function, method, partial or object with ``__call__``.
        tool: The tool's name, for errors.
        scope: Local names where it was defined, for annotations written as strings.

    Raises:
        ToolDeclarationError: It can't be a tool (a ValueError); the text says which parameter and what to write.
    """
    hints = _hints(function, tool, scope)
    described = described_parameters(inspect.unwrap(plain_function(function)).__doc__)
    injected: dict[str, Injected] = {}
    fields: dict[str, str] = {}
    definitions: dict[str, Any] = {}
    positional: list[str] = []
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        _check_kind(parameter, tool)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
        annotation = hints.get(parameter.name, parameter.annotation)
        what = _injection(parameter.name, annotation)
        if what is not None:
            injected[parameter.name] = what
            continue
        if annotation is NONE:
            raise ToolDeclarationError(
                tool, f"give the parameter {parameter.name!r} a type: {parameter.name}: str"
            )
        fields[parameter.name] = field = _field_name(parameter.name, len(fields))
        definitions[field] = _definition(parameter, field, annotation, described.get(parameter.name))
    return FunctionSignature(
        name=tool,
        model=_model(tool, definitions),
        fields=fields,
        injected=injected,
        positional=tuple(positional),
        returns=_plain_type(hints.get("return", Any)),
    )


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, of what a partial calls, or of an object's class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def plain_function(function: Callable[..., Any]) -> Any:
    """The function that has the annotations: inside partials and decorators, or ``__call__`` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isclass(function) or inspect.isroutine(function):
        return function
    return type(function).__call__


def _hints(function: Callable[..., Any], tool: str, scope: Mapping[str, Any] | None) -> dict[str, Any]:
    plain = inspect.unwrap(plain_function(function))
    known = {**_INJECTED, **getattr(plain, "__globals__", {})}
    try:
        return get_type_hints(plain, known, dict(scope) if scope else None, include_extras=True)
    except NameError as error:
        reason = (
            f"the name {error.name!r} in its annotations can't be found. Define or import it at the top level of its "
            "module, not only for type checkers"
        )
        raise ToolDeclarationError(tool, reason) from error
    except (TypeError, SyntaxError) as error:
        raise ToolDeclarationError(tool, f"its annotations can't be read: {error}") from error


def _check_kind(parameter: inspect.Parameter, tool: str) -> None:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        reason = (
            f"a model can't be told what {stars}{parameter.name} takes: name every argument, or take a list"
        )
        raise ToolDeclarationError(tool, reason)


def _injection(name: str, annotation: Any) -> Injected | None:
    """The kind of argument that we add for a parameter; None if the model gives it."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    is_union = get_origin(annotation) in (Union, UnionType)
    classes = get_args(annotation) if is_union else (annotation,)
    if CancellationToken in classes or name == "cancellation_token":
        return Injected.TOKEN
    if name == "idempotency_key":
        return Injected.KEY
    if MessageContext in classes:
        return Injected.OPTIONAL_CONTEXT if NoneType in classes else Injected.CONTEXT
    return None


def _field_name(parameter: str, number: int) -> str:
    """The parameter's own name, unless pydantic gives it a meaning."""
    is_taken = hasattr(BaseModel, parameter) or parameter.startswith(("_", "model_"))
    return f"argument_{number}" if is_taken else parameter


def _definition(
    parameter: inspect.Parameter, field: str, annotation: Any, described: str | None
) -> tuple[Any, FieldInfo]:
    default = ... if parameter.default is NONE else parameter.default
    if isinstance(default, FieldInfo):
        return annotation, default
    # AutoGen gives the name as description and again as title, which tells a model nothing and costs tokens each time.
    description = _description(annotation) or described
    alias = parameter.name if field != parameter.name else None
    return annotation, Field(default, description=description, alias=alias)


def _plain_type(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _description(annotation: Any) -> str:
    """The first text in Annotated, or the description of a Field in it."""
    if get_origin(annotation) is not Annotated:
        return ""
    for extra in get_args(annotation)[1:]:
        if isinstance(extra, str):
            return extra
        if isinstance(extra, FieldInfo) and extra.description:
            return extra.description
    return ""


def _model(tool: str, definitions: Mapping[str, Any]) -> type[BaseModel]:
    # What is not an argument is refused: a misspelt optional one would silently be its default, as in AutoGen.
    config = ConfigDict(extra="forbid", populate_by_name=True)
    try:
        made: type[BaseModel] = create_model(f"{tool}args", __config__=config, **definitions)
    except (PydanticUserError, TypeError) as error:
        reason = re.sub(r"\s+", " ", str(error).partition(". ")[0])
        raise ToolDeclarationError(tool, f"pydantic can't describe its arguments: {reason}") from error
    return made
