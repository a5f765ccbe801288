"""Mailboxes: deliveries that a worker holds, the places for handlers, and the portion that a turn carries.

The consumer knows neither Redis nor agents, only two protocols: `Lane`, which a lane of `broker.redis.client` fits, and
`DeliveryHandler`, which the host of `callboard.runtime` fits. Those of the tests fit them, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from .envelope import Delivery
from .outcome import NOTHING, Commit, DeadLetter, Outcome, Release, Suspend


class ConsumedType(NamedTuple):
    """An agent type as a consumer has to know it.

    Attributes:
        name: the agent type.
        persistent: its agents keep their state in the server.
        concurrency: handlers at once in this process; None: only the worker's own limit counts.
        rate_limit: deliveries a second that all workers together take; None: no limit.
    """

    name: str
    persistent: bool = False
    concurrency: int | None = None
    rate_limit: float | None = None


Ending: TypeAlias = tuple[Delivery, Outcome, bool]
"""The end of a delivery: the delivery, how it ended, and whether it is the last of its agent that the worker holds.

With the last one the commit frees the agent for other workers. Which it is shows when a turn is made up: until then it
says False. (A plain tuple: there is one for every message, and a class costs several times as much to make.)
"""


class Pull(NamedTuple):
    """The part of a turn that asks for new deliveries.

    Attributes:
        types: the agent types that the worker works for: their rate limits hold for what is handed over, too. Fewer where
            nothing is handed over.
        room: most deliveries of each type; 0 when the worker takes nothing.
        held: how many the worker holds. A worker that holds none may be given a suspect.
        scan: look at every stream of the types, not only at those of which it is known that they have entries.
        accept: how many of the entries that are parked behind the agents whose deliveries end with this turn may be
            handed over.
    """

    types: Sequence[ConsumedType]
    room: int
    held: int
    scan: bool
    accept: int


class Turn(NamedTuple):
    """The answer to a turn.

    Attributes:
        deliveries: what the worker holds from now on.
        server_ms: the server's time; 0: it is not said, since nothing is due.
        next_due_ms: when the next timer is due; None when there is none.
        more: there is more to take at once.
        suspects_wait: a suspect waits for a worker that holds nothing.
        full_topic: a topic whose stream is full, so that a delayed message could not be delivered; "" for none.
        suspicion: deaths of workers that held the suspect among others since it is one.
        asked_ms: when the turn was sent, by `steady_ms` of `client/connection.py`; None: it is not known.
        is_second: the turn that waited at the bell was carried out before this one, and its answer comes first.
    """

    deliveries: list[Delivery]
    server_ms: int
    next_due_ms: int | None
    more: bool
    suspects_wait: bool
    full_topic: str
    suspicion: int = 0
    asked_ms: float | None = None
    is_second: bool = False


class Rung(NamedTuple):
    """The end of a wait at the bell with a turn.

    Attributes:
        agent_type: whose bell rang; None when none did; "" when that is not known.
        turn: the answer to the turn; None when it was not carried out, and never will be.
    """

    agent_type: str | None
    turn: Turn | None


class Incarnation(NamedTuple):
    """A worker from one join to the next.

    Attributes:
        worker: its name; "" before the first join.
        acknowledged: number of its last call that was answered. A server that knows only of earlier ones has lost the
            others, and with them what this worker believes to hold.
    """

    worker: str = ""
    acknowledged: int = 0


class Lane(Protocol):
    """A worker's own connection to the server, on which it takes its turns."""

    @property
    def worker(self) -> str:
        """Name of the incarnation that joined last; "" before."""
        ...

    @property
    def incarnation(self) -> Incarnation:
        """The one that joined last. Also read by the heartbeat's thread."""
        ...

    async def join(self, agent_types: Sequence[str], accepts: Mapping[str, int]) -> None:
        """Begins a new incarnation that works for these types and knows these messages, in these versions."""

    async def announce(self, agent_types: Sequence[str]) -> None:
        """Says that this incarnation works for other agent types than it joined with."""

    async def turn(self, endings: Sequence[Ending], pull: Pull) -> Turn:
        """Commits how deliveries ended and takes new ones.

        Raises:
            FencedError: the lease is lost, or the server lost what this worker was answered, or does not hold what it
                commits; nothing of the turn was carried out.
            EncodeError: an ending cannot be written, see `can_send`; nothing of the turn left this process.
            ServerUnavailableError, CommandError, OverloadedError: whether the turn was carried out has to be asked
                by `resync`.
        """
        ...

    def can_send(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Whether this ending can be written; one that cannot keeps all the others of a turn from leaving."""
        ...

    async def resync(self) -> list[Delivery]:
        """The deliveries that this worker holds as the server sees it; older turns that still arrive are refused.

        Raises:
            FencedError: as of `turn`.
        """
        ...

    async def wait_for_bell(self, agent_types: Sequence[str], seconds: float) -> str | None:
        """Waits for a token: the agent type that it was for, None without one, "" when the connection broke."""
        ...

    async def turn_at_bell(self, agent_types: Sequence[str], seconds: float, pull: Pull) -> Rung:
        """Waits for a token, and has the server take a turn with it at once, which saves a trip.

        For a worker that holds nothing. A turn or a resync that is asked for meanwhile goes first, and then this turn is
        carried out before it (`Turn.is_second`) or never.

        Raises:
            FencedError, ServerUnavailableError, CommandError, OverloadedError: as of `turn`.
        """
        ...

    async def ring(self, agent_type: str) -> None:
        """Puts a token into the bell of this type."""

    async def reconnect(self, within: float) -> None:
        """Makes the connection again after it broke."""

    async def leave(self) -> None:
        """Ends the incarnation; what it still holds goes to other workers at once."""

    def close(self) -> None:
        """Closes the connections."""


class HandlingWorker(Protocol):
    """The worker that runs a handler, as the handler sees it."""

    @property
    def worker(self) -> str:
        """Name of the current incarnation."""
        ...

    def add_waiting(self, number: int, agent_type: str) -> None:
        """So many more handlers wait for a reply of an agent of this type; a negative number: so many fewer.

        Its name is "" where no worker is to take the request: it went to an activation that waits.
        """


class DeliveryHandler(Protocol):
    """The host of the agents: it handles the deliveries that the consumer takes."""

    def declare(self) -> Coroutine[Any, Any, None]:
        """Makes agent types and subscriptions known to the server; called again with every join."""
        ...

    def accepts(self) -> Mapping[str, int]:
        """The messages this process knows, with their versions; newer ones wait for another process."""
        ...

    def handle(self, delivery: Delivery, worker: HandlingWorker) -> Coroutine[Any, Any, Outcome]:
        """Handles one delivery. Every failure is an outcome; nothing is raised but CancelledError."""
        ...

    def fenced(self, running: Sequence[Delivery]) -> None:
        """The lease was lost while these were being handled; nothing of them will be committed."""

    def on_turn(self, turn: Turn, /) -> None:
        """A turn was answered."""


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


class Mailboxes:
    """All mailboxes of a worker.

    Attributes:
        runnable: mailboxes whose first delivery may be handled, in order of arrival.
        finished: what the next turn has to commit, in the order in which it ended.
        held: deliveries in all, finished ones included.
        is_draining: nothing that is held or still comes begins any more.
        may_give_back: `has_leftovers` is worth asking: something was to be given back since the last turn, or all is.
    """

    def __init__(self) -> None:
        self._by_key: dict[MailboxKey, Mailbox] = {}
        self._steps_back = False
        self._too_long: dict[Mailbox, int] = {}
        self.may_give_back = False
        self.runnable: deque[Mailbox] = deque()
        self.finished: list[Ending] = []
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

    def take_finished(self, count: int) -> list[Ending]:
        """The first deliveries to be committed now. The rest, and those that end from here on, are for the turn after."""
        taken, self.finished = self.finished, self.finished[count:]
        del taken[count:]
        return taken

    def endings(self, finished: Sequence[Ending]) -> list[Ending]:
        """The commits for these deliveries, and for those that go back unhandled; none of them is held any more."""
        endings: list[Ending] = []
        back: list[Delivery] = []
        for delivery, outcome, _ in finished:
            mailbox: Mailbox = delivery.mailbox
            self.sent(mailbox)
            is_free = not mailbox.queue and mailbox.task is None and not mailbox.unsent
            if is_free:  # as `close_if_done` would find, for most
                self._by_key.pop(mailbox.key, None)
            elif mailbox.closing:
                is_free, rest = self.close_if_done(mailbox)
                back += rest
            endings.append((delivery, outcome, is_free))
        if self.may_give_back:
            back += self._stepped_back()
        endings += [(delivery, NOT_BEGUN, True) for delivery in back]
        if self._too_long:
            endings += [(delivery, NOT_BEGUN, False) for delivery in self._cut()]
        return endings

    def _stepped_back(self) -> list[Delivery]:
        """Deliveries that go back, of all agents of which nothing runs any more."""
        self.may_give_back = self.is_draining
        if not self.is_draining and not self._steps_back:
            return []
        self._steps_back = False
        return [delivery for mailbox in self for delivery in self.close_if_done(mailbox)[1]]

    def _cut(self) -> list[Delivery]:
        """Deliveries that go back of agents that the worker keeps, because too many wait behind them."""
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
                self._steps_back = self.may_give_back = True
        return self._steps_back

    def park(self, mailbox: Mailbox, share: int) -> None:
        """Has all but its first deliveries parked again. At least one is kept, and with it the agent."""
        self._too_long[mailbox] = max(1, share)
        self.may_give_back = True

    def close(self, mailbox: Mailbox) -> None:
        """Marks a mailbox to be given back: what has not begun goes back when the running handler has ended."""
        mailbox.closing = True
        if mailbox in self.runnable:
            self.runnable.remove(mailbox)

    def close_all(self) -> None:
        """Marks every mailbox as `close` does; deliveries that still come go back too."""
        self.is_draining = self.may_give_back = True
        self.runnable.clear()
        for mailbox in self:
            mailbox.closing = True

    # After something went wrong

    def references(self) -> set[tuple[bytes, bytes, bytes]]:
        """The references of everything that is held."""
        known = {delivery.reference for delivery, _, _ in self.finished}
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


class Places:
    """The places for handlers.

    Attributes:
        running: handlers under way, those that wait for a reply included.
        waiting: handlers that wait for a reply. They leave their place to others: the request may have to be handled
            by this very worker, which would wait for itself otherwise.
        asked: how many wait for a reply of each agent type; types that no handler waits for are not in it.
        total: how many handlers may be under way.
    """

    def __init__(self, concurrency: int, types: Iterable[ConsumedType]) -> None:
        self.total = concurrency
        self._limits: dict[bytes, int] = {}
        self._running_by_type: dict[bytes, int] = {}
        self._held_back: dict[bytes, deque[Mailbox]] = {}
        self.running = 0
        self.waiting = 0
        self.asked: dict[str, int] = {}
        self.add_types(types)

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
        self.total += number
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


PAYLOADS = 4
"""Largest bodies that one turn carries: enough that a turn costs little beside them, and soon through a slow line."""

SMALL = 65_536
"""Bytes that pass through any line on which a worker can work: that a turn with less was lost has another reason."""

MOST_RECORDS = 100
"""Commits in one turn that end, or leave, what a handler recorded or asked: at 80 microseconds the server stands still for
8 ms, where most others take 15 each."""

LONGEST_TRIAL = 1024
"""Turns that have to go well, at most, before more is tried: each trial that fails costs a whole timeout."""


class Portion:
    """The share of finished deliveries in one turn: at least one commit, and no more bytes than the line lets pass in time.

    Whatever is too large to pass before the timeout is sent again after it; were it never less, the worker would repeat it
    for ever while its lease lives.

    Args:
        max_payload: largest body of a message, in bytes.

    Attributes:
        limit: bytes of the next turn.
    """

    def __init__(self, max_payload: int) -> None:
        self._most = PAYLOADS * max_payload
        self.limit = self._most
        self._trial = 1
        self._good = 0

    def cut(self, finished: Sequence[Ending]) -> int:
        """How many of these, from the first on, the next turn carries."""
        if len(finished) < 2:  # at least one leaves, whatever it is
            return len(finished)
        size = records = 0
        for count, item in enumerate(finished):
            outcome = item[1]
            if outcome is NOTHING:
                continue
            size += weight(outcome)
            # guard: a turn carries no more than passes
            if size > self.limit and count:
                return count
            records += _has_record(outcome)
            # guard: a turn keeps the server from others for a few ms only
            if records > MOST_RECORDS:
                return count
        return len(finished)

    def was_lost(self, sent: Sequence[Ending]) -> None:
        """A turn with these was not answered: the next one carries half of it."""
        size = sum(weight(outcome) for _, outcome, _ in sent)
        if size <= SMALL:
            return
        if self._good or self.limit == self._most:
            self._trial = min(2 * self._trial, LONGEST_TRIAL)
        self._good = 0
        # guard: after a lost turn less is sent
        self.limit = min(self.limit, size) // 2

    def went_well(self, sent: Sequence[Ending]) -> None:
        """A turn was answered: after a few, twice as much is tried; after more of them, when that failed before."""
        if self._trial == 1:
            return
        self._good += 1
        if self.limit == self._most:
            if sum(weight(outcome) for _, outcome, _ in sent) > self._most // 2:
                self._trial = 1
        elif self._good % self._trial == 0:
            self.limit = min(self._most, 2 * self.limit)


def _has_record(outcome: Outcome) -> bool:
    return outcome.once_of is not None if isinstance(outcome, Commit) else isinstance(outcome, Suspend)


def weight(outcome: Outcome) -> int:
    """The bytes that its commit carries, but for what is small in any of them."""
    size = 0
    if isinstance(outcome, Commit):
        if outcome.state is not None:
            size = len(outcome.state[1])
        if outcome.logs is not None:
            size += sum(sum(map(len, change.appended)) for change in outcome.logs[1])
        for posting in outcome.outgoing:
            size += len(posting.envelope.body)
            if posting.claim is not None:
                size += len(posting.claim.body)
        for write in outcome.events:
            size += write.size
    elif isinstance(outcome, DeadLetter):
        size = len(outcome.error.traceback) if outcome.error is not None else 0
    else:
        return 0
    reply = outcome.reply
    if reply is not None:
        size += len(reply.envelope.body) + (len(reply.claim.body) if reply.claim is not None else 0)
    return size
