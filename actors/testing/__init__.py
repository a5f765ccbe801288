"""For tests of applications: runtimes in a namespace of their own, what was published, what failed, and waiting.

The fixtures for pytest are in `callboard.testing.fixtures`.
"""

from __future__ import annotations

from .harness import Harness
from .looking import dead_letters, published
from .waiting import eventually

__all__ = ["Harness", "dead_letters", "eventually", "published"]
