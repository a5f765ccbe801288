"""The interface of stores, the records that they keep, and the simplest memory: a list.

`MemoryStore` checks arguments and ends waits; a store adds `_add`, `_find` and the abstract methods of its records.
"""

from __future__ import annotations

import json
import math
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from callboard.foundation.component import Component

from .base import (
    Memory,
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
    ModelContext,
    UpdateContextResult,
    add_to_context,
    last_text,
    mime_name,
)
from .cancelling import Cancellation, cancellable
from .errors import MemoryValueError, setting_error

__all__ = []


TITLE: Final = "Relevant memory content"

Filter: TypeAlias = Mapping[str, Any]
"""Conditions on metadata: `{"topic": "birds"}`, `{"year": {"$gte": 1990}, "kind": {"$in": ["a", "b"]}}`."""


class MemoryStats(BaseModel):
    """The size and the kind of a collection.

    Attributes:
        collection: its name in the store.
        namespace: of the agent whose memories they are; None: another program made the collection.
        agent: whose memories they are; None: as above.
        count: memories in it.
        model: the embedding model of its vectors; None while it holds nothing, or when it is not known.
        dimension: numbers in a vector; None as above.
        metric: how vectors are compared.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    namespace: str | None = None
    agent: str | None = None
    count: int = 0
    model: str | None = None
    dimension: int | None = None
    metric: str = "cosine"


class MemoryCheck(BaseModel):
    """The memories of a collection that no search found.

    Attributes:
        collection: its name in the store.
        namespace: as in MemoryStats.
        agent: as in MemoryStats.
        count: memories in it.
        lost: how many of them no search found.
        left: how many of these no search finds now.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    namespace: str | None = None
    agent: str | None = None
    count: int = 0
    lost: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """The arguments of one query, checked. None: as the store is configured.

    Attributes:
        text: to look for.
        k: most results.
        score_threshold: lowest score.
        where: conditions on the metadata.

    Raises:
        MemoryValueError: a value can't work (a ValueError).
    """

    text: str
    k: int | None = None
    score_threshold: float | None = None
    where: Filter | None = None

    def __post_init__(self) -> None:
        check_k(self.k)
        check_threshold(self.score_threshold)


