"""How much a worker takes, and when: the bells that it listens to, its pace, and fairness between its agents.

A worker that holds nothing leaves its next turn at the server, to be taken with the token: the work comes with the news
of it. (One that holds something may have something to commit by then, and takes a turn of its own when it hears the bell.)

A handler that blocks the event loop (`time.sleep`, a long computation) keeps everything that the worker holds besides from
beginning, and other workers may idle meanwhile. So a worker starts with one delivery, holds twice as many each time the
loop came back promptly from beginning with them, and fewer when it did not.

The messages of an agent are handled one after the other. Of an agent that takes seconds for each, a worker could hold so
many that it has room for no other agent, while its places are idle. So what waits long behind an agent goes back to the
server, is parked there behind the agent, which stays with the worker, and comes back in portions as the agent gets on.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import NamedTuple

from .envelope import Delivery
from .errors import BrokerError
from .mailbox import ConsumedType, Lane, Mailbox, Mailboxes, Places, Pull, Turn
from .settings import BrokerSettings

logger = logging.getLogger("callboard.broker")

AHEAD = 0.05
"""Seconds of work that a worker may hold beyond what runs.

Several times as long as a turn takes, so that handlers never wait for one; and short, since what a worker holds no idle
worker can take.
"""

SOON = 0.002
"""Seconds of work that a worker takes at once after a turn that brought nothing.

A turn costs about as much as ten small messages. Were it always one message, a hundred requests that come together would be
taken in turns of one, two, four and so on, while most of them wait. And what is handled this soon no other worker needs.
"""

BYTES_AHEAD = 16 * 1024 * 1024
"""Bytes of bodies that a worker may hold, as far as it can foresee: what many large messages may cost in memory."""

PATIENCE = 5.0
"""Seconds that a worker stays without new work so that a suspect is tried alone.

Most handlers end sooner. Were there no end to it, one handler that takes an hour would keep a worker from all else, and one
that waits for the reply of an agent in the same worker would wait in vain.
"""

MOST_DOUBLINGS = 6
"""How often patience doubles: with each death of a worker that held the suspect and, its patience being over, others.

