"""The doctor: makes the checks on one subject and reports what they find. A server out of reach is a finding too."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from callboard.broker.errors import (
    BrokerError,
    CommandError,
    LayoutError,
    OverloadedError,
    ServerUnavailableError,
    is_refused_right,
)
from callboard.broker.redis.client.blocking import info_fields
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.transport import RedisTransport
from callboard.foundation.texts import shell_line

from .inspect import overview
from .repair import Fault, find
from .views import Overview

__all__ = ["Finding", "Level", "Report", "all_checks", "check", "examine", "unreachable"]


OF_DAMAGE = ("WRONGTYPE", "user_function")
"""Words of the server about a key of the wrong type, and about a function that can't go on with what it has read."""


class Subject:
    """A server and a namespace under examination; nothing is changed.

    Attributes:
        transport: the connection.
        declared: the agent types of the app in hand; None: there is none in hand.
    """

    def __init__(self, transport: RedisTransport, declared: frozenset[str] | None = None) -> None:
        self.transport = transport
        self.declared = declared
        self.settings = transport.settings
        self._may_configure = True  # until the server says something else
        self._info: dict[str, str] | None = None
        self._overview: Overview | None = None
        self._faults: tuple[Fault, ...] | None = None

    @property
    def is_in_memory(self) -> bool:
        """Whether it is the stand-in server of memory:// URLs, which has no settings to look at."""
        return self.transport.endpoint.scheme == "memory"

    async def command(self, *arguments: Any) -> Any:
        """Runs a command."""
        return await self.transport.admin.command(*arguments)

    async def of(self, command: str, suffix: str, *arguments: Any) -> Any:
        """Runs a command on a key of the namespace."""
        return await self.command(command, self.transport.keys.of(suffix), *arguments)

    async def info(self) -> Mapping[str, str]:
        """The fields of INFO; empty where the server has none."""
        if self._info is None:
            self._info = {} if self.is_in_memory else info_fields(await self.command("INFO"))
        return self._info

    async def setting(self, name: str) -> str | None:
        """A setting of the server; None: it does not say, or the user may not ask."""
        try:
            flat = await self.command("CONFIG", "GET", name)
        except CommandError:
            self._may_configure = False
            return None
        return _text(flat[1]) if len(flat) > 1 else None

    def cli(self, *words: str) -> str:
        """The line that runs a Redis command on this server."""
        return server_line(self.transport.endpoint, *words)

    def setting_line(self, name: str, value: str) -> str:
        """The line that changes a setting of this server, how it stays changed, and whose line it is."""
        there = is_embedded(self.transport.endpoint)
        keep = (
            "; the embedded server forgets it when it stops"
            if there
            else f", and `{name} {value}` in its file"
        )
        return self._by(self.cli("CONFIG", "SET", name, value) + keep)

    def reading_line(self, name: str) -> str:
        """The line that shows a setting of this server, and whose line it is."""
        return self._by(self.cli("CONFIG", "GET", name))

    def _by(self, line: str) -> str:
        return (
            line if self._may_configure else f"as a user who may run CONFIG, which this one may not: {line}"
        )

    def acl(self, role: str) -> str:
        """The command that prints the rules of a role."""
        return shell_line("callboard", "acl", role, "--namespace", self.transport.keys.namespace)

    async def now_ms(self) -> int:
        """The server's time."""
        seconds, micros = await self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def overview(self) -> Overview:
        """How the namespace stands."""
        if self._overview is None:
            self._overview = await overview(self.transport)
        return self._overview

    async def faults(self) -> tuple[Fault, ...]:
        """The faults inside the namespace."""
        if self._faults is None:
            self._faults = await find(self.transport)
        return self._faults


def is_embedded(endpoint: Endpoint) -> bool:
    """Whether it is the embedded server of the current folder, which `callboard server cli` takes without a URL."""
    from callboard.broker.redis.embedded import DEFAULT_DIRECTORY, SOCKET

    return (
        endpoint.scheme == "unix" and Path(endpoint.path).resolve() == (DEFAULT_DIRECTORY / SOCKET).resolve()
    )


