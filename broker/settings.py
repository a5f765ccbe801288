"""Every default, once, with its unit; and the only place that reads the environment."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from .errors import SettingsError

PREFIX: Final = "CALLBOARD_"
TEXTS: Final = frozenset({"url", "namespace", "durability", "when_full"})
CHOICES: Final = {"durability": ("server", "replica"), "when_full": ("wait", "reject")}
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"0", "false", "no", "off"})
MAY_BE_ZERO: Final = frozenset(
    {
        *("retain", "max_unclaimed", "drain_grace", "retry_base"),
        *("max_backlog", "max_backlog_per_key", "max_memory", "max_messages"),
    }
)
SIZES: Final = frozenset({"max_memory"})
UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How this process uses the server.

    Attributes:
        url: redis://, rediss://, unix:// or memory://; None: the embedded server.
        namespace: what keeps applications on one server apart.
        lease: seconds a silent worker keeps what it holds.
        beat_every: seconds between two heartbeats.
        prefetch: entries that a worker may hold.
        concurrency: handlers that run at once in one process.
        max_attempts: how often a message is tried before it becomes a dead letter.
        retry_base: seconds before the second attempt; doubles with each further one.
        retry_cap: longest pause between attempts, seconds.
        request_timeout: seconds a request waits for its reply.
        max_payload: largest body of a message, bytes.
        claim_check: larger bodies are kept beside their stream instead of being refused, as with claim_check=True.
        max_claim: largest body that is kept beside its stream, bytes.
        max_depth: deepest nesting of a body.
        max_elements: most values in a body.
        retain: handled entries that stay in a stream, to be looked at.
        max_unclaimed: entries kept in a topic that nobody subscribes to.
        dedupe_window: seconds an idempotency id is remembered.
        drain_grace: seconds that running handlers get when a worker stops.
        idle_poll: seconds after which an idle worker looks by itself for entries that were added by hand.
        passivate_after: seconds after which an idle persistent agent leaves the memory.
        max_memory: resident bytes after which a worker process drains and is replaced; 0: no limit. In the environment
            also with a unit, such as 500MB.
        max_messages: messages after which a worker process drains and is replaced; 0: no limit.
        connect_timeout: seconds to wait for a connection.
        socket_timeout: seconds to wait for an answer.
        max_backlog: messages of a topic, or in the inbox of an agent type, that may wait to be handled; 0: no limit.
        max_backlog_per_key: messages that may wait behind one busy agent; 0: no limit.
        when_full: what a publish does then: "wait", at most `publish_timeout`, or "reject" (OverloadedError at once).
        publish_timeout: seconds a publish waits for room.
        durability: when a publish counts as done: "server", as durable as the server's settings make it; "replica",
            when a replica has it as well (WAIT 1).
    """

    url: str | None = None
    namespace: str = "main"
    lease: float = 5.0
    beat_every: float = 1.0
    prefetch: int = 512
    concurrency: int = 100
    max_attempts: int = 3
    retry_base: float = 0.1
    retry_cap: float = 30.0
    request_timeout: float = 30.0
    max_payload: int = 1_048_576
    claim_check: bool = False
    max_claim: int = 134_217_728
    max_depth: int = 32
    max_elements: int = 100_000
    retain: int = 1_000
    max_unclaimed: int = 100_000
    dedupe_window: float = 86_400.0
    drain_grace: float = 30.0
    idle_poll: float = 0.5
    passivate_after: float = 300.0
    max_memory: int = 0
    max_messages: int = 0
    connect_timeout: float = 5.0
    socket_timeout: float = 10.0
    max_backlog: int = 0
    max_backlog_per_key: int = 0
    when_full: str = "wait"
    publish_timeout: float = 10.0
    durability: str = "server"

    def __post_init__(self) -> None:
        for spec in fields(self):
            self._check(spec.name, getattr(self, spec.name), spec.default)
        if self.beat_every * 2 > self.lease:
            raise SettingsError(
                f"beat_every={self.beat_every:g} s is too long for lease={self.lease:g} s: "
                "a worker has to beat at least twice in a lease"
            )

    @staticmethod
    def _check(name: str, value: Any, default: Any) -> None:
        if name in TEXTS:
            if not (isinstance(value, str) and value) and not (name == "url" and value is None):
                raise SettingsError(f"{name}={value!r} has to be text")
            if name in CHOICES and value not in CHOICES[name]:
                raise SettingsError(f"{name}={value!r} has to be one of: {', '.join(CHOICES[name])}")
            return
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise SettingsError(f"{name}={value!r} has to be True or False")
            return
        wanted = int if isinstance(default, int) else int | float
        if isinstance(value, bool) or not isinstance(value, wanted) or not math.isfinite(value):
            raise SettingsError(f"{name}={value!r} has to be a {'whole ' if wanted is int else ''}number")
        may_be_zero = name in MAY_BE_ZERO
        if value < 0 or (value == 0 and not may_be_zero):
            raise SettingsError(f"{name}={value!r} has to be {'at least' if may_be_zero else 'more than'} 0")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> BrokerSettings:
        """Settings from CALLBOARD_URL, else REDIS_URL, and CALLBOARD_<NAME> for every other; `overrides` win.

        An override that is None counts as not given.

        Raises:
            SettingsError: a value can't be read or makes no sense.
        """
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for spec in fields(cls):
            text = source.get(PREFIX + spec.name.upper())
            if text:
                values[spec.name] = _read(spec.name, text, spec.default)
        if "url" not in values and source.get("REDIS_URL"):
            values["url"] = source["REDIS_URL"]
        values.update({name: value for name, value in overrides.items() if value is not None})
        unknown = set(values) - {spec.name for spec in fields(cls)}
        if unknown:
            raise SettingsError(_no_setting(min(unknown), [spec.name for spec in fields(cls)]))
        return cls(**values)


def parse_size(text: str) -> int:
    """Bytes from a number with or without a unit: 500MB (10^6 bytes), 64MiB (2^20 bytes), 1.5G, 1048576.

    Raises:
        SettingsError: it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", text.strip().lower())
    if found is None:
        raise SettingsError(
            f"{text!r} is no size: write a number of bytes, or one with a unit such as 500MB or 2GiB"
        )
    return int(float(found[1]) * UNITS[found[2] or ""])


def _read(name: str, text: str, default: Any) -> Any:
    if name in SIZES:
        return parse_size(text)
    if isinstance(default, str) or default is None:
        return text
    if isinstance(default, bool):
        if text.lower() not in TRUE | FALSE:
            raise SettingsError(f"{PREFIX}{name.upper()}={text!r} has to be 1 or 0")
        return text.lower() in TRUE
    try:
        return type(default)(text)
    except ValueError as error:
        kind = "whole number" if isinstance(default, int) else "number"
        raise SettingsError(f"{PREFIX}{name.upper()}={text!r} has to be a {kind}") from error


def _no_setting(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"there is no setting {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
