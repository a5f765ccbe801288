"""Findings of checks, as plain values."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 is the best."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: how bad it is.
        what: what was found, in one sentence.
        why: why it matters, "" when all is well.
        do: what to do, with the command, "" when nothing has to be done.
        check: the check that found it; filled in by `examine`.
    """

    level: Level
    what: str
    why: str = ""
    do: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of all checks.

    Attributes:
        server: URL without its password.
        namespace: what was looked at.
        findings: in the order of the checks.
    """

    server: str
    namespace: str
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Level:
        """The worst level among the findings."""
        return max(
            (finding.level for finding in self.findings), key=lambda level: level.rank, default=Level.OK
        )


def ok(what: str) -> Finding:
    """All is well."""
    return Finding(level=Level.OK, what=what)


def info(what: str, why: str = "", do: str = "") -> Finding:
    """Good to know."""
    return Finding(level=Level.INFO, what=what, why=why, do=do)


def warning(what: str, why: str, do: str) -> Finding:
    """Works, and will hurt some day."""
    return Finding(level=Level.WARNING, what=what, why=why, do=do)


def error(what: str, why: str, do: str) -> Finding:
    """Broken, or about to be."""
    return Finding(level=Level.ERROR, what=what, why=why, do=do)


def some(names: Iterable[str], most: int = 5) -> str:
    """A few of the names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
