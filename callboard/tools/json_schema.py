"""JSON schemas that others wrote, made plain: references by one kind of name, and one object in place of its parts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

#: Keywords whose values are data, and no schemas.
DATA: Final = frozenset({"const", "default", "enum", "example", "examples"})
#: Keywords whose values are schemas by names of a user.
NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
DEFINITIONS: Final = ("$defs", "definitions")
PREFIX: Final = "#/$defs/"
ROOT: Final = "Whole"


def with_definitions(schema: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema without its definitions, and these, in which all references are `#/$defs/<name>`.

    References to the whole (`#`), to `definitions` and to other places in it get a definition. What leads nowhere, or out
    of the schema, stays as it is: nothing is fetched.
    """
    names: dict[str, str] = {}
    known: dict[str, Any] = dict(schema.get("$defs") or {})
    for reference in references(dict(schema)):
        if reference in names or reference.removeprefix(PREFIX) in known:
            continue
        found = _at(schema, reference)
        if isinstance(found, Mapping):
            names[reference] = name = _new_name(reference, known)
            known[name] = found
    whole = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    if not names:
        return whole, known
    definitions = {name: _renamed(whole if part is schema else part, names) for name, part in known.items()}
    return _renamed(whole, names), definitions


def references(node: Any) -> list[str]:
    """The references in a schema; a property that is called "$ref" is none."""
    found: list[str] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            for key, value in part.items():
                if key == "$ref" and isinstance(value, str):
                    found.append(value)
                elif key in NAMED and isinstance(value, dict):
                    waiting += value.values()
                elif key not in DATA and isinstance(value, dict | list):
                    waiting.append(value)
    return found


def _at(schema: Mapping[str, Any], reference: str) -> Any:
    """What a JSON pointer behind "#" leads to; None: nowhere, or out of the schema."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = schema
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(key)] if key.isdecimal() and int(key) < len(found) else None
        else:
            found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _new_name(reference: str, taken: Mapping[str, Any]) -> str:
    words = [word for word in re.findall(r"\w+", reference) if word not in ("definitions", "properties")]
    name = new = "_".join(words) or ROOT
    number = 1
    while new in taken:
        number += 1
        new = f"{name}_{number}"
    return new


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(part, names) for part in node]
    if not isinstance(node, Mapping):
        return node
    made: dict[str, Any] = {}
    for key, part in node.items():
        if key == "$ref" and isinstance(part, str):
            made[key] = PREFIX + names[part] if part in names else part
        elif key in NAMED and isinstance(part, Mapping):
            made[key] = {name: _renamed(one, names) for name, one in part.items()}
        else:
            made[key] = part if key in DATA else _renamed(part, names)
    return made


COMBINES: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


def opened(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of an object as one: what it refers to, and all parts of `allOf`, together.

    Alternatives (`anyOf`, `oneOf`) of objects become one that takes what any of them takes: models' servers want one object.
    Of what contains itself in this way, nothing is left.
    """
    return _opened(node, definitions, frozenset()) if COMBINES & node.keys() else dict(node)


def _opened(
    node: Mapping[str, Any], definitions: Mapping[str, Any], inside: frozenset[str]
) -> dict[str, Any]:
    body = dict(node)
    parts: list[dict[str, Any]] = []
    name = str(body.get("$ref", "")).removeprefix(PREFIX)
    if name in definitions:
        del body["$ref"]
        if name not in inside and isinstance(definitions[name], Mapping):
            parts.append(_opened(definitions[name], definitions, inside | {name}))
    parts += [_opened(part, definitions, inside) for part in _schemas(body.pop("allOf", None))]
    for key in ("anyOf", "oneOf"):
        options = [_opened(part, definitions, inside) for part in _schemas(body.get(key))]
        if options and all(_is_object(option) for option in options):
            del body[key]
            parts.append(_either(options))
    return together([body, *parts])


def _schemas(parts: Any) -> list[Mapping[str, Any]]:
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def properties_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties of a schema by name."""
    found = node.get("properties")
    return found if isinstance(found, Mapping) else {}


def required_of(node: Mapping[str, Any]) -> list[str]:
    """The names of the properties that have to be there. The first versions of JSON schema had true or false here."""
    found = node.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list | tuple) else []


def _is_object(node: Mapping[str, Any]) -> bool:
    return "properties" in node if "type" not in node else node["type"] == "object"


#: Keywords of which the first part's counts where parts of one schema have several.
ANNOTATIONS: Final = frozenset(
    {*DATA, "$comment", "$id", "$schema", "description", "title"} - {"const", "enum"}
)


def together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is all of these, as far as one schema can say it: where they contradict, the first counts."""
    made: dict[str, Any] = {}
    for part in parts:
        made = {**part, **made}
    properties: dict[str, list[Any]] = {}
    for part in parts:
        for name, one in properties_of(part).items():
            ones = properties.setdefault(name, [])
            if one not in ones:
                ones.append(one)
    if properties:
        made["properties"] = {
            name: ones[0] if len(ones) == 1 else {"allOf": ones} for name, ones in properties.items()
        }
    required = [name for part in parts for name in required_of(part)]
    if required:
        made["required"] = list(dict.fromkeys(required))
    if any(part.get("additionalProperties") is False for part in parts):
        made["additionalProperties"] = False
    return made


def agree(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `together` says all that these say."""
    merged = ("additionalProperties", "properties", "required")
    seen: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key not in ANNOTATIONS and key not in merged and seen.setdefault(key, value) != value:
                return False
    return True


def _either(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What takes all that any of these takes."""
    properties: dict[str, list[Any]] = {}
    for option in options:
        for name, one in properties_of(option).items():
            ones = properties.setdefault(name, [])
            if one not in ones:
                ones.append(one)
    made: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: ones[0] if len(ones) == 1 else {"anyOf": ones} for name, ones in properties.items()
        },
    }
    required = [
        name for name in required_of(options[0]) if all(name in required_of(option) for option in options)
    ]
    if required:
        made["required"] = required
    if any(option.get("additionalProperties") for option in options):
        made["additionalProperties"] = True
    return made
