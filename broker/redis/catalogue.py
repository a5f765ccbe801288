"""What every key of a namespace is: its kind, and whether it expires. The top of `lua/common.lua` says what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..settings import BrokerSettings

Expiry = Literal["never", "window", "two windows", "minute", "hour"]

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class KeyKind:
    """Keys of one kind.

    Attributes:
        name: the suffix, or what it begins with when it ends with ":".
        type: as the command TYPE says it; several with " or " between them.
        expiry: how long it may stay; "window" is `dedupe_window`.
    """

    name: str
    type: str
    expiry: Expiry = "never"

    def expires_in(self, settings: BrokerSettings) -> int | None:
        """The longest time to live, ms; None: it stays."""
        window = int(settings.dedupe_window * 1000)
        lifetimes = {"window": window, "two windows": 2 * window, "minute": MINUTE_MS, "hour": HOUR_MS}
        return lifetimes.get(self.expiry)


CATALOGUE = (
    KeyKind("clock", "string"),
    KeyKind("epoch", "string"),
    KeyKind("config", "hash"),
    KeyKind("topics", "hash"),
    KeyKind("prefixes", "hash"),
    KeyKind("types", "hash"),
    KeyKind("workers", "zset"),
    KeyKind("timers", "zset"),
    KeyKind("events", "stream"),
    KeyKind("control", "stream"),
    KeyKind("paused", "hash"),
    KeyKind("cancelled", "zset", "window"),
    KeyKind("urgent", "hash"),
    KeyKind("newer", "hash"),
    KeyKind("accepts", "hash"),
    KeyKind("blobs", "zset"),
    KeyKind("topic:", "stream"),
    KeyKind("inbox:", "stream"),
    KeyKind("dead:", "stream"),
    KeyKind("streams:", "set"),
    KeyKind("fresh:", "set"),
    KeyKind("bell:", "list"),
    KeyKind("busy:", "hash"),
    KeyKind("parked:", "hash"),
    KeyKind("wait:", "list"),
    KeyKind("ready:", "list"),
    KeyKind("suspects:", "list"),
    KeyKind("early:", "zset"),
    KeyKind("tries:", "hash"),
    KeyKind("cursor:", "hash"),
    KeyKind("stats:", "hash"),
    KeyKind("shelved:", "hash"),
    KeyKind("urgent:", "stream"),
    KeyKind("rate:", "string", "hour"),
    KeyKind("blob:", "hash"),
    KeyKind("nested:", "stream", "window"),
    KeyKind("state:", "hash"),
    KeyKind("own:", "hash"),
    KeyKind("worker:", "hash"),
    KeyKind("timer:", "hash"),
    KeyKind("store:", "string or hash", "never"),
    KeyKind("dedupe:", "set", "two windows"),
    KeyKind("once:", "hash", "window"),
    KeyKind("call:", "hash", "window"),
    KeyKind("sent:", "string", "hour"),
    KeyKind("reply:", "stream", "minute"),
)


def kind_of(suffix: str) -> KeyKind | None:
    """What a key is, by what follows the namespace's prefix in its name; None: it is nothing of Callboard's."""
    head, colon, _ = suffix.partition(":")
    return _BY_NAME.get(head + colon)


_BY_NAME = {kind.name: kind for kind in CATALOGUE}
