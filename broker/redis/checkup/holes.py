"""Known security holes of servers, and the versions that closed them, as far as the projects have said.

Sources: the release notes of Redis 6.2.20, 7.2.11, 7.2.14, 7.4.6, 7.4.9, 8.0.4, 8.2.2, 8.2.3 and 8.6.3 and of Valkey 7.2.11,
8.0.6, 8.1.4, 9.0.4 and 9.1.1, and the CVE records. A branch that is not named here is answered with "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Version = tuple[int, int, int]
Product = Literal["Redis", "Valkey"]
State = Literal["open", "closed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """One hole, or several that were closed together.

    Attributes:
        ids: CVE numbers.
        what: what an attacker gains, and with which permissions.
        closed: for each product, branch (major, minor) -> first patch release of it that is safe.
        safe_from: for each product the first release from which on every newer branch is safe.
        since: for each product the first release that has the hole; missing: all have it.
        never: branches that will not get a fix from the project.
        only_tls: it takes a server that listens on TLS.
    """

    ids: tuple[str, ...]
    what: str
    closed: Mapping[Product, Mapping[tuple[int, int], int]]
    safe_from: Mapping[Product, Version]
    since: Mapping[Product, Version] = field(default_factory=dict[Product, Version])
    never: Mapping[Product, frozenset[tuple[int, int]]] = field(
        default_factory=dict[Product, frozenset[tuple[int, int]]]
    )
    only_tls: bool = False

    def state(self, product: Product, version: Version) -> State:
        """Whether a version has the hole."""
        if version < self.since.get(product, (0, 0, 0)):
            return "closed"
        safe_from = self.safe_from.get(product)
        if safe_from is not None and version >= safe_from:
            return "closed"
        branch = version[:2]
        patch = self.closed.get(product, {}).get(branch)
        if patch is not None:
            return "closed" if version[2] >= patch else "open"
        return "open" if branch in self.never.get(product, frozenset()) else "unknown"


OLD: Mapping[Product, frozenset[tuple[int, int]]] = {"Redis": frozenset({(7, 0)})}
"""Branches whose support ended before the fix; a distribution may have patched its own build."""

HOLES = (
    Hole(
        ids=("CVE-2025-49844", "CVE-2025-46817", "CVE-2025-46818", "CVE-2025-46819"),
        what="whoever may run Lua can run code in the server",
        closed={
            "Redis": {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
            "Valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
        },
        safe_from={"Redis": (8, 4, 0), "Valkey": (9, 0, 0)},
        never=OLD,
    ),
    Hole(
        ids=("CVE-2025-62507",),
        what="whoever may run XACKDEL can overflow the server's stack",
        closed={"Redis": {(8, 2): 3}},
        safe_from={"Redis": (8, 4, 0), "Valkey": (0, 0, 0)},
        since={"Redis": (8, 2, 0)},
    ),
    Hole(
        ids=("CVE-2026-23479",),
        what="whoever may block on a key can make the server use memory that it freed",
        closed={"Redis": {(7, 2): 14, (7, 4): 9, (8, 6): 3}, "Valkey": {(9, 0): 4}},
        safe_from={"Redis": (8, 6, 3)},
        since={"Redis": (7, 2, 0)},
    ),
    Hole(
        ids=("CVE-2026-25243", "CVE-2026-23631"),
        what="whoever may run RESTORE, or Lua on a replica that takes writes, can run code in the server",
        closed={"Redis": {(7, 2): 14, (7, 4): 9, (8, 6): 3}, "Valkey": {(9, 0): 4}},
        safe_from={"Redis": (8, 6, 3)},
        never=OLD,
    ),
    Hole(
        ids=("CVE-2026-81934",),
        what="anybody who reaches the TLS port can make the server use memory that it freed",
        closed={"Redis": {(8, 2): 9, (8, 4): 6, (8, 6): 6, (8, 8): 2, (8, 10): 1}},
        safe_from={"Redis": (8, 10, 1)},
        only_tls=True,
    ),
    Hole(
        ids=("CVE-2026-56684",),
        what="whoever may kill clients can make a server with TLS use memory that it freed",
        closed={"Valkey": {(7, 2): 14, (8, 0): 10, (8, 1): 9, (9, 0): 5, (9, 1): 1}},
        safe_from={"Redis": (0, 0, 0), "Valkey": (9, 1, 1)},
        only_tls=True,
    ),
    Hole(
        ids=("CVE-2026-63639",),
        what="whoever may run RESTORE can damage the server's memory",
        closed={"Valkey": {(7, 2): 14, (8, 0): 10, (8, 1): 9, (9, 0): 5, (9, 1): 1}},
        safe_from={"Valkey": (9, 1, 1), "Redis": (0, 0, 0)},
    ),
)
