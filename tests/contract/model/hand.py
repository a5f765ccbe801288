"""A worker of the model, as it sees itself and as the server sees it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from callboard.broker.envelope import Delivery

Held: TypeAlias = dict[str, list[Delivery]]
"""Deliveries in order, by agent key."""


class Waiting(NamedTuple):
    """A turn that waits at a bell: its number, its call as it goes over the wire, how many entries it wants."""

    number: int
    call: tuple[Any, ...]
    wanted: int


class Hand:
    """One incarnation of a worker as it sees itself.

    Attributes:
        name, calls, acknowledged: of its lane.
        held: what it was given, by agent key, in order.
        unsure: an answer was lost, so that it has to ask what it holds.
        last: its last turn as it went over the wire.
        waiting: the turn that it left at its bell, until the server comes to it. It may do so late, when it counts no more.
        at_bell: what its lane knows of that turn.
        unread: what that turn brought, by agent key, as long as the worker has not heard of it; None: it heard of all.
        served: number of its last turn that was carried out.
        brought, told: number of its last turn at the bell that was carried out; the last call whose answer a beat told of.
        behind: the server lost what this worker was answered, and it has not heard of it yet: what the server takes it
            for. Nothing of what it does counts any more.
    """

    def __init__(self, name: str, calls: int = 0) -> None:
        self.name = name
        self.calls = calls
        self.acknowledged = 0
        self.held: Held = {}
        self.unsure = False
        self.waiting: Waiting | None = None
        self.at_bell: int | None = None
        self.unread: Held | None = None
        self.served = calls
        self.brought = self.told = 0
        self.last: tuple[Any, ...] | None = None
        self.behind: Hand | None = None

    def copy(self) -> Hand:
        made = Hand(self.name)
        made.behind = self.behind
        made.calls, made.acknowledged = self.calls, self.acknowledged
        made.unsure, made.last = self.unsure, self.last
        made.waiting, made.at_bell, made.served = self.waiting, self.at_bell, self.served
        made.brought, made.told = self.brought, self.told
        made.held = _copied(self.held)
        made.unread = None if self.unread is None else _copied(self.unread)
        return made

    @property
    def everything(self) -> Held:
        """What the server says that it holds."""
        all_of_it = _copied(self.held)
        for key, deliveries in (self.unread or {}).items():
            all_of_it.setdefault(key, []).extend(deliveries)
        return all_of_it

    @property
    def has_not_heard(self) -> bool:
        """What it was given last came with a bell, and nothing says that it knows of it."""
        return self.brought > 0 and self.brought == self.served and self.told < self.brought

    @property
    def outlook(self) -> tuple[Any, ...]:
        """What its future depends on, besides what the server holds."""
        waiting = self.waiting and (self.waiting.wanted, self.waiting.number > self.served)
        at_bell = self.waiting is not None and self.at_bell == self.waiting.number
        unread = None if self.unread is None else {key: len(held) for key, held in self.unread.items()}
        return self.unsure, waiting, at_bell, unread, self.has_not_heard

    @property
    def total(self) -> int:
        """Messages of which it knows that it holds them."""
        return sum(len(deliveries) for deliveries in self.held.values())

    def hear_all(self) -> None:
        """It knows what it holds, or is about to be told."""
        self.held, self.unread = self.everything, None

    def hang_up(self) -> None:
        """The connection of its bell breaks: it asks the server what it holds, unless it has heard of the turn there."""
        if self.waiting is not None or self.unread is not None:
            self.unsure = True
        self.hear_all()
        self.waiting = self.at_bell = None


def _copied(held: Held) -> Held:
    return {key: list(deliveries) for key, deliveries in held.items()}
