"""JSON schemas of tools: from pydantic models, with references resolved, and checked for strict mode."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NotRequired, TypedDict

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from .errors import StrictSchemaError

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
        StrictSchemaError: Strict mode asks for what the model does not have (a ValueError).
    """
    schema: dict[str, Any] = model.model_json_schema(schema_generator=_Generator)
    for name, part in schema.get("$defs", {}).items():
        # The name of a class; a title that somebody wrote stays.
        if name.endswith(part.get("title", "\0")):
            del part["title"]
    return to_parameters(schema, tool, strict=strict)


def to_parameters(schema: dict[str, Any], tool: str, *, strict: bool = False) -> ParametersSchema:
    """A JSON schema of an object as the parameters of a tool.

    References are replaced by what they refer to, because many models' servers know none.

    Raises:
        StrictSchemaError: Strict mode asks for what the schema does not have (a ValueError).
    """
    definitions = schema.get("$defs", {})
    found = _Inliner(definitions)
    body = found.inlined({key: value for key, value in schema.items() if key != "$defs"})
    parameters = ParametersSchema(
        type="object",
        properties=body.get("properties", {}),
        required=list(body.get("required", [])),
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
            raise StrictSchemaError(tool, reasons)
    return parameters


class _Inliner:
    """Replaces references; what refers to itself is kept."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self.kept: dict[str, None] = {}

    def inlined(self, node: Any, inside: tuple[str, ...] = ()) -> Any:
        if isinstance(node, list):
            return [self.inlined(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name not in self._definitions:
            return {key: self.inlined(value, inside) for key, value in node.items()}
        if name in inside or self._is_recursive(name):
            self.kept[name] = None
            return dict(node)
        beside = {key: self.inlined(value, inside) for key, value in node.items() if key != "$ref"}
        return {**self.inlined(copy.deepcopy(self._definitions[name]), (*inside, name)), **beside}

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
            for found in _references(self._definitions.get(waiting.pop(), {})):
                if found == name:
                    return True
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return False


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)


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
