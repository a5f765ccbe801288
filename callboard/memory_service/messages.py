"""The messages between memory clients and the memory service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from callboard.broker.encoding.registry import message
from callboard.broker.encoding.remote_errors import register_error
from callboard.memory import errors as memory_errors
from callboard.memory.base import MemoryContent
from callboard.memory.errors import LongTermMemoryError
from callboard.memory.stores.base import MemoryStats

TOPIC = "memory"
"""The topic of changes, behind the service's type: `<type>:memory`."""

QUERIES = ".queries"
"""Behind the service's type, the type of the agents that look things up while the service works off changes."""


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
    """Additions and deletions, to be carried out in this order."""

    changes: list[Annotated[Change, Field(discriminator="kind")]]


@message(name="callboard.memory.query")
class MemoryQuery(_Message):
    """A query; see `MemoryStore.query`."""

    text: str
    k: int | None = None
    score_threshold: float | None = None
    where: dict[str, Any] | None = None


@message(name="callboard.memory.found")
class MemoryFound(_Message):
    """The results of a query, the best first."""

    results: list[MemoryContent]


@message(name="callboard.memory.ids_query")
class MemoryIdsQuery(_Message):
    """A question for the ids of records."""

    where: dict[str, Any] | None = None


@message(name="callboard.memory.ids")
class MemoryIds(_Message):
    """The ids of records."""

    ids: list[str]


@message(name="callboard.memory.stats_query")
class MemoryStatsQuery(_Message):
    """A question for the stats of this collection, or of every one of the store."""

    everything: bool = False


@message(name="callboard.memory.stats")
class MemoryStatsList(_Message):
    """The stats of collections."""

    collections: list[MemoryStats]


def register_memory_errors() -> None:
    """Let the errors of long-term memory come back from the service as themselves. Safe to repeat."""
    register_error(
        *(
            value
            for value in vars(memory_errors).values()
            if isinstance(value, type) and issubclass(value, LongTermMemoryError)
        )
    )
