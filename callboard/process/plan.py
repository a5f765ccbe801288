"""Which process is to be kept running, and when it is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When to start a dead process again.

    Attributes:
        limit: Restarts in a row, without a healthy time between, after which the supervisor gives up.
        base: Seconds before the first restart; doubles with each further one.
        cap: Longest pause, seconds.
        healthy_after: Seconds of life after which earlier deaths no longer count.
    """

    limit: int = 5
    base: float = 0.25
    cap: float = 30.0
    healthy_after: float = 30.0

    def pause(self, restarts: int) -> float | None:
        """Seconds before restart number `restarts` (from 1); None: no more."""
        if restarts > self.limit:
            return None
        return min(self.base * 2.0 ** (restarts - 1), self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """One process to keep running.

    Attributes:
        name: Prefix of its output; unique.
        group: The agent type that it runs.
        command: Program and arguments; `WATCHED_PIPE` in them is replaced.
    """

    name: str
    group: str
    command: tuple[str, ...]