So what ends its process after a minute is alone at last when it does, and known to have done it. Not for ever: it costs the
worker its time.
"""

SHORTEST_MEASURE = 0.001
"""Seconds: over less than that the rate would be a matter of chance."""


def patience(suspicion: int) -> float:
    """Seconds that a worker stays without new work for a suspect of so bad a record."""
    # guard: patience grows with the deaths
    return PATIENCE * 2.0 ** min(suspicion, MOST_DOUBLINGS)


class WorkLoad:
    """How fast handlers end, and how large bodies are: from the past to the near future.

    Attributes:
        rate: deliveries a second.
        typical_size: bytes of a body; it grows at once and shrinks slowly, since too large a guess only costs time.
        completed: deliveries that ended since the last measure.
    """

    def __init__(self) -> None:
        self.rate = 0.0
        self.typical_size = 1.0
        self.completed = 0
        self._since = 0.0

    def measure(self, now: float) -> None:
        """Renews the rate; called before every turn."""
        elapsed = now - self._since
        if elapsed > SHORTEST_MEASURE:
            self.rate = 0.5 * self.rate + 0.5 * self.completed / elapsed
            self.completed = 0
            self._since = now

    def weigh(self, deliveries: Sequence[Delivery]) -> None:
        """Renews the typical size by what a turn has brought."""
        if len(deliveries) == 1:
            size = float(len(deliveries[0].envelope.body))
        else:
            size = sum([len(delivery.envelope.body) for delivery in deliveries]) / len(deliveries)
        self.typical_size = max(1.0, size, 0.9 * self.typical_size)


class Suspects:
    """Makes room for a suspect: nothing new is taken until the worker is empty, or patience ends.

    But for what its handlers wait for, see Intake.

    Attributes:
        keep_room: nothing is to be taken now.
        patience_is_over: the next turn is to say that the worker holds nothing, so that it gets suspects all the same.
        beside: what was taken meanwhile, since handlers wait for it or for what comes after it.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self.beside: list[Delivery] = []
        self._timer: asyncio.TimerHandle | None = None
        self.keep_room = False
        self.patience_is_over = False

    def heed(self, one_waits: bool, suspicion: int) -> None:
        """A turn has said whether a suspect waits for a worker that holds nothing, and how bad its record is."""
        self.patience_is_over = False
        self.keep_room = one_waits
        if one_waits and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(patience(suspicion), self._lose_patience)

    def _lose_patience(self) -> None:
        self.forget()
        self.patience_is_over = True
        self._nudge()

    def forget(self) -> None:
        """There is nothing to wait for: the worker is empty, or another incarnation."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.keep_room = self.patience_is_over = False
        self.beside.clear()


PORTION = 16
"""Deliveries of one agent that a worker is given at once of what is parked. `take.lua` says the same (HANDED_OVER)."""


class Intake:
    """Decides what the next turn asks for, and whether there is a reason for one.

    While a suspect is tried alone, or room is made for one, a handler may wait for the reply of an agent that this very
    worker has to handle: no other worker may work for that type. Kept waiting, its request would time out as often as it is
    tried, and a harmless message would become a dead letter. So for each handler that waits one message is taken, of the
    types that are asked, suspects or not.

    Args:
        lane: the lane on which the bell is heard.
        types: the agent types to take from.
        boxes: what the worker holds.
        places: how many handlers may run.
        settings: prefetch and idle_poll count.
        wake: makes the consumer look for a reason to take a turn.
    """

    def __init__(
        self,
        lane: Lane,
        types: Iterable[ConsumedType],
        boxes: Mailboxes,
        places: Places,
        settings: BrokerSettings,
        wake: asyncio.Event,
    ) -> None:
        self.types = {each.name: each for each in types}
        self._asked_for = tuple(self.types.values())
        self._boxes = boxes
        self._places = places
        self._settings = settings
        self._wake = wake
        self._load = WorkLoad()
        self._pace = Pace(settings.prefetch, lambda: boxes.held > 0, self._grown)
        self._fairness = Fairness(boxes, self._is_short, self._share, wake.set)
        self._suspects = Suspects(self.nudge)
        self._bell = Bell(lane, self.types, self._has_room_for, self.nudge, wake.set, settings.idle_poll)
        self._loop = asyncio.get_running_loop()
        self._most = settings.prefetch  # deliveries that may be held, as prefetch and memory go
        self._most_at_once = max(1, settings.prefetch // 2)
        self._ramp = 1
        self._active = 1  # types of which the last turn that brought anything has brought something
        self.is_hungry = True

    def nudge(self) -> None:
        """Takes a turn soon."""
        self.is_hungry = True
        self._wake.set()

    # Before a turn

    def room(self) -> int:
        """How many deliveries this worker would take now."""
        # guard: a worker takes nothing while a suspect waits
        if self._boxes.is_draining or self._suspects.keep_room:
            return self._room_beside()
        held, load, places = self._boxes.held, self._load, self._places
        total, most = places.total, min(self._most, self._pace.width) + places.waiting
        if not held and self._ramp <= min(total, most):
            return self._ramp  # as what follows would find
        unstarted = held - places.running
        # What waits behind an agent uses no place. Two portions for each: one that was handed over leaves room for others.
        agents = len(self._boxes)
        unused = min(total - agents, 2 * PORTION * agents - held)
        room = max(total - held, unused, int(load.rate * AHEAD) - unstarted)
        return min(self._ramp, room, most - held)

    def _asked_here(self) -> tuple[ConsumedType, ...]:
        """The types of which handlers wait for a reply, as far as this worker works for them."""
        asked = self._places.asked
        return tuple([each for each in self._asked_for if each.name in asked])

    def _room_beside(self) -> int:
        """The same while room is kept for a suspect: 1 while more handlers wait than were given something."""
        asked = self._asked_here()
        if self._boxes.is_draining or not asked:
            return 0
        held = {delivery.reference for box in self._boxes for delivery in box.queue}
        beside = [delivery for delivery in self._suspects.beside if delivery.reference in held]
        # guard: no more comes beside a suspect than is waited for
        return int(len(beside) < sum([self._places.asked[each.name] for each in asked]))

    def _pull_beside(self) -> Pull:
        # What is waited for may be a suspect itself, or come behind one.
        # guard: what a suspect waits for may be a suspect
        held = 0
        # guard: beside a suspect comes only what is waited for
        types = self._asked_here()
        # What a look at every stream finds is for a turn that takes of all types.
        return Pull(types, 1, held, self._bell.scan, 0)

    def _has_room_for(self, agent_type: str) -> bool:
        if self._suspects.keep_room and agent_type not in self._places.asked:
            return False
        return self.room() > 0

    def _is_short(self) -> bool:
        """Whether there is no room although places are idle."""
        if self._boxes.is_draining or self._suspects.keep_room:
            return False
        return self._places.running < self._places.total and self.room() <= 0

    def _share(self) -> int:
        """How many deliveries may be held of each agent so that there is room for as many agents as there are places."""
        return max(1, min(PORTION, self._most // self._places.total))

    def wants_turn(self) -> bool:
        """Whether there may be something to take, and room for it."""
        return self.is_hungry and self.room() > 0

    def listen(self) -> None:
        """Waits for the bell, if the worker would take something. The event tells when it rang."""
        room = self.room()
        if room > 0:
            # A token for another type would be kept from those who take it.
            # guard: who makes room for a suspect hears no other bell
            types = self._asked_here() if self._suspects.keep_room else None
            self._bell.listen(self._pull_at_bell(room), types)

    def _pull_at_bell(self, room: int) -> Pull | None:
        # guard: a worker that holds something takes nothing with the bell
        if self._boxes.held or not self.types:
            return None
        return Pull(self._asked_for, room, 0, False, room)

    def take_brought(self) -> Brought | None:
        """The catch of the bell, once: the answer to a turn, or why there is none."""
        return self._bell.take()

    def look_everywhere(self) -> None:
        """Takes a turn that looks at every stream, where no token told of what the bell has brought."""
        # guard: a bell that nobody rang is no reason to look nowhere
        if self._bell.scan:
            self.nudge()

    async def settle_bell(self) -> None:
        """Waits for what the bell is about to bring."""
        await self._bell.settle()

    def next_pull(self) -> Pull:
        """The part of the next turn that asks for deliveries."""
        self._load.measure(self._loop.time())
        room = self.room()
        held = 0 if self._suspects.patience_is_over else self._boxes.held
        # While it makes room for a suspect, what waits behind its agents goes to others: a long queue would come after it
        # without end.
        accept = 0 if self._suspects.keep_room else room
        # guard: a worker is handed no more than it has room for
        if room <= 0:
            return Pull(self._asked_for, 0, held, False, 0)
        if self._suspects.keep_room:
            return self._pull_beside()
        scan, self._bell.scan = self._bell.scan, False
        each = room if self._active == 1 else math.ceil(room / self._active)
        return Pull(self._asked_for, each, held, scan, accept)

    # After a turn, or a handler

    def learn(self, turn: Turn, room: int) -> None:
        """Draws the conclusions from an answer to a turn that asked for so many; its deliveries are held by now."""
        if self._suspects.keep_room:
            # guard: what some types say of suspects is not true of all
            self._suspects.beside += turn.deliveries
        elif room > 0:
            self._suspects.heed(turn.suspects_wait and self._boxes.held > 0, turn.suspicion)
        brought = len(turn.deliveries)
        if brought:
            self._load.weigh(turn.deliveries)
            self._most = min(self._settings.prefetch, max(1, int(BYTES_AHEAD / self._load.typical_size)))
            # They share the room, or the first of them would get all of it. And what several of them get of one message is
            # read once when it comes at once.
            self._active = (
                len({delivery.raw_type for delivery in turn.deliveries}) if len(self.types) > 1 else 1
            )
        self.is_hungry = turn.more or brought >= room > 0
        # Twice as much with every turn that brings something, and after a turn that brings nothing what is handled in no
        # time: of a few deliveries each idle worker gets its share, and a long queue is soon taken in large portions.
        if self.is_hungry or brought:
            self._ramp = min(self._ramp * 2, self._most_at_once)
        elif room > 0:
            # Handlers that were quick may be slow now: no more than can begin at once, or the rest would wait behind them.
            # guard: what is taken at once has a place each
            soon = min(int(self._load.rate * SOON), self._places.of_any_type)
            self._ramp = max(1, min(soon, self._most_at_once))
        self._bell.due_in(self._next_look(turn))

    def handlers_begin(self) -> None:
        """Runners were told of what a turn has brought, and begin with it next."""
        self._pace.begin()
        self._fairness.begin()

    def _next_look(self, turn: Turn) -> float:
        """Seconds until there is something to do at the latest."""
        poll = self._settings.idle_poll
        if turn.next_due_ms is None:
            return poll
        return min(poll, max(0.001, (turn.next_due_ms - turn.server_ms) / 1000))

    def handler_ended(self) -> None:
        """A handler has ended, and its delivery is to be committed."""
        pace = self._pace
        self._load.completed += 1
        pace.ended += 1
        if monotonic() > pace.late_at and pace.blocks_others(self._unbegun()):
            # It would wait here while others may have nothing to do. Nothing of it has begun, so it counts no attempt.
            self._boxes.step_back(lambda _: True)
        if self._suspects.keep_room and self._boxes.held == len(self._boxes.finished):
            self._suspects.forget()
            self.is_hungry = True
        self._wake.set()

    def _unbegun(self) -> int:
        return self._boxes.held - len(self._boxes.finished) - self._places.running

    def _grown(self) -> None:
        """It may hold more than before: if it could take nothing, it looks for something."""
        if self.room() > 0:
            self._wake.set()

    # Other types, another incarnation, the end

    def add_types(self, types: Iterable[ConsumedType]) -> None:
        """Takes from these types as well, with the next turn."""
        self.types.update({each.name: each for each in types})
        self._asked_for = tuple(self.types.values())
        self._bell.scan = True
        self.nudge()

    async def listen_anew(self, known: list[str]) -> None:
        """Has the wait for the bell end that began when only these types were known."""
        await self._bell.listen_anew(known)

    def start_again(self) -> None:
        """Nothing is held any more, and nothing is known of what waits."""
        self._suspects.forget()
        self._bell.scan = True
        self.is_hungry = True

    def end(self) -> set[asyncio.Task[None]]:
        """Ends the timers and the wait for the bell; returns the tasks whose end is to be waited for."""
        self._suspects.forget()
        self._fairness.end()
        self._pace.end()
        return self._bell.end()


class Brought(NamedTuple):
    """The catch of the bell: a turn that waited there was carried out, or may have been.

    Attributes:
        turn: the answer to the turn that waited there, or why it is not known.
        room: how many deliveries of each type it asked for.
    """

    turn: Turn | Exception
    room: int


class Bell:
    """The bells of all agent types of a worker.

    Args:
        lane: the lane on which tokens come.
        types: the agent types by name; more may be added to it later.
        has_room: whether the worker would take a delivery of this agent type now.
        nudge: makes the worker take a turn.
        wake: makes it look for what was brought.
        longest_wait: seconds after which an idle worker looks by itself.

    Attributes:
        scan: the next turn is to look at every stream, for no token has told where there is something.
        brought: the turn that came with the bell, until it is taken.
    """

    def __init__(
        self,
        lane: Lane,
        types: Mapping[str, ConsumedType],
        has_room: Callable[[str], bool],
        nudge: Callable[[], None],
        wake: Callable[[], None],
        longest_wait: float,
    ) -> None:
        self._lane = lane
        self._types = types
        self._has_room = has_room
        self._nudge = nudge
        self._wake = wake
        self._longest_wait = longest_wait
        self._wait = longest_wait
        self._listening: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.scan = True
        self.brought: Brought | None = None

    def listen(self, pull: Pull | None = None, types: Iterable[ConsumedType] | None = None) -> None:
        """Waits for one token, unless that is under way. It goes on while turns are taken for other reasons.

        Args:
            pull: what to take with it.
            types: whose bells are heard; None: those of all types.
        """
        if self._listening is None:
            self._listening = self._loop.create_task(self._listen(pull, types), name="callboard-bell")
            # Not a `finally` in the task: one that is cancelled before its first step, because an agent type is added
            # just then, never gets there, and the worker would never listen again.
            self._listening.add_done_callback(self._has_ended)

    async def _listen(self, pull: Pull | None, types: Iterable[ConsumedType] | None) -> None:
        if pull is None:
            heard = list(self._types) if types is None else [each.name for each in types]
            rang = await self._lane.wait_for_bell(heard, self._wait)
        else:
            try:
                rang, turn = await self._lane.turn_at_bell(list(self._types), self._wait, pull)
            except Exception as error:  # whatever it is, the turn may have been carried out
                # guard: a turn at the bell that was not answered is asked after
                self.brought = Brought(error, 0)
                if not isinstance(error, BrokerError):
                    raise
                # One of the server's is told of where the turn is asked after, which may be before this task counts as done.
                rang, turn = "", None
            if turn is not None:
                self.brought = Brought(turn, pull.room)
        # The lost token: this worker listened, a turn that it took for another reason filled it, then the token
        # came, meant for one worker. Kept here it would wake no other one, although others may be idle.
        # guard: a full worker passes the token on
        if rang and self.brought is None and not self._has_room(rang):
            await self._lane.ring(rang)
        self.scan = self.scan or not rang
        # Here, and not when the task is done: that is known one round of the event loop later.
        self._listening = None
        self._tell()

    def _has_ended(self, listening: asyncio.Task[None]) -> None:
        if self._listening is not listening:
            return  # it has told so itself
        self._listening = None
        if not listening.cancelled() and (error := listening.exception()) is not None:
            logger.error("waiting for the bell failed, looking at every stream instead", exc_info=error)
            self.scan = True
        self._tell()

    def _tell(self) -> None:
        if self.brought is None:
            self._nudge()
        else:
            self._wake()

    def take(self) -> Brought | None:
        """The catch of the bell, once."""
        brought, self.brought = self.brought, None
        return brought

    async def settle(self) -> None:
        """Waits for what is on its way."""
        if self._listening is not None:
            await asyncio.wait({self._listening})

    async def listen_anew(self, known: list[str]) -> None:
        """Ends a wait that began when only these types were known, so that the next one hears all bells.

        A cancelled wait may lose a token: the server has taken it out of its list, and the answer is on its way. So
        the wait is ended by a token of our own. Without a type there was no bell to wait for.
        """
        if self._listening is None:
            return
        if known:
            await self._lane.ring(known[0])
        else:
            self._listening.cancel()

    def due_in(self, seconds: float) -> None:
        """Looks again when the next timer is due.

        The wait for a token ends by then, but that is not enough: it may have begun before this worker knew of the timer,
        and a server that is idle ends it up to 0.1 s late.
        """
        self._wait = seconds
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if seconds < self._longest_wait:
            self._alarm = self._loop.call_later(seconds, self._nudge)

    def end(self) -> set[asyncio.Task[None]]:
        """Stops listening; returns the task whose end is to be waited for, if there is one."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._listening is None:
            return set()
        self._listening.cancel()
        return {self._listening}


