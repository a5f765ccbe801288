"""The settings of one act: its server, its workers and its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Sync = Literal["always", "everysec"]

LEASE = 1.0  # seconds; the default of 5 s would make every act five times as long
BEAT_EVERY = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One act's place.

    Attributes:
        workers: worker processes.
        publishers: publisher processes; 0: the faults publish what they need.
        keys: agent keys of each publisher, besides the shared ones.
        every: seconds between two messages for one key.
        proxied: every process reaches the server through a proxy of its own.
        sync: `appendfsync` of the server.
        lease: of the workers, seconds.
        environ: further variables of the workers.
    """

    workers: int = 3
    publishers: int = 2
    keys: int = 10
    every: float = 0.25
    proxied: bool = False
    sync: Sync = "always"
    lease: float = LEASE
    environ: Mapping[str, str] = field(default_factory=dict)
