"""Looking into schemas of tools."""

from __future__ import annotations

from callboard.tools import ParametersSchema, ToolSchema


def parameters(schema: ToolSchema) -> ParametersSchema:
    """The arguments of a tool, which a schema may be without."""
    found = schema.get("parameters")
    assert found is not None, schema
    return found
