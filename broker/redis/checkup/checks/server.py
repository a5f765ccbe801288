"""Which server it is, and which of the known holes it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..finding import Finding, error, info, ok, some, warning
from ..holes import HOLES, Product, Version
from ..subject import Subject

ORDER = 10

OLDEST: Version = (7, 0, 0)


async def examine(subject: Subject) -> Sequence[Finding]:
    """The version, and the holes by name."""
    if subject.is_in_memory:
        return [
            warning(
                "the server is the stand-in of memory:// URLs",
                "everything is gone when this process ends, and no other process can take part",
                "use it for tests only: give a redis:// URL, or none for the embedded server",
            )
        ]
    facts = await subject.info()
    product, version = server_of(facts)
    shown = f"{product} {'.'.join(map(str, version))}"
    if version < OLDEST:
        return [
            error(
                f"{shown} is too old",
                "the functions that deliver messages need Redis 7.0 or Valkey",
                "upgrade the server",
            )
        ]
    return [
        ok(f"{shown}, {facts.get('redis_mode', 'standalone')}"),
        *_holes(product, version, await _has_tls(subject)),
    ]


def server_of(facts: Mapping[str, str]) -> tuple[Product, Version]:
    """Product and version by the fields of INFO; Valkey names the version of Redis that it is compatible with as well."""
    product: Product = "Valkey" if "valkey_version" in facts else "Redis"
    text = facts.get("valkey_version") or facts.get("redis_version") or "0.0.0"
    parts = [int("".join(filter(str.isdigit, part)) or 0) for part in text.split("-")[0].split(".")]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return product, (major, minor, patch)


async def _has_tls(subject: Subject) -> bool:
    """Where the server does not say, it may have."""
    return await subject.setting("tls-port") != "0"


def _holes(product: Product, version: Version, has_tls: bool) -> Sequence[Finding]:
    relevant = [hole for hole in HOLES if has_tls or not hole.only_tls]
    findings = [
        warning(
            f"known hole, {', '.join(hole.ids)}: {hole.what}",
            "all workers and publishers share this server",
            f"upgrade {_target(hole.closed.get(product, {}), version)}, or see whether your distribution has patched its "
            "build; until then give every client a user of its own: callboard acl worker",
        )
        for hole in relevant
        if hole.state(product, version) == "open"
    ]
    unknown = [name for hole in relevant if hole.state(product, version) == "unknown" for name in hole.ids]
    if unknown:
        findings.append(
            info(
                f"unknown whether this version has {some(unknown, 9)}",
                "the sources that this version of Callboard knows say nothing of this branch",
                "read the release notes of your server",
            )
        )
    return findings or [ok("none of the known holes")]


def _target(closed: Mapping[tuple[int, int], int], version: Version) -> str:
    """The nearest release that is safe."""
    newer = sorted(branch for branch in closed if branch >= version[:2])
    if not newer:
        return "to the newest release"
    return f"to {newer[0][0]}.{newer[0][1]}.{closed[newer[0]]} or newer"
