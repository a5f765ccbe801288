"""Whether a process works, seen from outside: by the lease of its worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Verdict = Literal["fine", "lost", "missing", "back", "gone"]
"""What a look says: all is well or not known; the lease has just been lost; is still; is there again; did not come back."""


class LeaseWatch:
    """The lease of one process, looked at about once a second.

    A process that has not joined yet is only slow to start, and one that has left drains: neither is taken for frozen.

    Args:
        patience: Seconds that a process gets to come back after its lease was lost.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._leased_until = 0  # server ms; 0: it has not joined, or has left
        self._lost_since: float | None = None

    def look(self, ends: Sequence[int], now_ms: int, now: float) -> Verdict:
        """Looks once.

        Args:
            ends: When the leases of its workers end, server ms: of the present incarnation, and maybe of an earlier one.
            now_ms: The server's time.
            now: The time here, seconds.
        """
        if ends and max(ends) >= now_ms:
            was_lost, self._lost_since = self._lost_since is not None, None
            self._leased_until = max(ends)
            return "back" if was_lost else "fine"
        # Reaped is only whose lease has ended: a worker whose name went before that has left, and may take its time to end.
        # guard: a process that has left is not taken for frozen
        if not ends and self._leased_until > now_ms:
            self._leased_until = 0
        # guard: a process that has not joined is not taken for frozen
        if not self._leased_until:
            return "fine"
        if self._lost_since is None:
            self._lost_since = now
            return "lost"
        # guard: a process gets time to come back
        if now - self._lost_since < self._patience:
            return "missing"
        self._lost_since = now
        return "gone"

    def forgive(self) -> None:
        """The server was away: the time without a lease does not count."""
        self._lost_since = None