class MemoryStore(Memory):
    """A memory with records: they can be replaced and deleted by id, and filtered by their metadata."""

    @abstractmethod
    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        """Remember contents; see `add_many`."""

    @abstractmethod
    async def _find(self, search: Search) -> list[MemoryContent]:
        """Contents that fit, the best first, with `id` and `score` in their metadata."""

    @abstractmethod
    async def ids(self, where: Filter | None = None) -> list[str]:
        """The ids of all records, or of those whose metadata fit."""

    @abstractmethod
    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        """Forget records by id, and all whose metadata fit. An id that is not there is no error."""

    @abstractmethod
    async def stats(self) -> MemoryStats:
        """How many records there are, and which vectors they have."""

    async def all_stats(self) -> list[MemoryStats]:
        """The stats of every collection in the same place, by name; of this one alone where a store has no others."""
        return [await self.stats()]

    async def verify(self, *, repair: bool = True) -> MemoryCheck:
        """Look for memories that are counted and that no search finds, and add them again from what the store has.

        A store without an index, which may lose some, has none of these.

        Args:
            repair: Whether they are added again.
        """
        stats = await self.stats()
        return MemoryCheck(
            collection=stats.collection, namespace=stats.namespace, agent=stats.agent, count=stats.count
        )

    async def add_many(
        self,
        contents: Sequence[MemoryContent],
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> list[str]:
        """Remember several contents in one go, which is much faster than one after the other.

        Args:
            contents: Texts, Markdown or JSON. `metadata["id"]` is the id of the record, which replaces one of
                that id; without it, a new one is made.
            cancellation_token: Ends the wait.
            ttl: Seconds after which they are forgotten; None: as configured.

        Returns:
            Their ids, in order.

        Raises:
            MemoryValueError: one is no text, or has metadata that can't be stored.
        """
        return await cancellable(self._add(contents, check_ttl(ttl)), cancellation_token)

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Remember a content; see `add_many`."""
        await self.add_many((content,), cancellation_token, ttl=ttl)

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        k: int | None = None,
        score_threshold: float | None = None,
        where: Filter | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """The memories about something, the best first.

        Args:
            query: A text, or a content with one.
            cancellation_token: Ends the wait.
            k: Most results; None: as configured.
            score_threshold: Lowest score; None: as configured.
            where: Conditions on the metadata.
            **kwargs: None are known.

        Returns:
            Contents whose metadata have `id` and `score`.

        Raises:
            MemoryValueError: the filter is not understood.
            TypeError: there is no such keyword argument.
        """
        if kwargs:
            raise TypeError(f"query() got an unexpected keyword argument {next(iter(kwargs))!r}")
        search = Search(query if isinstance(query, str) else query.text, k, score_threshold, where)
        return MemoryQueryResult(results=await cancellable(self._find(search), cancellation_token))

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        """Look for memories about the last message, and add them as one system message."""
        text = await last_text(model_context)
        found = await self.query(text) if text else MemoryQueryResult()
        return await add_to_context(model_context, TITLE, found.results)


def check_k(k: int | None) -> int | None:
    """A number of results.

    Raises:
        MemoryValueError: it is not at least 1.
    """
    if k is not None and (k < 1 or k != int(k)):
        raise setting_error("k", repr(k), "a whole number, 1 or more")
    return k


def check_threshold(threshold: float | None) -> float | None:
    """A lowest score.

    Raises:
        MemoryValueError: it is no number.
    """
    if threshold is not None and not math.isfinite(threshold):
        raise setting_error("score_threshold", repr(threshold), "a number")
    return threshold


def check_ttl(ttl: float | None) -> float | None:
    """A life time in seconds.

    Raises:
        MemoryValueError: it is not above 0.
    """
    if ttl is not None and not (math.isfinite(ttl) and ttl > 0):
        raise setting_error("ttl", repr(ttl), "a number of seconds above 0")
    return ttl


RESERVED: Final = "callboard."
MIME, IS_JSON, EXPIRES, MORE = f"{RESERVED}mime", f"{RESERVED}json", f"{RESERVED}expires", f"{RESERVED}more"
PART_OF: Final = f"{RESERVED}part_of"
"""Key of a part's metadata: the id of the record whose text it is a part of."""
PART: Final = f"{RESERVED}part"
"""Key of a part's metadata: its number, from 2; the record itself is found by its first part."""
PART_MARK: Final = "\x1f"  # in the id of a part: behind that of its record, before its number
FOUND: Final = ("id", "score")
"""Keys that a query adds; they are not stored among the metadata."""

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Record:
    """A content as a store keeps it.

    Attributes:
        id: unique in its collection.
        text: searched by meaning.
        metadata: flat; keys of ours begin with `callboard.`.
    """

    id: str
    text: str
    metadata: dict[str, Value]


def record_of(content: MemoryContent, expires: int | None = None) -> Record:
    """A content as a record.

    Args:
        content: Text, Markdown or JSON.
        expires: Unix ms after which it is forgotten; None: never.

    Raises:
        MemoryValueError: it has no text, or a key or a value of its metadata can't be stored.
    """
    text = content.text
    given = content.metadata or {}
    metadata, more = _flat({key: value for key, value in given.items() if key not in FOUND})
    metadata[MIME] = mime_name(content.mime_type)
    if isinstance(content.content, dict):
        metadata[IS_JSON] = True
    if expires is not None:
        metadata[EXPIRES] = expires
    if more:
        metadata[MORE] = _json(more)
    return Record(_id(given), text, metadata)


def with_parts(record: Record, texts: Sequence[str]) -> list[Record]:
    """A record, and one for each part of its text from the second on, which are found for it.

    Args:
        record: with its whole text, which is looked for by its first part.
        texts: the parts of its text; one alone when it is not cut.
    """
    return [record, *(_part(record, number, text) for number, text in enumerate(texts[1:], start=2))]


def _part(record: Record, number: int, text: str) -> Record:
    marks = {**record.metadata, PART_OF: record.id, PART: number}
    return Record(f"{record.id}{PART_MARK}{number}", text, marks)


def is_part(id: str) -> bool:
    """Whether an id is that of a part."""
    return PART_MARK in id


def record_id(id: str) -> str:
    """The id of the record that an id, perhaps that of a part, belongs to."""
    return id.partition(PART_MARK)[0]


def content_of(id: str, text: str, metadata: Mapping[str, Any] | None, score: float) -> MemoryContent:
    """The content of a record that was found, with `id` and `score` in its metadata.

    Args:
        id: Of the record.
        text: Of the record.
        metadata: Of the record; None: it has none, because another program made it.
        score: How well it fits.
    """
    stored = metadata or {}
    own = {key: value for key, value in stored.items() if not key.startswith(RESERVED)}
    own |= json.loads(stored[MORE]) if MORE in stored else {}
    content = json.loads(text) if stored.get(IS_JSON) else text
    mime_type = str(stored.get(MIME, MemoryMimeType.TEXT.value))
    return MemoryContent(content=content, mime_type=mime_type, metadata={**own, "id": id, "score": score})


def is_expired(metadata: Mapping[str, Any] | None, now: int) -> bool:
    """Whether a record's time is over. `now` is in Unix ms."""
    return metadata is not None and metadata.get(EXPIRES, now + 1) <= now


def _unstorable(key: str, reason: str) -> MemoryValueError:
    return MemoryValueError(f"metadata {key!r}", "can't be stored", reason)


def _id(metadata: Mapping[str, Any]) -> str:
    given = metadata.get("id")
    if given is None:
        return uuid.uuid4().hex
    if not isinstance(given, str) or not given:
        raise _unstorable("id", "it has to be text with at least one character")
    if PART_MARK in given:
        raise _unstorable("id", f"the character {PART_MARK!r} is ours")
    return given


def _flat(metadata: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, Any]]:
    """Metadata that a filter can look at, and the rest."""
    flat: dict[str, Value] = {}
    more: dict[str, Any] = {}
    for key, value in metadata.items():
        if key.startswith(RESERVED):
            raise _unstorable(key, f"keys that begin with {RESERVED!r} are ours")
        if isinstance(value, str | bool) or _is_number(value):
            flat[key] = value
        else:
            more[key] = value
    return flat, more


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and math.isfinite(value)


