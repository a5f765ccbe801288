"""What memory clients and the memory service say to each other."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from broker.registry import message
from broker.remote_errors import register_error
from memory import errors as memory_errors
from memory.base import MemoryContent
from memory.errors import LongTermMemoryError
from memory.store import MemoryStats

TOPIC = "memory"
"""What changes are published to behind the service's type: `<type>:memory`."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class Add(_Message):
    """Remember these; each has an id in its metadata. `ttl` is in seconds."""

    kind: Literal["add"] = "add"
    contents: list[MemoryContent]
    ttl: float | None = None


class Delete(_Message):
    """Forget records by id, and those whose metadata fit."""

    kind: Literal["delete"] = "delete"
    ids: list[str] = Field(default_factory=list)
    where: dict[str, Any] | None = None


class Clear(_Message):
    """Forget everything."""

    kind: Literal["clear"] = "clear"


Change = Add | Delete | Clear


@message(name="callboard.memory.changes")
class MemoryChanges(_Message):
    """What to remember and what to forget, in this order."""

    changes: list[Annotated[Change, Field(discriminator="kind")]]


@message(name="callboard.memory.query")
class MemoryQuery(_Message):
    """What is remembered about this? See `MemoryStore.query`."""

    text: str
    k: int | None = None
    score_threshold: float | None = None
    where: dict[str, Any] | None = None


@message(name="callboard.memory.found")
class MemoryFound(_Message):
    """What a query found, the best first."""

    results: list[MemoryContent]


@message(name="callboard.memory.ids_query")
class MemoryIdsQuery(_Message):
    """Which records are there?"""

    where: dict[str, Any] | None = None


@message(name="callboard.memory.ids")
class MemoryIds(_Message):
    """The ids of records."""

    ids: list[str]


@message(name="callboard.memory.stats_query")
class MemoryStatsQuery(_Message):
    """How does it stand: this collection, or every one of the store?"""

    everything: bool = False


@message(name="callboard.memory.stats")
class MemoryStatsList(_Message):
    """How collections stand."""

    collections: list[MemoryStats]


def register_memory_errors() -> None:
    """Makes the errors of long-term memory come back as themselves from the service. Safe to repeat."""
    register_error(
        *(
            value
            for value in vars(memory_errors).values()
            if isinstance(value, type) and issubclass(value, LongTermMemoryError)
        )
    )
