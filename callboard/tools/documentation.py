"""The documentation of a tool as Markdown."""

from __future__ import annotations

import json
from typing import Any

from .schema import ToolSchema


def document(schema: ToolSchema, details: str | None = None) -> str:
    """The purpose and the arguments of a tool.

    Args:
        schema: The tool's.
        details: More about it, such as a docstring; it comes after the description.
    """
    lines = [f"# {schema['name']}", "", schema.get("description", "") or "No description."]
    if details and details.strip() != schema.get("description", "").strip():
        lines += ["", details.strip()]
    parameters = schema.get("parameters")
    properties = parameters["properties"] if parameters else {}
    lines += ["", "Arguments:" if properties else "It takes no arguments."]
    required = parameters.get("required", ()) if parameters else ()
    for name, part in properties.items():
        lines.append(_argument(name, part if isinstance(part, dict) else {}, name in required))
    return "\n".join(lines)


def _argument(name: str, part: dict[str, Any], is_required: bool) -> str:
    about = [_kind(part)]
    if is_required:
        about.append("required")
    elif "default" in part:
        about.append(f"default {json.dumps(part['default'], ensure_ascii=False)}")
    description = part.get("description", "")
    return f"- `{name}` ({', '.join(about)})" + (
        f": {description}" if description and description != name else ""
    )


def _kind(part: dict[str, Any]) -> str:
    """The type of an argument in a few words."""
    if "enum" in part:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in part["enum"])
    if "const" in part:
        return json.dumps(part["const"], ensure_ascii=False)
    for union in ("anyOf", "oneOf"):
        if union in part:
            return " or ".join(dict.fromkeys(_kind(option) for option in part[union]))
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items') or {})}"
    if part.get("type") == "object":
        fields = ", ".join(part.get("properties", ()))
        return f"object with {fields}" if fields else "object"
    return str(part.get("type", "anything"))
