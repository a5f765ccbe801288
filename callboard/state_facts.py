"""What has to be known of a `State` model, found once for each: its logs, and how their items are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin

from .log import Log

if TYPE_CHECKING:
    from pydantic import BaseModel, ConfigDict, TypeAdapter


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
        self._to_json = self._adapter.serializer.to_json

    def dump(self, items: Sequence[Any]) -> tuple[bytes, ...]:
        """Each item as JSON.

        Raises:
            ValueError: One can't be written, or could not be read again.
        """
        return tuple(map(self._dump, items))

    def _dump(self, item: Any) -> bytes:
        # What `dump_json` does, without its fifteen arguments: each commit of a team dumps several.
        data = self._to_json([item], round_trip=True, warnings="error")
        # pydantic writes NaN as null, and None whatever the type: it may not be taken back.
        if b"null" in data:
            self._adapter.validate_json(data)
        return data[1:-1]  # without the brackets of the list

    def load(self, items: Sequence[bytes]) -> list[Any]:
        """The items of what `dump` returned.

        Raises:
            ValueError: One does not fit the type of the items any more.
        """
        return self._adapter.validate_json(b"[" + b",".join(items) + b"]")


class StateFacts(NamedTuple):
    """What was found of one model.

    Attributes:
        logs: the fields that are logs, and how their items are written.
        names: of these fields; None: there are none.
    """

    logs: Mapping[str, Items]
    names: set[str] | None


NO_FACTS = StateFacts({}, None)
FACTS: Final = "__callboard_state_facts__"


def facts_of(model: type[BaseModel]) -> StateFacts:
    """The facts of a model, found at the first use and kept in its class: each commit asks several times."""
    facts: StateFacts | None = model.__dict__.get(FACTS)  # its own: a class that derives from it has others
    if facts is None:
        facts = _find(model)
        setattr(model, FACTS, facts)
    return facts


def _find(model: type[BaseModel]) -> StateFacts:
    logs = {
        name: Items(get_args(field.annotation), model.model_config)
        for name, field in model.model_fields.items()
        if field.annotation is Log or get_origin(field.annotation) is Log
    }
    return StateFacts(logs, set(logs) or None)
