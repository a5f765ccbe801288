"""Whether an answer is what a JSON schema asks for: the part of JSON Schema that pydantic writes.

What it does not know, such as a format, it lets pass: the handler that asked reads the answer by the class itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
    "minLength": (lambda value, bound: len(value) >= bound, "as long as"),
    "maxLength": (lambda value, bound: len(value) <= bound, "no longer than"),
    "minItems": (lambda value, bound: len(value) >= bound, "as long as"),
    "maxItems": (lambda value, bound: len(value) <= bound, "no longer than"),
}


def misfit(schema: Schema, value: Any) -> str:
    """The first thing in which the value is not what the schema asks for, as a part of a sentence; "" when it fits."""
    return next(_misfits(schema, value, "it", schema.get("$defs", {})), "")


def _misfits(schema: Schema, value: Any, at: str, defs: Schema) -> Iterator[str]:
    if "$ref" in schema:
        schema = {**defs.get(str(schema["$ref"]).rpartition("/")[2], {}), **schema}
    named = schema.get("type")
    if isinstance(named, str) and not _is_of(named, value):
        yield f"{at} has to be {'an' if named[0] in 'aio' else 'a'} {named}"
        return
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if allowed is not None and value not in allowed:
        yield f"{at} has to be one of {', '.join(map(str, allowed))}"
    ways = schema.get("anyOf") or schema.get("oneOf") or ()
    if ways and all(next(_misfits(way, value, at, defs), "") for way in ways):
        yield next(_misfits(ways[0], value, at, defs), "")
    yield from _out_of_bounds(schema, value, at)
    yield from _unlike_its_pattern(schema, value, at)
    if isinstance(value, dict):
        yield from _in_object(schema, value, at, defs)
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        for number, item in enumerate(value):
            of_item = first[number] if number < len(first) else schema.get("items", {})
            if isinstance(of_item, Mapping):
                yield from _misfits(of_item, item, f"item {number + 1}", defs)


def _is_of(named: str, value: Any) -> bool:
    if isinstance(value, bool):
        return named == "boolean"
    return isinstance(value, _TYPES.get(named, (object,)))


def _out_of_bounds(schema: Schema, value: Any, at: str) -> Iterator[str]:
    for name, (holds, words) in _BOUNDS.items():
        bound = schema.get(name)
        is_size = name.endswith(("Length", "Items"))
        fits = isinstance(value, (str, list)) if is_size else isinstance(value, (int, float))
        if bound is not None and fits and not holds(value, bound):
            yield f"{at} has to be {words} {bound}"


def _unlike_its_pattern(schema: Schema, value: Any, at: str) -> Iterator[str]:
    pattern = schema.get("pattern")
    if pattern is not None and isinstance(value, str) and re.search(pattern, value) is None:
        yield f"{at} has to look like {pattern}"


def _in_object(schema: Schema, value: Mapping[str, Any], at: str, defs: Schema) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at} has no {name!r}"
    for name, item in value.items():
        of_item = known.get(name, others)
        if of_item is False:
            yield f"{at} may have no {name!r}"
        elif isinstance(of_item, Mapping):
            yield from _misfits(of_item, item, repr(name), defs)
