"""The fields that a subclass of Role declares, as plain data: what of an agent survives its process besides its memory."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from .role import Role


def dump_fields(role: Role) -> dict[str, JsonValue]:
    """The fields of a role that are not every role's, as far as they fit into JSON."""
    found: dict[str, JsonValue] = {}
    for name, value in _own(role).items():
        try:
            data = to_jsonable_python(value)
        except PydanticSerializationError:
            continue  # a connection, a function: it belongs to the process
        # Of a field without a declared type nobody knows what the data were.
        if name in type(role).model_fields or data == value:
            found[name] = data
    return found


def load_fields(role: Role, fields: dict[str, JsonValue]) -> None:
    """Give a role its fields again, from what `dump_fields` returned; those that are not declared any more are left out.

    Raises:
        ValueError: A value does not fit its field any more.
    """
    declared, extra = type(role).model_fields, role.__pydantic_extra__
    for name, value in fields.items():
        if name in declared:
            type(role).__pydantic_validator__.validate_assignment(role, name, value)
        elif extra is not None:
            extra[name] = value


def _own(role: BaseModel) -> dict[str, object]:
    declared = {
        name: getattr(role, name) for name in type(role).model_fields if name not in Role.model_fields
    }
    return {**declared, **(role.__pydantic_extra__ or {})}
