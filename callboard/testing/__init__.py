"""For tests of applications: runtimes in a namespace of their own, what was published, what failed, waiting, recorded runs.

The fixtures for pytest are in `callboard.testing.fixtures`.
"""

from __future__ import annotations

from .cassette import Cassette, CassetteDifferenceError, CassetteError, replay
from .harness import Harness, dead_letters, eventually, published

__all__ = [
    "Cassette",
    "CassetteDifferenceError",
    "CassetteError",
    "Harness",
    "dead_letters",
    "eventually",
    "published",
    "replay",
]