LATE = 0.1
"""Seconds: so late may the loop be before its handlers count as slow; about so much work is held then."""

LOOK_EVERY = 0.05
"""Seconds between two looks while something is held."""

MOST_UNBEGUN = 0.5
"""Seconds of work that may wait behind a handler that blocked; more than that goes back, for others to take."""


class Pace:
    """Measures how promptly the event loop comes back.

    Args:
        most: the largest width.
        is_busy: whether anything is held.
        on_wider: called when the width has grown.

    Attributes:
        width: how many deliveries the worker may hold now, without those whose handlers wait for a reply.
        ended: handlers that ended since the last look.
        late_at: from when on (`time.monotonic()`) the loop is late.
    """

    def __init__(self, most: int, is_busy: Callable[[], bool], on_wider: Callable[[], None]) -> None:
        self.width = 1
        self.ended = 0
        self._most = most
        self._is_busy = is_busy
        self._on_wider = on_wider
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._due = self.late_at = math.inf

    def begin(self) -> None:
        """A runner is about to begin with deliveries that have come; looked at is when the loop is back from there."""
        if self._next is not None and self.width == self._most:
            return
        self.end()
        self.ended = 0
        self._expect(monotonic())
        self._next = self._loop.call_soon(self._look)

    def end(self) -> None:
        """Looks no more, until deliveries come."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._expect(math.inf)

    def _expect(self, due: float) -> None:
        self._due, self.late_at = due, due + LATE

    def _look(self) -> None:
        now = monotonic()
        late = now - self._due
        if late > LATE:
            self.width = max(1, min(self.width, int(self.ended * LATE / late)))
        elif self.width < self._most:
            self.width = min(2 * self.width, self._most)
            self._on_wider()
        self.ended = 0
        self._next = None
        self._expect(math.inf)
        if self._is_busy():
            self._expect(now + LOOK_EVERY)
            self._next = self._loop.call_later(LOOK_EVERY, self._look)

    def blocks_others(self, unbegun: int) -> bool:
        """A handler has ended: whether it blocked the loop, and so many would wait too long behind others like it."""
        late = monotonic() - self._due
        return late > LATE and unbegun * late > MOST_UNBEGUN * self.ended


LOOK_AT_QUEUES_EVERY = 0.4
"""Seconds between two looks while something is held.

