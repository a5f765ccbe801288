"""The faults that a namespace can have, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "worker",
    "group",
    "topic",
    "stray group",
    "consumer",
    "key",
    "parked",
    "order",
    "pending",
    "early",
    "ready",
    "tries",
    "urgent",
    "timer",
    "expiry",
    "log",
    "question",
    "type",
    "message",
    "undeclared",
    "unknown",
]
Status = Literal["there", "mended", "stays"]


class Suspicion(NamedTuple):
    """Something that looked wrong at some moment. `lua/repair/repair.lua` says what `names` are for each kind."""

    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong, checked in one step with the server.

    Attributes:
        kind: what sort of thing, a key of `KINDS`.
        names: which one: agent type, key, stream suffix, entry id or worker, as the kind has them.
        status: "there", it can be mended; "mended"; "stays", `detail` says why.
        detail: what is wrong with it.
    """

    kind: Kind
    names: tuple[str, ...]
    status: Status
    detail: str

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(name for name in self.names if name)}: {self.detail}"


class KindFacts(NamedTuple):
    """The meaning of a kind of fault. `serious`: messages can be stuck, lost or out of order until it is mended."""

    what: str
    why: str
    serious: bool


KINDS: Final[dict[Kind, KindFacts]] = {
    "worker": KindFacts(
        "workers without a lease",
        "what a dead worker holds waits until another worker's next heartbeat; with no worker alive, until one starts",
        True,
    ),
    "group": KindFacts(
        "consumer groups that are missing",
        "nothing new of the stream reaches the agent type until a worker of it makes the group again",
        True,
    ),
    "topic": KindFacts(
        "subscriptions that a topic does not know",
        "new messages are not announced to the subscriber, and the topic is kept short as one without readers",
        True,
    ),
    "stray group": KindFacts(
        "consumer groups that belong to no agent type",
        "handled entries are kept for a group that will never read them, so that the stream grows",
        False,
    ),
    "consumer": KindFacts("consumers that are no workers", "they cost memory and make XINFO slow", False),
    "key": KindFacts(
        "agents whose busy mark is wrong",
        "their messages are never handled, or two workers may run one agent at once",
        True,
    ),
    "parked": KindFacts(
        "wait lists that name entries twice, or entries that are gone",
        "a message could be handled twice, or trimmed away before it is handled",
        True,
    ),
    "order": KindFacts(
        "parked entries that are not in the order of publishing",
        "messages would be handled out of order",
        True,
    ),
    "pending": KindFacts(
        "entries that were given out and that no worker holds",
        "they are never handled, and keep their stream from being trimmed",
        True,
    ),
    "early": KindFacts("entries read ahead that are gone", "they cost memory", False),
    "ready": KindFacts("keys to be taken that are not free", "each costs one look", False),
    "tries": KindFacts("counted attempts of entries that are done", "they cost memory", False),
    "urgent": KindFacts("resets that are gone", "the agent can't be reset any more", True),
    "timer": KindFacts("timers whose message is gone", "they cost memory", False),
    "expiry": KindFacts("keys that should expire and do not", "they cost memory for ever", False),
    "log": KindFacts(
        "logs that are not as long as their states say",
        "what comes for such an agent is a dead letter until a repair takes the log as it is",
        True,
    ),
    "question": KindFacts(
        "questions that no message waits for, or that are listed as what they are not",
        "people answer for nothing, or are not asked",
        False,
    ),
    "type": KindFacts(
        "keys of the wrong type", "what needs such a key is a dead letter, or waits until it is deleted", True
    ),
    "message": KindFacts(
        "delayed messages without a timer", "they are never sent, and when they were due is not known", True
    ),
    "undeclared": KindFacts(
        "subscribers that are not declared",
        "direct messages to them are refused as undeliverable, and doctor can't look into them",
        True,
    ),
    "unknown": KindFacts("keys that are nothing of Callboard's", "they cost memory", False),
}
