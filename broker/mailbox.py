"""What a worker holds: for each agent key the entries that wait for it, in order, and what is finished but not committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from .delivery import Delivery

MailboxKey = tuple[bytes, bytes]  # agent type, agent key


class Mailbox:
    """The entries of one agent key. At most one of them is being handled.

    Attributes:
        queue: entries in order; the first one may be running.
        task: the task that handles the first entry, None while none is being handled.
        unsent: entries that are finished and whose commit was not sent yet.
        closing: what is left goes back to the server once nothing is unsent.
        fenced: the lease was lost; nothing of this mailbox may be committed.
    """

    __slots__ = ("closing", "fenced", "key", "queue", "task", "unsent")

    def __init__(self, key: MailboxKey) -> None:
        self.key = key
        self.queue: deque[Delivery] = deque()
        self.task: asyncio.Task[None] | None = None
        self.unsent = 0
        self.closing = False
        self.fenced = False


class Mailboxes:
    """All mailboxes of a worker, and those of them that can be worked on, in order of arrival."""

    def __init__(self) -> None:
        self._by_key: dict[MailboxKey, Mailbox] = {}
        self.runnable: deque[Mailbox] = deque()
        self.held = 0

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, delivery: Delivery) -> None:
        """Puts an entry behind the others of its key."""
        key = (delivery.raw_type, delivery.raw_key)
        mailbox = self._by_key.get(key)
        if mailbox is None:
            mailbox = self._by_key[key] = Mailbox(key)
        delivery.mailbox = mailbox
        mailbox.queue.append(delivery)
        self.held += 1
        if len(mailbox.queue) == 1 and mailbox.task is None and not mailbox.closing:
            self.runnable.append(mailbox)

    def finish(self, mailbox: Mailbox) -> None:
        """Takes the first entry out; the next one may run unless the mailbox is closing."""
        mailbox.queue.popleft()
        mailbox.unsent += 1
        if mailbox.queue and not mailbox.closing:
            self.runnable.append(mailbox)

    def restore(self, mailbox: Mailbox) -> None:
        """Brings back a mailbox whose commit has to be sent again."""
        self._by_key.setdefault(mailbox.key, mailbox)
        mailbox.unsent += 1
        self.held += 1

    def sent(self, mailbox: Mailbox) -> None:
        """One finished entry is on its way to the server."""
        mailbox.unsent -= 1
        self.held -= 1

    def close_if_done(self, mailbox: Mailbox) -> tuple[bool, list[Delivery]]:
        """Whether the key is free now, and what has to be given back for that."""
        if mailbox.unsent or mailbox.task is not None or (mailbox.queue and not mailbox.closing):
            return False, []
        rest = list(mailbox.queue)
        mailbox.queue.clear()
        self.held -= len(rest)
        self._by_key.pop(mailbox.key, None)
        return True, rest

    def close(self, mailbox: Mailbox) -> None:
        """What has not begun of it goes back; what runs ends first."""
        mailbox.closing = True
        if mailbox in self.runnable:
            self.runnable.remove(mailbox)

    def close_all(self) -> None:
        """What has not begun goes back; what runs ends first."""
        self.runnable.clear()
        for mailbox in self:
            mailbox.closing = True

    def fence(self) -> list[Mailbox]:
        """Forgets everything; returns the mailboxes whose handlers were running."""
        everything = list(self)
        for mailbox in everything:
            mailbox.fenced = True
        self._by_key.clear()
        self.runnable.clear()
        self.held = 0
        return [mailbox for mailbox in everything if mailbox.task is not None]
