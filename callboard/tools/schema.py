"""JSON schemas of tools: from functions and pydantic models, and pydantic models from them."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext

from .errors import ToolDeclarationError
from .json_schema import (
    DATA,
    NAMED,
    PREFIX,
    agree,
    opened,
    properties_of,
    references,
    required_of,
    together,
    with_definitions,
)

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
MAX_DESCRIPTION: Final = 1024  # characters; the limit of OpenAI's API


def check_name(name: str) -> str:
    """The name, if model APIs take it as that of a function.

    Raises:
        ToolDeclarationError: They don't (a ValueError).
    """
    if not NAME.match(name) or keyword.iskeyword(name):
        raise ToolDeclarationError(
            repr(name[:80]),
            "its name may have a letter or '_', then up to 63 letters a-z, digits and '_', and is no Python keyword",
        )
    return name


def check_description(name: str, description: str) -> str:
    """The description of a tool, if it is not too long.

    Raises:
        ToolDeclarationError: It has more than 1,024 characters (a ValueError).
    """
    if len(description) > MAX_DESCRIPTION:
        raise ToolDeclarationError(
            name,
            f"its description has {len(description):,} characters: at most {MAX_DESCRIPTION:,} are allowed",
        )
    return description


_Definitions = TypedDict("_Definitions", {"$defs": NotRequired[dict[str, Any]]})


class ParametersSchema(_Definitions):
    """The arguments of a tool as JSON schema: an object with one property for each argument.

    ``$defs`` is there only for arguments that contain themselves, such as trees.
    """

    type: str
    properties: dict[str, Any]
    required: NotRequired[Sequence[str]]
    additionalProperties: NotRequired[bool]  # noqa: N815 - JSON schema spells it so


class ToolSchema(TypedDict):
    """The description of a tool that a model gets."""

    name: str
    description: NotRequired[str]
    parameters: NotRequired[ParametersSchema]
    strict: NotRequired[bool]


class _Generator(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes of names: they tell a model nothing, and cost tokens each time."""

    # A default that JSON can't show is only left out; a warning about it would help no one.
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def parameters_of(model: type[BaseModel], tool: str, *, strict: bool = False) -> ParametersSchema:
    """The JSON schema of a model that describes arguments.

    Args:
        model: One field for each argument.
        tool: Name of the tool, for errors.
        strict: The schema has to meet the rules of OpenAI's structured outputs.

    Raises:
        ToolDeclarationError: Strict mode asks for what the model does not have (a ValueError).
    """
    schema: dict[str, Any] = model.model_json_schema(schema_generator=_Generator)
    for name, part in schema.get("$defs", {}).items():
        # The name of a class; a title that was written by hand stays.
        if name.endswith(part.get("title", "\0")):
            del part["title"]
    return to_parameters(schema, tool, strict=strict)


def to_parameters(schema: dict[str, Any], tool: str, *, strict: bool = False) -> ParametersSchema:
    """A JSON schema of an object as the parameters of a tool.

    References are replaced by what they refer to, and the parts of `allOf` by one schema, because many models' servers know
    none.

    Raises:
        ToolDeclarationError: Strict mode asks for what the schema does not have (a ValueError).
    """
    whole, definitions = with_definitions(schema)
    found = _Inliner(definitions)
    body = found.inlined(opened(whole, definitions))
    parameters = ParametersSchema(
        type="object",
        properties=dict(properties_of(body)),
        required=required_of(body),
        additionalProperties=body.get("additionalProperties", False),
    )
    if found.kept:
        parameters["$defs"] = {name: found.inlined(definitions[name], (name,)) for name in found.all_kept()}
    if strict:
        reasons = list(_make_strict(dict(parameters), ""))
        reasons += [
            why for name, part in parameters.get("$defs", {}).items() for why in _make_strict(part, name)
        ]
        if reasons:
            raise ToolDeclarationError(
                tool,
                f"Strict mode is enabled for it, and its arguments don't allow it: {'; '.join(reasons)}. "
                "In strict mode every argument is required and every object lists its fields: write `X | None` "
                "without a default instead of an optional argument, and a model instead of a dict.",
                places=reasons,
            )
    return parameters


#: Schemas in one before references are kept after all: those to each other grow by powers of two.
LARGEST: Final = 1_000


