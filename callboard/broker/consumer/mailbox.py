"""The deliveries that a worker holds: those that wait, in order for each agent, and those finished but not committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from callboard.broker.delivery import Delivery
from callboard.broker.outcome import Outcome, Release

from .interfaces import Ending

MailboxKey = tuple[bytes, bytes]  # agent type, agent key
NOT_BEGUN = Release("it was not begun here")


class Mailbox:
    """The deliveries of one agent. At most one of them is being handled.

    Attributes:
        queue: deliveries in order; the first one may be running.
        task: the task that handles the first delivery, None while none is being handled.
        unsent: deliveries that are finished and whose commit was not sent yet.
        closing: nothing more of it begins; what is left goes back to the server once nothing is unsent.
        fenced: the lease was lost; nothing of this mailbox may be committed.
        ended: its worker cancelled the handler. A handler may also cancel the task that it runs in by itself.
    """

    __slots__ = ("closing", "ended", "fenced", "key", "queue", "task", "unsent")

    def __init__(self, key: MailboxKey) -> None:
        self.key = key
        self.queue: deque[Delivery] = deque()
        self.task: asyncio.Task[None] | None = None
        self.unsent = 0
        self.closing = False
        self.fenced = False
        self.ended = False

    @property
    def has_work(self) -> bool:
        """Whether something of it is handled, waits, or is not committed yet."""
        return self.task is not None or bool(self.queue) or self.unsent > 0


Finished: TypeAlias = tuple[Mailbox, Delivery, Outcome]
"""A delivery whose handler has ended, and which is not committed yet. A plain tuple as `Ending` is, and for its reason."""


class Mailboxes:
    """All mailboxes of a worker.

    Attributes:
        runnable: mailboxes whose first delivery may be handled, in order of arrival.
        finished: what the next turn has to commit, in the order in which it ended.
        held: deliveries in all, finished ones included.
        is_draining: nothing that is held or still comes begins any more.
    """

    def __init__(self) -> None:
        self._by_key: dict[MailboxKey, Mailbox] = {}
        self._steps_back = False
        self._too_long: dict[Mailbox, int] = {}
        self.runnable: deque[Mailbox] = deque()
        self.finished: list[Finished] = []
        self.held = 0
        self.is_draining = False

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: MailboxKey) -> bool:
        return key in self._by_key

    # A delivery comes, is finished, is sent

    def add(self, delivery: Delivery) -> None:
        """Puts a delivery behind the others of its agent."""
        key = (delivery.raw_type, delivery.raw_key)
        mailbox = self._by_key.get(key)
        if mailbox is None:
            mailbox = self._by_key[key] = Mailbox(key)
            # A drain may begin while a turn is under way: what that turn brings must not begin, it goes back.
            mailbox.closing = self.is_draining
        delivery.mailbox = mailbox
        # guard: a mailbox keeps its order
        mailbox.queue.append(delivery)
        self.held += 1
        # With a task, or with others before it, the mailbox is offered again when those have ended. Offered now, two
        # runners would handle messages of one agent at once.
        # guard: one handler at a time for one agent
        if len(mailbox.queue) == 1 and mailbox.task is None and not mailbox.closing:
            self.runnable.append(mailbox)

    def finish(self, mailbox: Mailbox) -> None:
        """Takes the first delivery out; the next one may run unless the mailbox is closing."""
        mailbox.queue.popleft()
        mailbox.unsent += 1
        if mailbox.queue and not mailbox.closing:
            self.runnable.append(mailbox)

    def take_finished(self, count: int) -> list[Finished]:
        """The first deliveries to be committed now. The rest, and those that end from here on, are for the turn after."""
        taken, self.finished = self.finished, self.finished[count:]
        del taken[count:]
        return taken

    def endings(self, finished: Sequence[Finished]) -> list[Ending]:
        """The commits for these deliveries, and for those that go back unhandled; none of them is held any more."""
        endings: list[Ending] = []
        back: list[Delivery] = []
        for mailbox, delivery, outcome in finished:
            self.sent(mailbox)
            is_free = not mailbox.queue and mailbox.task is None and not mailbox.unsent
            if is_free:  # as `close_if_done` would find, for most
                self._by_key.pop(mailbox.key, None)
            elif mailbox.closing:
                is_free, rest = self.close_if_done(mailbox)
                back += rest
            endings.append((delivery, outcome, is_free))
        if self.is_draining or self._steps_back:
            self._steps_back = False
            for mailbox in self:
                back += self.close_if_done(mailbox)[1]
        endings += [(delivery, NOT_BEGUN, True) for delivery in back]
        if self._too_long:
            endings += [(delivery, NOT_BEGUN, False) for delivery in self._cut()]
        return endings

    def _cut(self) -> list[Delivery]:
        """What goes back of agents that the worker keeps, because too much waits behind them."""
        back: list[Delivery] = []
        for mailbox, share in self._too_long.items():
            # One that is closed meanwhile goes back as a whole, once nothing of it runs.
            # guard: an agent that goes back goes back as a whole
            if mailbox.closing:
                continue
            rest = [mailbox.queue.pop() for _ in range(len(mailbox.queue) - share)]
            # guard: what is parked again keeps its order
            back += reversed(rest)
        self._too_long.clear()
        self.held -= len(back)
        return back

    def sent(self, mailbox: Mailbox) -> None:
        """One finished delivery is on its way to the server."""
        mailbox.unsent -= 1
        self.held -= 1

    def close_if_done(self, mailbox: Mailbox) -> tuple[bool, list[Delivery]]:
        """Whether the agent is free now, and what has to be given back for that.

        With an earlier commit unsent or a handler running nothing goes back: what goes back could be handled
        elsewhere before that commit is written, out of order.
        """
        if mailbox.unsent or mailbox.task is not None or (mailbox.queue and not mailbox.closing):
            return False, []
        rest = list(mailbox.queue)
        mailbox.queue.clear()
        self.held -= len(rest)
        self._by_key.pop(mailbox.key, None)
        return True, rest

    def restore(self, mailbox: Mailbox) -> None:
        """Brings back a mailbox of which a commit has to be sent again."""
        self._by_key.setdefault(mailbox.key, mailbox)
        mailbox.unsent += 1
        self.held += 1

    # Giving back

    @property
    def has_leftovers(self) -> bool:
        """Whether something is to be given back that no handler keeps here."""
        return (
            self._steps_back
            or bool(self._too_long)
            or (self.is_draining and any(box.task is None for box in self))
        )

    def step_back(self, concerns: Callable[[Delivery], bool]) -> bool:
        """Closes every mailbox in which a delivery that has not begun is concerned; whether there is any."""
        for mailbox in self:
            waiting = list(mailbox.queue)[1 if mailbox.task is not None else 0 :]
            if any(map(concerns, waiting)):
                self.close(mailbox)
                self._steps_back = True
        return self._steps_back

    def park(self, mailbox: Mailbox, share: int) -> None:
        """Has all but its first deliveries parked again. At least one is kept, and with it the agent."""
        self._too_long[mailbox] = max(1, share)

    def close(self, mailbox: Mailbox) -> None:
        """Marks a mailbox to be given back: what has not begun goes back when the running handler has ended."""
        mailbox.closing = True
        if mailbox in self.runnable:
            self.runnable.remove(mailbox)

    def close_all(self) -> None:
        """Marks every mailbox as `close` does; deliveries that still come go back too."""
        self.is_draining = True
        self.runnable.clear()
        for mailbox in self:
            mailbox.closing = True

    # After something went wrong

    def references(self) -> set[tuple[bytes, bytes, bytes]]:
        """The references of everything that is held."""
        known = {delivery.reference for _, delivery, _ in self.finished}
        for mailbox in self._by_key.values():
            known.update(delivery.reference for delivery in mailbox.queue)
        return known

    def fence(self) -> list[Mailbox]:
        """Forgets everything; returns the mailboxes whose handlers were running."""
        everything = list(self)
        for mailbox in everything:
            mailbox.fenced = True
            mailbox.closing = True  # one that waits for a place of its agent type must not get it any more
        self._by_key.clear()
        self.runnable.clear()
        # While the refused turn was under way more handlers have ended. Another worker has their messages by now.
        # guard: what had ended goes with the lease
        self.finished.clear()
        self._too_long.clear()
        self.held = 0
        return [mailbox for mailbox in everything if mailbox.task is not None]
