"""Living workers, and agent types that no worker runs."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, some, warning
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.inspect import Overview

ORDER = 70
LATELY = 600_000  # ms for which a blocked event loop is a finding


async def examine(subject: Subject) -> Sequence[Finding]:
    """Living workers, leases that ended, blocked event loops, types without workers."""
    view = await subject.overview()
    if not view.types:
        return [
            info(
                f"nothing is declared in the namespace {view.namespace!r}",
                "this is normal before the first start of an app",
                "check --namespace and --url, or start the app: callboard up module:app",
            )
        ]
    return [_living(view), *_expired(view), *_blocked(view), *_missing(view)]


def _living(view: Overview) -> Finding:
    living = [worker for worker in view.workers if worker.lease_ms_left >= 0]
    held = sum(worker.held for worker in living)
    if living:
        return ok(f"{len(living)} workers are alive and hold {held} entries")
    return info("no worker is alive", "messages wait until one starts", "callboard up module:app")


def _expired(view: Overview) -> Sequence[Finding]:
    expired = [worker for worker in view.workers if worker.lease_ms_left < 0]
    if not expired:
        return []
    living = len(view.workers) - len(expired)
    names = some(f"{worker.name} ({-worker.lease_ms_left / 1000:.1f} s ago)" for worker in expired)
    why = f"they died, hang, or lost the server; {sum(worker.held for worker in expired)} entries are still theirs"
    if living:
        return [
            info(
                f"leases that ended: {names}",
                why,
                "nothing: another worker takes over with its next heartbeat",
            )
        ]
    return [warning(f"leases that ended: {names}", why, "start a worker, or: callboard repair --yes")]


def _blocked(view: Overview) -> Sequence[Finding]:
    lately = [
        (worker.name, worker.blocked)
        for worker in view.workers
        if worker.blocked is not None and view.at - worker.blocked.at < LATELY
    ]
    if not lately:
        return []
    shown = some(
        f"{name} for {one.seconds:.1f} s, {(view.at - one.at) / 1000:.0f} s ago ({one.what})"
        for name, one in lately
    )
    return [
        warning(
            f"handlers block the event loop: {shown}",
            "nothing else runs in such a worker meanwhile, whatever its concurrency is",
            "have what blocks run in a thread, with `await asyncio.to_thread(...)`, or start more processes",
        )
    ]


def _missing(view: Overview) -> Sequence[Finding]:
    return [
        error(
            f"{agent_type.type}: {_count(agent_type.waiting)} messages wait and no worker runs it",
            "they wait for ever",
            f"callboard worker module:app --type {agent_type.type}",
        )
        for agent_type in view.types
        if not agent_type.workers and agent_type.waiting != 0
    ]


def _count(number: int | None) -> str:
    return "an unknown number of" if number is None else str(number)
