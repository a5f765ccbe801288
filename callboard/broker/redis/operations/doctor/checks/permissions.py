"""Permissions that the connected user lacks of those a worker needs; and whether it has far more."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from callboard.broker.errors import CommandError, OverloadedError
from callboard.broker.redis.operations.acl import KEY, RUNTIME, SAMPLES
from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, some
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 15

SCRATCH = "doctor"
DANGEROUS = ("flushall", "keys", "config|set", "shutdown", "debug", "restore", "eval")
DANGEROUS_SAMPLES = {
    "flushall": (),
    "keys": ("*",),
    "config|set": ("maxmemory", "0"),
    "shutdown": (),
    "debug": ("sleep", "0"),
    "restore": (KEY, "0", "x"),
    "eval": ("return 1", "0"),
}


async def examine(subject: Subject) -> Sequence[Finding]:
    """With ACL DRYRUN where the user may run it, else by trying each command on a key of its own that expires."""
    if subject.is_in_memory:
        return []
    user = await _who(subject)
    dry = await _may_dry_run(subject, user)
    missing = [
        name for name in RUNTIME if not await _may(subject, user if dry else None, name, SAMPLES[name])
    ]
    if missing:
        return [
            error(
                f"the user {user} may not run {some(missing, 12)}",
                "a worker that connects as this user fails; a publisher needs less",
                f"callboard acl worker --namespace {subject.transport.keys.namespace}: shows the rules to set",
            )
        ]
    return [ok(f"the user {user} may run all that a worker needs"), *await _too_much(subject, user, dry)]


async def _who(subject: Subject) -> str:
    try:
        name: bytes = await subject.command("ACL", "WHOAMI")
    except CommandError:
        return "of this connection"
    return name.decode(errors="replace")


async def _may_dry_run(subject: Subject, user: str) -> bool:
    try:
        await subject.command("ACL", "DRYRUN", user, "PING")
    except CommandError:
        return False
    return True


async def _too_much(subject: Subject, user: str, dry: bool) -> Sequence[Finding]:
    """The commands that must not be tried: only asked where the server answers without doing it."""
    if not dry:
        return []
    allowed = [name for name in DANGEROUS if await _may(subject, user, name, DANGEROUS_SAMPLES[name])]
    if not allowed:
        return []
    return [
        info(
            f"the user {user} may also run {', '.join(allowed)}",
            "a stolen password, or a mistake in an app, can cost the whole server",
            f"callboard acl worker --namespace {subject.transport.keys.namespace}: a user with no more than is needed",
        )
    ]


async def _may(subject: Subject, user: str | None, name: str, sample: Sequence[str]) -> bool:
    key = subject.transport.keys.of(SCRATCH)
    words = [*name.split("|"), *(key if word == KEY else word for word in sample)]
    if user is not None:
        return bool(await subject.command("ACL", "DRYRUN", user, *words) == b"OK")
    with contextlib.suppress(CommandError, OverloadedError):
        await subject.command("SET", key, "doctor", "PX", 10_000)
    try:
        await subject.command(*words)
    except OverloadedError:
        return True
    except CommandError as refused:
        return not str(refused).startswith("NOPERM")
    return True