What waited from one look to the next waits long. Much longer than a turn takes, so that of fast handlers nothing goes back,
and short for those who wait for room.
"""

LOOK_AGAIN = 0.05
"""Seconds until the look after one that has parked something: the next agent with a long queue may have come instead."""


class Fairness:
    """Looks for agents whose queue keeps the worker from others, and has what waits behind them parked.

    Args:
        boxes: what the worker holds.
        is_short: the worker would take more than it has room for, and has idle places.
        share: deliveries that it keeps of each agent. No more than a portion, or what was parked would hardly come back.
        wake: makes the consumer take a turn.
    """

    def __init__(
        self,
        boxes: Mailboxes,
        is_short: Callable[[], bool],
        share: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._boxes = boxes
        self._is_short = is_short
        self._share = share
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None
        self._pause = LOOK_AT_QUEUES_EVERY
        self._last: dict[Mailbox, Delivery] = {}

    def begin(self) -> None:
        """Deliveries have come; looks until nothing is held any more."""
        if self._next is None:
            self._next = self._loop.call_later(self._pause, self._look)

    def end(self) -> None:
        """Looks no more, until deliveries come."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._last.clear()

    def _look(self) -> None:
        self._next = None
        share = self._share()
        long = {box: box.queue[-1] for box in self._boxes if box.task is not None and len(box.queue) > share}
        if not self._is_short():
            self._pause = LOOK_AT_QUEUES_EVERY
        elif waited := [box for box in long if self._has_waited(box)]:
            self._pause = LOOK_AGAIN
            for box in waited:
                self._boxes.park(box, share)
            self._wake()
        self._last = long
        if self._boxes.held:
            self.begin()

    def _has_waited(self, box: Mailbox) -> bool:
        """Whether what was its last delivery at the look before has not begun yet.

        Looked at are handlers that wait for something. One that only computes is not seen at work here: it keeps the whole
        worker busy, whose places are idle only as it seems.
        """
        last = self._last.get(box)
        return last is not None and last in islice(box.queue, 1, None)