class _Inliner:
    """Replaces references; what refers to itself is kept."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._left = LARGEST
        self.kept: dict[str, None] = {}

    def inlined(self, node: Any, inside: tuple[str, ...] = ()) -> Any:
        if isinstance(node, list):
            return [self.inlined(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        self._left -= 1
        node = self._merged(node)
        name = self._referred(node)
        if name is None:
            return {key: self._part(key, value, inside) for key, value in node.items()}
        if name in inside or self._is_recursive(name) or self._left < 0:
            self.kept[name] = None
            return dict(node)
        beside = {key: self._part(key, value, inside) for key, value in node.items() if key != "$ref"}
        found = self.inlined(self._definitions[name], (*inside, name))
        return {**found, **beside} if isinstance(found, dict) else found

    def _part(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in DATA:
            return value
        if key in NAMED and isinstance(value, dict):
            return {name: self.inlined(part, inside) for name, part in value.items()}
        return self.inlined(value, inside)

    def _referred(self, node: Any) -> str | None:
        """The name of the definition that a schema refers to."""
        name = str(node.get("$ref", "")).removeprefix(PREFIX) if isinstance(node, dict) else ""
        return name if name in self._definitions else None

    def _merged(self, node: dict[str, Any]) -> dict[str, Any]:
        """The schema without `allOf`, where that can be one with it."""
        parts = node.get("allOf")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            return node
        rest = {key: value for key, value in node.items() if key != "allOf"}
        if len(parts) > 1 or self._referred(node):
            names = [name for part in (node, *parts) if (name := self._referred(part))]
            if any(
                self._is_recursive(name) or not isinstance(self._definitions[name], dict) for name in names
            ):
                return node
            rest, *parts = [self._replaced(part) for part in (rest, *parts)]
        every = [rest, *parts]
        return together(every) if agree(every) else node

    def _replaced(self, node: dict[str, Any]) -> dict[str, Any]:
        """The schema with what it refers to in its place, which does not refer to itself."""
        name = self._referred(node)
        found = self._merged(node) if name is None else self._replaced(self._definitions[name])
        return (
            together([{key: value for key, value in node.items() if key != "$ref"}, found]) if name else found
        )

    def all_kept(self) -> Iterator[str]:
        """The definitions that stay, with those that they need."""
        done: set[str] = set()
        while waiting := [name for name in self.kept if name not in done]:
            for name in waiting:
                done.add(name)
                yield name

    def _is_recursive(self, name: str) -> bool:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for reference in references(self._definitions.get(waiting.pop(), {})):
                found = reference.removeprefix(PREFIX)
                if found == name:
                    return True
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return False


def _make_strict(node: Any, where: str) -> Iterator[str]:
    """Closes the objects of a schema in place; yields what keeps it from being strict.

    The rules are those of OpenAI's structured outputs: every property required, no other properties, ``anyOf`` as the
    only union.
    """
    if not isinstance(node, dict):
        return
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
        node.pop("discriminator", None)
    if "prefixItems" in node:
        yield f"{where or 'an argument'} is a tuple"
    if node.get("type") == "object":
        yield from _close_object(node, where)
    for name, part in node.get("properties", {}).items():
        yield from _make_strict(part, f"{where}.{name}" if where else name)
    for part in (node.get("items"), *node.get("anyOf", ()), *node.get("allOf", ())):
        yield from _make_strict(part, where)


def _close_object(node: dict[str, Any], where: str) -> Iterator[str]:
    properties = node.get("properties", {})
    for name in properties:
        if name not in node.get("required", ()):
            yield f"{where}.{name} has a default" if where else f"{name} has a default"
    if node.get("additionalProperties"):
        yield f"{where or 'the whole'} takes any keys"
    elif where and not properties:
        yield f"{where} lists no fields"
    node["additionalProperties"] = False


HEADS: Final = frozenset({"Args:", "Arguments:", "Parameters:"})
ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def described_parameters(docstring: str | None) -> dict[str, str]:
    """Parameter -> its description, in one line; of those that an ``Args:`` section describes.

    Args:
        docstring: Of a function, as it is written; None: it has none.
    """
    found: dict[str, list[str]] = {}
    depth: int | None = None  # of the names in the section; deeper lines go on with a description
    current: list[str] = []
    for line in _section(inspect.cleandoc(docstring or "")):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        entry = ENTRY.fullmatch(line.strip()) if indent <= depth else None
        if entry is not None:
            current = found[entry[1]] = [entry[2]]
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in found.items() if any(lines)}


def _section(text: str) -> list[str]:
    """The lines below ``Args:`` that belong to it."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines, 1) if line in HEADS), len(lines))
    section: list[str] = []
    for line in lines[start:]:
        if line and not line[0].isspace():
            break
        if line.strip():
            section.append(line)
    return section


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
        fields[parameter.name] = field = _field_name_of_parameter(parameter.name, len(fields))
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


def _field_name_of_parameter(parameter: str, number: int) -> str:
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
    # JSON has no NaN, and a text "NaN" that became one would pass every comparison.
    config = ConfigDict(extra="forbid", populate_by_name=True, allow_inf_nan=False)
    try:
        made: type[BaseModel] = create_model(f"{tool}args", __config__=config, **definitions)
    except (PydanticUserError, TypeError) as error:
        reason = re.sub(r"\s+", " ", str(error).partition(". ")[0])
        raise ToolDeclarationError(tool, f"pydantic can't describe its arguments: {reason}") from error
    return made
