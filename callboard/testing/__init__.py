"""For tests of applications: runtimes in a namespace of their own, what was published, what failed, waiting, recorded runs.

The fixtures for pytest are in `callboard.testing.fixtures`.
"""

from __future__ import annotations

from .cassette import Cassette
from .errors import CassetteDifferenceError, CassetteError
from .harness import Harness
from .looking import dead_letters, published
from .replaying import replay
from .waiting import eventually

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
