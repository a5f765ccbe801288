"""What the server of limits.py holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many of each.

    Attributes:
        beats: how many a worker makes, where a look at all there is takes many.
    """

    agents: int = 100_000
    topics: int = 30_000
    parked: int = 200_000
    paused: int = 20_000
    timers: int = 50_000
    letters: int = 100_000
    long_stream: int = 25_000
    questions: int = 100_000
    beats: int = 200

    @classmethod
    def quick(cls) -> Sizes:
        """A hundredth of it: for a look."""
        return cls(1000, 300, 2000, 200, 500, 1000, 3000, 1000)

    @classmethod
    def counted(cls) -> Sizes:
        """More than one call of any function does, on a server that is fifty times as slow."""
        return cls(3000, 3000, 10_000, 3000, 3000, 3000, 12_000, 3000, 20)
