"""Records and their parts in a collection: a text that is longer than the model reads has a record for each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from callboard.memory.embedders.base import Vectors
from callboard.memory.stores.records import PART, PART_OF

Collection: TypeAlias = Any
"""A collection of chromadb, which only collection.py imports."""

LARGEST_LOOK: Final = 500  # ids in one condition
MOST_LOOKED_AT: Final = 1_000  # records and parts that one search looks at


class Found(NamedTuple):
    """A record near a vector. `distance` is Chroma's."""

    id: str
    text: str
    metadata: dict[str, Any] | None
    distance: float


def nearest_records(
    handle: Collection, vectors: Vectors, k: int, conditions: dict[str, Any] | None
) -> list[Found]:
    """The records nearest to any of some vectors, whole and each once, as near as the nearest of their parts."""
    wanted = k
    while True:
        near = _near(handle, vectors, wanted, conditions)
        best: dict[str, Found] = {}
        for one in sorted(near, key=lambda one: one.distance):
            best.setdefault(_record_id(one), one)
        # Several parts of one record took the places of others.
        if len(best) >= k or len(near) < wanted or wanted >= MOST_LOOKED_AT:
            return _whole(handle, dict(list(best.items())[:k]))
        wanted = min(MOST_LOOKED_AT, wanted * 4)


def parts_of_records(handle: Collection, ids: Sequence[str]) -> list[str]:
    """The ids of the parts that records have, those of the records themselves not among them."""
    found: list[str] = []
    for start in range(0, len(ids), LARGEST_LOOK):
        some: list[Any] = list(ids[start : start + LARGEST_LOOK])
        found += handle.get(where={PART_OF: {"$in": some}}, include=[])["ids"]
    return found


def count_parts(handle: Collection) -> int:
    """How many parts there are."""
    return len(handle.get(where={PART: {"$gte": 2}}, include=[])["ids"])


def _near(handle: Collection, vectors: Vectors, k: int, conditions: dict[str, Any] | None) -> Sequence[Found]:
    found: Any = handle.query(
        query_embeddings=vectors,
        n_results=k,
        where=conditions,
        include=["documents", "metadatas", "distances"],
    )
    names = ("ids", "documents", "metadatas", "distances")
    return [
        Found(*row)
        for columns in zip(*(found[name] for name in names), strict=True)
        for row in zip(*columns, strict=True)
    ]


def _record_id(one: Found) -> str:
    return str((one.metadata or {}).get(PART_OF, one.id))


def _whole(handle: Collection, best: dict[str, Found]) -> list[Found]:
    """The records of what was found; one that was deleted meanwhile is left out."""
    cut = [name for name, one in best.items() if one.id != name]
    if not cut:
        return list(best.values())
    got: Any = handle.get(ids=cut, include=["documents", "metadatas"])
    rows: Iterable[Any] = zip(got["ids"], got["documents"], got["metadatas"], strict=True)
    records = {name: Found(name, text, metadata, best[name].distance) for name, text, metadata in rows}
    whole = [one if one.id == name else records.get(name) for name, one in best.items()]
    return [one for one in whole if one is not None]
