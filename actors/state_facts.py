"""What has to be known of a `State` model, found once for each: which of its fields are logs, and what JSON can't say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin
from weakref import WeakKeyDictionary

from .log import Log

if TYPE_CHECKING:
    from pydantic import BaseModel, ConfigDict, TypeAdapter

# Kinds of pydantic's core schema of which JSON says null only where the value is None. What they hold is looked at, too.
# fmt: off
_EXACT = frozenset((
    "none", "bool", "int", "str", "bytes", "date", "time", "datetime", "timedelta", "decimal", "uuid",
    "url", "multi-host-url", "literal", "enum", "list", "set", "frozenset", "tuple", "dict", "model",
    "model-field", "model-fields", "dataclass", "dataclass-args", "dataclass-field", "typed-dict",
    "typed-dict-field", "nullable", "default", "union", "tagged-union", "chain", "definitions",
    "definition-ref", "function-before", "function-after", "function-wrap", "json-or-python",
    "lax-or-strict",
))
# fmt: on
# Parts of a core schema that say nothing of what its JSON has in it.
_ASIDE = frozenset(("metadata", "config", "default", "function", "python_schema", "computed_fields"))


class Items:
    """How the items of one log become JSON and come back; as a field of the model would, under its configuration.

    Args:
        item: the type of an item, as the only one; (): anything.
        config: that of the model.
    """

    def __init__(self, item: tuple[Any, ...], config: ConfigDict) -> None:
        from pydantic import TypeAdapter

        items: Any = list.__class_getitem__(item or (Any,))
        self._adapter: TypeAdapter[list[Any]] = TypeAdapter(items, config=config)
        self._may_be_nan = may_be_nan(self._adapter.core_schema)

    def dump(self, items: Sequence[Any]) -> tuple[bytes, ...]:
        """Each item as JSON.

        Raises:
            ValueError: One can't be written, or could not be read again.
        """
        return tuple(map(self._dump, items))

    def _dump(self, item: Any) -> bytes:
        data = self._adapter.dump_json([item], round_trip=True, warnings="error")
        if self._may_be_nan and b"null" in data:
            self._adapter.validate_json(data)
        return data[1:-1]  # without the brackets of the list

    def load(self, items: Sequence[bytes]) -> list[Any]:
        """The items of what `dump` returned.

        Raises:
            ValueError: One does not fit the type of the items any more.
        """
        return self._adapter.validate_json(b"[" + b",".join(items) + b"]")


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What was found of one model.

    Attributes:
        logs: the fields that are logs, and how their items are written.
        names: of these fields; None: there are none.
        may_be_nan: a field that is no log may hold NaN, of which JSON makes null.
    """

    logs: Mapping[str, Items]
    names: set[str] | None
    may_be_nan: bool


NO_FACTS = StateFacts({}, None, False)
_found: WeakKeyDictionary[type[Any], StateFacts] = WeakKeyDictionary()


def facts_of(model: type[BaseModel]) -> StateFacts:
    """The facts of a model, found at the first use."""
    facts = _found.get(model)
    if facts is None:
        facts = _found[model] = _find(model)
    return facts


def _find(model: type[BaseModel]) -> StateFacts:
    logs = {
        name: Items(get_args(field.annotation), model.model_config)
        for name, field in model.model_fields.items()
        if field.annotation is Log or get_origin(field.annotation) is Log
    }
    return StateFacts(logs, set(logs) or None, may_be_nan(model.__pydantic_core_schema__))


def may_be_nan(schema: Any) -> bool:
    """Whether JSON made by this core schema may say null where the value is not None: for NaN, or as a serializer likes."""
    if isinstance(schema, (list, tuple)):
        return any(map(may_be_nan, schema))
    if not isinstance(schema, Mapping):
        return False
    if "serialization" in schema:
        return may_be_nan(schema["serialization"].get("return_schema", _ANYTHING))
    if "type" in schema and _is_inexact(schema):
        return True
    return any(may_be_nan(part) for name, part in schema.items() if name not in _ASIDE)


def _is_inexact(schema: Mapping[str, Any]) -> bool:
    # The names of fields stand beside their schemas: one may be called "type".
    kind = schema["type"]
    if not isinstance(kind, str):
        return False
    extra = schema.get("extra_behavior") or schema.get("config", {}).get("extra_fields_behavior")
    return kind not in _EXACT or extra == "allow" or schema.get("sub_type") == "float"


_ANYTHING: Mapping[str, Any] = {"type": "any"}
