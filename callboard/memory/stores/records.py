"""Contents as a vector store keeps them, and back."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.memory.base import MemoryContent, MemoryMimeType, mime_name
from callboard.memory.errors import MetadataError

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
        ContentKindError: it has no text.
        MetadataError: a key or a value of the metadata can't be stored.
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


def _id(metadata: Mapping[str, Any]) -> str:
    given = metadata.get("id")
    if given is None:
        return uuid.uuid4().hex
    if not isinstance(given, str) or not given:
        raise MetadataError("id", "it has to be text with at least one character")
    if PART_MARK in given:
        raise MetadataError("id", f"the character {PART_MARK!r} is ours")
    return given


def _flat(metadata: Mapping[str, Any]) -> tuple[dict[str, Value], dict[str, Any]]:
    """Metadata that a filter can look at, and the rest."""
    flat: dict[str, Value] = {}
    more: dict[str, Any] = {}
    for key, value in metadata.items():
        if key.startswith(RESERVED):
            raise MetadataError(key, f"keys that begin with {RESERVED!r} are ours")
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
            raise MetadataError(key, f"it is no plain data: {error}") from error
    return json.dumps(more, ensure_ascii=False)
