"""Pydantic models made from JSON schemas, so that arguments are checked in one way wherever a schema comes from."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from .errors import ToolDeclarationError
from .schema import to_parameters

_PLAIN: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
_RULES: Final[Mapping[str, str]] = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minItems": "min_length",
    "maxItems": "max_length",
}


def model_from_schema(schema: Mapping[str, Any], tool: str) -> type[BaseModel]:
    """A model for the arguments that a JSON schema of an object describes.

    Types, enums, unions, lists, nested objects and limits are checked; what else JSON schema has is let through.

    Args:
        schema: The schema; references inside it are resolved.
        tool: Name of the tool.
    """
    return _object(dict(to_parameters(dict(schema), tool)), f"{tool}args")


def schema_to_pydantic_model(
    schema: Mapping[str, Any], model_name: str = "GeneratedModel"
) -> type[BaseModel]:
    """A pydantic model for the objects that a JSON schema describes; a name of `autogen_core.utils`.

    Unlike with AutoGen's, a key that the schema does not name is refused unless `additionalProperties` allows it, and a
    format is a note: nothing is converted.

    Args:
        schema: A schema of an object; references inside it are resolved.
        model_name: The name of the class.

    Raises:
        ToolDeclarationError: It is of something else, or a reference leads nowhere (a ValueError).
    """
    if schema.get("type", "object") != "object":
        raise ToolDeclarationError(model_name, 'its JSON schema has to be of {"type": "object"}')
    definitions = schema.get("$defs", {})
    for reference in _references(schema):
        if reference.removeprefix("#/$defs/") not in definitions:
            raise ToolDeclarationError(model_name, f"{reference} leads nowhere in its JSON schema")
    return _object(dict(to_parameters(dict(schema), model_name)), model_name)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _references(part)


def _field_name(key: str, number: int, keys: Collection[str]) -> str:
    """The key itself, unless Python or pydantic gives it a meaning."""
    is_taken = hasattr(BaseModel, key) or key.startswith(("_", "model_")) or keyword.iskeyword(key)
    if key.isidentifier() and not is_taken:
        return key
    name = f"field_{number}"
    while name in keys:
        name += "_"
    return name


def _object(node: Mapping[str, Any], name: str) -> type[BaseModel]:
    required = node.get("required", ())
    definitions: dict[str, Any] = {}
    properties = node.get("properties", {})
    for number, (key, part) in enumerate(properties.items()):
        name_of_field = _field_name(key, number, properties)
        annotation = _type(part, f"{name}_{key}")
        default = part.get("default") if isinstance(part, Mapping) else None
        if key in required:
            definitions[name_of_field] = (annotation, Field(alias=key))
        else:
            # Many models write null for what they leave out.
            definitions[name_of_field] = (annotation | None, Field(default, alias=key))
    config = ConfigDict(extra="allow" if node.get("additionalProperties") else "forbid")
    made: type[BaseModel] = create_model(name, __config__=config, **definitions)
    return made


def _type(node: Any, name: str) -> Any:
    if not isinstance(node, Mapping):
        return Any
    if "enum" in node:
        return Literal[tuple(node["enum"])] if all(map(_is_literal, node["enum"])) else Any
    if "const" in node:
        return Literal[node["const"]] if _is_literal(node["const"]) else Any
    options = node.get("anyOf") or node.get("oneOf")
    if options:
        return reduce(or_, (_type(option, f"{name}_{i}") for i, option in enumerate(options)))
    kind = node.get("type")
    if isinstance(kind, list):
        return reduce(or_, (_type({**node, "type": one}, name) for one in kind))
    return _of_kind(kind, node, name)


def _of_kind(kind: Any, node: Mapping[str, Any], name: str) -> Any:
    rules = {ours: node[theirs] for theirs, ours in _RULES.items() if theirs in node and _fits(theirs, kind)}
    if kind == "array":
        found: Any = list[_type(node.get("items"), f"{name}_item")]  # type: ignore[misc]
    elif kind == "object":
        return _object(node, name) if node.get("properties") else dict[str, Any]
    elif isinstance(kind, str) and kind in _PLAIN:
        found = _PLAIN[kind]
    else:
        return Any
    return Annotated[found, Field(**rules)] if rules else found


def _fits(rule: str, kind: Any) -> bool:
    if rule in ("minItems", "maxItems"):
        return bool(kind == "array")
    if rule in ("minLength", "maxLength", "pattern"):
        return bool(kind == "string")
    return kind in ("integer", "number")


def _is_literal(value: Any) -> bool:
    return value is None or isinstance(value, str | int | bool)


def given_arguments(args: BaseModel, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain data: those that were given, and defaults of the schema; a null for nothing is left out.

    Args:
        args: An instance of what `model_from_schema` made.
        schema: The schema.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    defaults = {name: part.get("default") for name, part in properties.items() if isinstance(part, Mapping)}
    dumped = args.model_dump(mode="json", by_alias=True, exclude_unset=True)
    required = schema.get("required", ())
    given = {name: value for name, value in dumped.items() if value is not None or name in required}
    return {**{name: value for name, value in defaults.items() if value is not None}, **given}
