"""JSON schemas in the strict subset that a server can hold a model to.

Source: OpenAI's guide to structured outputs: every object lists all its properties as required and allows no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

DEFINITIONS: Final = ("$defs", "definitions")
_MAPS_OF_SCHEMAS: Final = ("properties", *DEFINITIONS)
_LISTS_OF_SCHEMAS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMAS: Final = ("items", "not")

Schema: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def strict_schema(schema: Schema) -> dict[str, Any] | None:
    """A schema in which every object is closed and requires all its properties.

    Args:
        schema: such as a pydantic model makes. Not changed.

    Returns:
        The strict schema; None when there is none, because an object may have any keys.
    """
    if _has_open_object(schema):
        return None
    return _mapped_object(_with_object_at_root(schema), _closed)


def _with_object_at_root(schema: Schema) -> Schema:
    """A recursive class is a reference to one of its own definitions; the API wants an object there."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return {**schema["$defs"][reference.rpartition("/")[2]], "$defs": schema["$defs"]}


def renamed_references(schema: Schema, prefix: str) -> dict[str, Any]:
    """A schema without its definitions, whose references lead to `#/$defs/<prefix><name>`."""
    bare = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    return _mapped_object(bare, lambda part: _with_prefix(part, prefix))


def definitions_of(schema: Schema, prefix: str) -> dict[str, Any]:
    """The definitions of a schema by their names behind a prefix, for `renamed_references`."""
    return {
        prefix + name: renamed_references(definition, prefix)
        for key in DEFINITIONS
        for name, definition in schema.get(key, {}).items()
    }


def _mapped(schema: Any, change: Change) -> Any:
    """As `_mapped_object`; `true` and `false` are schemas, too."""
    return _mapped_object(schema, change) if isinstance(schema, Mapping) else schema


def _mapped_object(schema: Schema, change: Change) -> dict[str, Any]:
    """The schema with a change made to it and to every schema inside."""
    result = dict(schema)
    for key in _MAPS_OF_SCHEMAS:
        if key in result:
            result[key] = {name: _mapped(part, change) for name, part in result[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if key in result:
            result[key] = [_mapped(part, change) for part in result[key]]
    for key in _SCHEMAS:
        if key in result:
            result[key] = _mapped(result[key], change)
    return change(result)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    # A default says that a value may be left out, which nothing may be.
    closed = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in closed:
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    if "oneOf" in closed:
        closed["anyOf"] = [*closed.pop("oneOf"), *closed.get("anyOf", ())]
        closed.pop("discriminator", None)
    if len(closed.get("allOf", ())) == 1:
        (only,) = closed.pop("allOf")
        closed = {**only, **closed}
    # Beside a reference nothing else is allowed.
    return {"$ref": closed["$ref"]} if "$ref" in closed else closed


def _has_open_object(schema: Schema) -> bool:
    found = False

    def look(part: dict[str, Any]) -> dict[str, Any]:
        nonlocal found
        extra = part.get("additionalProperties", False)
        nothing_listed = part.get("type") == "object" and "properties" not in part
        found = found or extra is True or isinstance(extra, Mapping) or nothing_listed
        return part

    _mapped_object(schema, look)
    return found


def _with_prefix(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return {**schema, "$ref": f"#/$defs/{prefix}{reference.rpartition('/')[2]}"}