def server_line(endpoint: Endpoint, *words: str) -> str:
    """The line for a shell that runs a Redis command on this server, and on no other that happens to run."""
    where = () if is_embedded(endpoint) else ("--url", endpoint.to_type)
    return shell_line("callboard", "server", "cli", *where, *words)


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


Examine = Callable[[Subject], Awaitable[Sequence[Finding]]]

MODULES: Final = ("server_checks", "work_checks")
"""Files with checks. They import this one, so it imports them when they are first needed."""

_checks: dict[str, tuple[int, Examine]] = {}


def check(name: str, *, order: int) -> Callable[[Examine], Examine]:
    """Makes a function a check of the doctor.

    Args:
        name: of the check, in reports.
        order: its place among all checks: those with smaller numbers are made first.
    """

    def added(function: Examine) -> Examine:
        _checks[name] = order, function
        return function

    return added


def all_checks() -> Mapping[str, Examine]:
    """All checks by name, in the order in which they are made."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return {name: _checks[name][1] for name in sorted(_checks, key=lambda name: (_checks[name][0], name))}


async def examine(transport: RedisTransport, declared: frozenset[str] | None = None) -> Report:
    """Makes all checks, one after the other. Changes nothing.

    Args:
        transport: where.
        declared: the agent types of the app in hand; None: there is none in hand.
    """
    subject = Subject(transport, declared)
    findings: list[Finding] = []
    unreachable = await _reach(subject)
    if unreachable is not None:
        findings.append(unreachable)
    else:
        for name, examined in all_checks().items():
            findings += [replace(finding, check=name) for finding in await _made(examined, subject)]
    return Report(
        server=transport.endpoint.shown,
        namespace=transport.keys.namespace,
        findings=tuple(findings),
    )


async def _reach(subject: Subject) -> Finding | None:
    try:
        await subject.command("PING")
    except CommandError as refused:
        if not str(refused).startswith(("NOPERM", "ERR")):
            return unreachable(str(refused))
    except BrokerError as lost:
        # It may refuse even this; what it tells of itself is looked at all the same.
        return None if _takes_no_writes(lost) else unreachable(str(lost))
    return None


def _takes_no_writes(error: BrokerError) -> bool:
    return isinstance(error, ServerUnavailableError) and error.trouble == "writes"


def unreachable(why: str) -> Finding:
    """The finding that there is no server to look at."""
    finding = error(
        f"the server can't be used: {' '.join(why.split())}",
        "no message is published or handled while it stays away; what is in it is safe as far as its file is",
        "check the URL, the password, and that the server runs: callboard server cli --url URL PING",
    )
    return replace(finding, check="connection")


async def _made(examined: Examine, subject: Subject) -> Sequence[Finding]:
    try:
        return await examined(subject)
    except ServerUnavailableError as lost:
        if _takes_no_writes(lost):
            return [info(f"this could not be checked: {lost}", do="see persistence: then run doctor again")]
        return [unreachable(str(lost))]
    except LayoutError:  # a check of its own tells of it, once
        return []
    except OverloadedError as refused:
        return [info(f"this could not be checked: {refused.reason}", do="see memory: then run doctor again")]
    except BrokerError as refused:
        if isinstance(refused, CommandError) and refused.is_undeployed:
            return []  # the check of the libraries tells of it, once
        # A refused right may come out of a function, too. And a user need not have all that checks would like to use.
        if not is_refused_right(str(refused)) and any(words in str(refused) for words in OF_DAMAGE):
            return [_unreadable(refused)]
        rules = subject.acl("operator")
        return [
            info(
                f"this could not be checked: {refused}",
                do=f"run doctor as a user with the rules of `{rules}`",
            )
        ]
    except ValueError as wrong:
        return [_unreadable(wrong)]


def _unreadable(why: Exception) -> Finding:
    """The finding that a key holds what nothing of ours has written."""
    return error(
        f"this could not be checked: {why}",
        "a key of the namespace was changed by hand: it is of another type, or holds what can't be read",
        "callboard repair mends what it can; docs/keys.md says what each key holds",
    )


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


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
