"""What command lines say of worker processes, checked against the app and joined with its settings."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from .exits import bad_use

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import BrokerSettings


def check_types(app: App, names: Sequence[str]) -> None:
    """Refuses agent types that the app does not declare.

    Raises:
        UnknownAgentTypeError: with the nearest name that it has.
    """
    for name in names:
        app[name]


def nothing_to_run(app: App, or_else: str = "") -> NoReturn:
    """Ends the command: there is no agent type to work for."""
    bad_use(f"the app {app.name!r} has nothing to run: declare agents with @app.agent{or_else}")


def grace_of(given: float | None, settings: BrokerSettings) -> float:
    """Seconds of the grace period."""
    return settings.drain_grace if given is None else given


def with_limits(settings: BrokerSettings, max_memory: str | None, max_messages: int | None) -> BrokerSettings:
    """The settings with the limits of a worker process that the command line gives."""
    from dataclasses import replace

    from callboard.broker.settings import parse_size

    memory = settings.max_memory if max_memory is None else parse_size(max_memory)
    messages = settings.max_messages if max_messages is None else max_messages
    return replace(settings, max_memory=memory, max_messages=messages)


def worker_options(settings: BrokerSettings) -> tuple[str, ...]:
    """What the processes of `callboard up` are told besides their type: these limits, and --debug where it was given."""
    debug = ("--debug",) if logging.getLogger().isEnabledFor(logging.DEBUG) else ()
    return ("--max-memory", str(settings.max_memory), "--max-messages", str(settings.max_messages), *debug)