def _json(more: Mapping[str, Any]) -> str:
    for key, value in more.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _unstorable(key, f"it is no plain data: {error}") from error
    return json.dumps(more, ensure_ascii=False)


TITLE_IN_ORDER = "Relevant memory content (in chronological order)"


class ListMemoryConfig(BaseModel):
    """A ListMemory as plain data, contents included; its fields are the arguments of ListMemory."""

    name: str | None = None
    memory_contents: list[MemoryContent] = Field(default_factory=list)

    @field_validator("memory_contents", mode="before")
    @classmethod
    def _from_json(cls, contents: Any) -> Any:
        """Contents that are plain data are read as JSON, where bytes are base64."""
        if not isinstance(contents, list):
            return contents
        return [
            MemoryContent.model_validate_json(json.dumps(one)) if isinstance(one, dict) else one
            for one in contents
        ]


class ListMemory(Memory, Component[ListMemoryConfig]):
    """A memory that keeps contents in the order in which they came, in this process only.

    Every query finds all of it, so it is for a handful of facts or preferences.

    Args:
        name: Tells memories apart; default "default_list_memory".
        memory_contents: The contents at first.
    """

    component_config_schema = ListMemoryConfig
    component_provider_override = "callboard.memory.ListMemory"

    def __init__(
        self, name: str | None = None, memory_contents: Iterable[MemoryContent] | None = None
    ) -> None:
        self._name = name or "default_list_memory"
        self._contents = list(memory_contents or ())

    @property
    def name(self) -> str:
        """The name of this memory."""
        return self._name

    @property
    def content(self) -> list[MemoryContent]:
        """The contents; assigning replaces them."""
        return self._contents

    @content.setter
    def content(self, value: list[MemoryContent]) -> None:
        self._contents = value

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        return await add_to_context(model_context, TITLE_IN_ORDER, self._contents)

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: Cancellation | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        return MemoryQueryResult(results=list(self._contents))

    async def add(self, content: MemoryContent, cancellation_token: Cancellation | None = None) -> None:
        self._contents.append(content)

    async def clear(self) -> None:
        self._contents = []

    async def close(self) -> None:
        pass

    def _to_config(self) -> ListMemoryConfig:
        return ListMemoryConfig(name=self._name, memory_contents=self._contents)

    @classmethod
    def _from_config(cls, config: ListMemoryConfig) -> Self:
        return cls(config.name, config.memory_contents)
