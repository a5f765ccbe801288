"""How much a worker takes, and when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from callboard.broker.delivery import Delivery
from callboard.broker.settings import BrokerSettings

from .bell import Bell, Brought
from .fairness import PORTION, Fairness
from .interfaces import ConsumedType, Lane, Pull, Turn
from .mailbox import Mailboxes
from .pace import Pace
from .places import Places

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


class Load:
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


class Intake:
    """Decides what the next turn asks for, and whether there is a reason for one.

    While a suspect is tried alone, or room is made for one, a handler may wait for the reply of an agent that this very
    worker has to handle: nobody else may work for that type. Kept waiting, its request would time out as often as it is
    tried, and what harms nobody would become a dead letter. So for each handler that waits one message is taken, of the
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
        self._load = Load()
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
        """What the bell has brought, once: the answer to a turn, or why there is none."""
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
