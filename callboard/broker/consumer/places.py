"""How many handlers may run at once: in the whole worker, and of one agent type."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .interfaces import ConsumedType
from .mailbox import Mailbox


class Places:
    """The places for handlers.

    Attributes:
        running: handlers under way, those that wait for a reply included.
        waiting: handlers that wait for a reply. They leave their place to others: the request may have to be handled
            by this very worker, which would wait for itself otherwise.
        asked: how many wait for a reply of each agent type; types that nobody waits for are not in it.
    """

    def __init__(self, concurrency: int, types: Iterable[ConsumedType]) -> None:
        self._concurrency = concurrency
        self._limits: dict[bytes, int] = {}
        self._running_by_type: dict[bytes, int] = {}
        self._held_back: dict[bytes, deque[Mailbox]] = {}
        self.running = 0
        self.waiting = 0
        self.asked: dict[str, int] = {}
        self.add_types(types)

    @property
    def total(self) -> int:
        """How many handlers may be under way."""
        return self._concurrency + self.waiting

    @property
    def of_any_type(self) -> int:
        """How many handlers may be under way, of whatever type they are."""
        return min([self.total, *self._limits.values()])

    def add_types(self, types: Iterable[ConsumedType]) -> None:
        """Notes the limits of these types."""
        self._limits.update({each.name.encode(): each.concurrency for each in types if each.concurrency})

    def add_waiting(self, number: int, agent_type: str) -> None:
        """So many more handlers wait for a reply of an agent of this type, or fewer."""
        self.waiting += number
        if left := self.asked.get(agent_type, 0) + number:
            self.asked[agent_type] = left
        else:
            del self.asked[agent_type]

    def enter(self, mailbox: Mailbox) -> bool:
        """Takes a place for the first delivery of a mailbox; one whose agent type has none left is kept until then."""
        if self._limits and not self._enter_type(mailbox):
            return False
        self.running += 1
        return True

    def _enter_type(self, mailbox: Mailbox) -> bool:
        agent_type = mailbox.key[0]
        limit = self._limits.get(agent_type)
        if limit is None:
            return True
        running = self._running_by_type.get(agent_type, 0)
        if running < limit:
            self._running_by_type[agent_type] = running + 1
            return True
        self._held_back.setdefault(agent_type, deque()).append(mailbox)
        return False

    def leave(self, agent_type: bytes) -> Mailbox | None:
        """Gives a place back; returns the mailbox that has waited longest for one of this agent type."""
        self.running -= 1
        if agent_type not in self._limits:
            return None
        self._running_by_type[agent_type] -= 1
        waiting = self._held_back.get(agent_type)
        while waiting:
            mailbox = waiting.popleft()
            # One that was closed meanwhile begins nothing. Given the place, it would keep it from those behind it.
            # guard: a mailbox that goes back gets no place
            if not mailbox.closing:
                return mailbox
        return None
