"""The server's clock, this machine's, and the namespace's own."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 40

APART, AHEAD = 1000, 1000  # ms


async def examine(subject: Subject) -> Sequence[Finding]:
    """How far they are apart."""
    before = time.time() * 1000
    server = await subject.now_ms()
    apart = round(server - (before + time.time() * 1000) / 2)
    if abs(apart) <= APART:
        machine = ok(f"this machine's clock is within {APART} ms of the server's")
    else:
        machine = warning(
            f"this machine's clock is {abs(apart) / 1000:.1f} s {'behind' if apart > 0 else 'ahead of'} the server's",
            "leases and timers go by the server's clock and do not care; times in logs and `at=` from this machine are off",
            "synchronise both clocks: timedatectl set-ntp true",
        )
    return [machine, await _ids(subject, server)]


async def _ids(subject: Subject, server: int) -> Finding:
    """Entry ids come from a clock of the namespace, which only rises."""
    last = await subject.of("GET", "clock")
    found = re.fullmatch(rb"(\d+)-(\d+)", last) if last else None
    if last and not found:
        return warning(
            f"the namespace's clock reads {last!r}",
            "the next message starts it anew",
            "nothing: it mends itself",
        )
    ahead = int(found[1]) - server if found else 0
    if ahead <= AHEAD:
        return ok("the namespace's clock is not ahead of the server's")
    return warning(
        f"the namespace's clock is {ahead / 1000:.1f} s ahead of the server's",
        "the server's clock was set back, or an entry was added by hand with an id of the future; order is kept, but "
        "ids no longer tell when a message was published. Where the clock was set back, what was due by it then (delayed "
        "messages, schedules, the end of questions, an agent's next attempt) waits until it has caught up",
        "synchronise the server's clock; ids are right again when it has caught up",
    )
