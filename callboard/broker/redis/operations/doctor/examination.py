"""Runs the checks. A server that can't be reached is a finding like any other."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from callboard.broker.errors import (
    BrokerError,
    CommandError,
    ConnectionLostError,
    LayoutError,
    OverloadedError,
    ServerUnavailableError,
    WritesRefusedError,
    is_refused_right,
)
from callboard.broker.redis.client.transport import RedisTransport

from .finding import Finding, Report, error, info
from .subject import Subject

OF_DAMAGE = ("WRONGTYPE", "user_function")
"""What the server says of a key of the wrong type, and of a function that can't go on with what it has read."""

Examine = Callable[[Subject], Awaitable[Sequence[Finding]]]


def all_checks() -> Mapping[str, Examine]:
    """All checks by name, in the order in which they are made."""
    from . import checks as folder

    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    modules = [importlib.import_module(f"{folder.__name__}.{name}") for name in names]
    ordered = sorted(modules, key=lambda module: (module.ORDER, module.__name__))
    return {module.__name__.rpartition(".")[2]: module.examine for module in ordered}


async def examine(transport: RedisTransport) -> Report:
    """Makes all checks, one after the other. Changes nothing."""
    subject = Subject(transport)
    findings: list[Finding] = []
    unreachable = await _reach(subject)
    if unreachable is not None:
        findings.append(unreachable)
    else:
        for name, check in all_checks().items():
            findings += [replace(finding, check=name) for finding in await _made(check, subject)]
    return Report(
        server=transport.endpoint.shown,
        namespace=transport.keys.namespace,
        findings=tuple(findings),
    )


async def _reach(subject: Subject) -> Finding | None:
    try:
        await subject.command("PING")
    except WritesRefusedError:  # even of this; what it tells of itself is looked at all the same
        return None
    except CommandError as refused:
        if not str(refused).startswith(("NOPERM", "ERR")):
            return unreachable(str(refused))
    except BrokerError as lost:
        return unreachable(str(lost))
    return None


def unreachable(why: str) -> Finding:
    """The finding that there is no server to look at."""
    finding = error(
        f"the server can't be used: {' '.join(why.split())}",
        "no message is published or handled while it stays away; what is in it is safe as far as its file is",
        "check the URL, the password, and that the server runs: redis-cli -u <url> PING",
    )
    return replace(finding, check="connection")


async def _made(check: Examine, subject: Subject) -> Sequence[Finding]:
    try:
        return await check(subject)
    except WritesRefusedError as refused:
        return [info(f"this could not be checked: {refused}", do="see persistence: then run doctor again")]
    except (ServerUnavailableError, ConnectionLostError) as lost:
        return [unreachable(str(lost))]
    except LayoutError:  # a check of its own tells of it, once
        return []
    except OverloadedError as refused:
        return [info(f"this could not be checked: {refused.reason}", do="see memory: then run doctor again")]
    except BrokerError as refused:
        # A refused right may come out of a function, too. And a user need not have all that checks would like to use.
        if not is_refused_right(str(refused)) and any(words in str(refused) for words in OF_DAMAGE):
            return [_unreadable(refused)]
        rules = f"`callboard acl operator --namespace {subject.transport.keys.namespace}`"
        return [
            info(
                f"this could not be checked: {refused}", do=f"run doctor as a user with the rules of {rules}"
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
