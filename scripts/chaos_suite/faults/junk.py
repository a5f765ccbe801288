"""Entries that no publisher of ours would write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgpack

from tests.helpers.eventually import eventually

from .. import clock
from ..figures import Figure
from ..site import Site
from .base import Act, Fault

BURIED = Figure("junk is a dead letter and the good messages behind it are handled", 2.0)
GOOD = 20
Entry = dict[str, bytes | str]


@dataclass(frozen=True, slots=True)
class JunkEntries(Fault):
    """Adds junk by hand, and good messages behind it.

    It does not mix: an XADD whose answer is lost can't be told from one that did not arrive.
    """

    name: ClassVar[str] = "junk"
    act: ClassVar[Act] = "processes"
    summary: ClassVar[str] = (
        "XADD by hand of what can't be read: no fields, broken msgpack, unknown types, endless nesting, 2 MB"
    )
    promise: ClassVar[str] = "each is a dead letter, no handler sees it, no worker ends"
    figures: ClassVar[tuple[Figure, ...]] = (BURIED,)
    seconds: ClassVar[float] = 1.5

    async def strike(self, site: Site) -> None:
        began = clock.now()
        added = {f"job topic:jobs {await _add(site, entry)}" for entry in junk()}
        site.junk |= added
        good = [await site.publish(f"behind.k{number % 4}") for number in range(GOOD)]

        async def are_buried() -> bool:
            return added <= {f"{one.agent_type} {one.origin}" for one in await site.space.letters()}

        await eventually(are_buried, 20, what="dead letters of the junk")
        await site.committed(good)
        site.measure(BURIED, clock.now() - began)


async def _add(site: Site, entry: Entry) -> str:
    words = [word for item in entry.items() for word in item]
    added: bytes = await site.space.command("XADD", site.space.prefix + "topic:jobs", "*", *words)
    return added.decode()


def junk() -> Iterator[Entry]:
    """The entries that are added."""
    yield {"foo": "bar"}
    for body in _bodies():
        yield {"type": "Job", "key": "junk", "body": body}
    yield {"type": "Nothing", "key": "junk", "body": msgpack.packb({"id": "x"})}
    yield {"type": "Job", "key": "junk", "head": b"\xc1", "body": msgpack.packb({"id": "x"})}
    yield {"type": "Job", "key": "k" * 2000, "body": msgpack.packb({"id": "x", "published": 0.0})}


def _bodies() -> Iterator[bytes]:
    yield b""
    yield b"\xc1"
    yield b"{broken"
    yield json.dumps({"id": "x", "published": 2**70}).encode()
    yield msgpack.packb({"id": 7, "published": "never"})
    yield msgpack.packb({"id": "x", "published": msgpack.ExtType(127, b"?")})
    yield b"\x82\xa2id\xa3\xed\xa0\x80\xa9published\x00"  # half of a surrogate pair
    yield b"\x82\xa2id\xa1a\xa2id\xa1b"  # one key twice
    yield b"\x91" * 1025 + b"\x00"  # depth
    yield b"\xdd\x00\x0f\x42\x40" + b"\x80" * 1_000_000  # a million empty maps
    yield b"\xdd\xff\xff\xff\xff"  # a length that lies
    yield msgpack.packb({"id": "x", "published": 0.0, "filler": "x" * 2_000_000})
