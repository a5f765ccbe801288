"""Another agent type on one topic of the model: its subscription ends and begins again, its group vanishes.

It reads a single topic, so that its order is that of the stream, whenever it subscribes.
"""

from __future__ import annotations

from callboard.broker.envelope import Delivery
from callboard.broker.mailbox import ConsumedType, Pull, Turn
from callboard.broker.outcome import Commit
from tests.helpers.commits import Done, as_done

from .agreement import read_of
from .bus import LEASE, Bus, Photo, at_once
from .reference import Item

AUDIT = "audit"
VISITS = "topic:visits"
HANDLED = Commit(None, None, (), None, None)


class Audit:
    """What it promises.

    Attributes:
        queues: for each agent key the messages that are to be handled, in order.
        missed: what is not to be given to it, because it does not subscribe; until it does again.
        subscribes: whether what is published is for it.
        holder: the worker that was given messages of a key; count: how many.
    """

    def __init__(self) -> None:
        self.queues: dict[str, list[str]] = {}
        self.missed: list[tuple[str, str]] = []
        self.subscribes = True
        self.holder: dict[str, str] = {}
        self.count: dict[str, int] = {}

    def publish(self, item: Item) -> None:
        """A message for whatever stream."""
        if item.stream != VISITS:
            return
        if self.subscribes:
            self.queues.setdefault(item.key, []).append(item.id)
        else:
            self.missed.append((item.id, item.key))

    def leave(self, unread: list[str]) -> None:
        """It ends its subscription; what was read for it is still handled."""
        self.subscribes = False
        keys = {message: key for key, queue in self.queues.items() for message in queue}
        for message in unread:
            self.queues[keys[message]].remove(message)
        self.missed = [(message, keys[message]) for message in unread]

    def come_back(self, there: set[str]) -> None:
        """It goes on where it was, with what is still there."""
        self.subscribes = True
        for message, key in self.missed:
            if message in there:
                self.queues.setdefault(key, []).append(message)
        self.missed = []

    def give(self, worker: str, message: str, key: str) -> None:
        """A worker was given a message: the next one of a key that nobody else holds."""
        assert self.holder.setdefault(key, worker) == worker, f"{key} is held by {self.holder[key]}"
        place, queue = self.count.get(key, 0), self.queues.get(key, [])
        assert queue[place : place + 1] == [message], f"{message} of {key} was given, of {queue[place:]}"
        self.count[key] = place + 1

    def end(self, message: str, key: str) -> None:
        """The first message that was given of a key is handled."""
        assert self.queues[key].pop(0) == message
        self.count[key] -= 1
        if not self.count[key]:
            del self.count[key], self.holder[key]

    @property
    def unfinished(self) -> set[str]:
        """Messages that somebody still needs."""
        return {message for queue in self.queues.values() for message in queue}


class Auditor:
    """One worker of the type.

    Attributes:
        held: what it was given, by agent key, in order.
    """

    def __init__(self, bus: Bus, audit: Audit) -> None:
        self._bus = bus
        self._audit = audit
        self._lane = bus.lane()
        at_once(self._lane.join([AUDIT]))
        self.held: dict[str, list[Delivery]] = {}

    def turn(self, key: str = "", *, count: int = 0, paused: bool = False, scan: bool = True) -> None:
        """Ends the first message of a key, takes up to so many; nothing new may come while the topic is paused.

        Without `scan` it waits at a bell if it holds nothing: both are how a worker takes what comes alone.
        """
        done: list[Done] = []
        if key:
            delivery = self.held[key].pop(0)
            done.append(as_done(delivery, HANDLED, not self.held[key], self._bus.settings.dedupe_window))
            self._audit.end(delivery.envelope.id, key)
            if not self.held[key]:
                del self.held[key]
        total = sum(map(len, self.held.values()))
        types = [ConsumedType(AUDIT, persistent=False)] if count else []
        pull = Pull(types, count, total, scan, 100)
        is_idle = not (scan or done or total) and count > 0
        turn = self._at_bell(pull) if is_idle else at_once(self._lane.commit_and_pull(done, pull))
        assert not (paused and turn.deliveries), "it is paused"
        for one in turn.deliveries:
            self._audit.give(self._lane.worker, one.envelope.id, one.raw_key.decode())
            self.held.setdefault(one.raw_key.decode(), []).append(one)

    def _at_bell(self, pull: Pull) -> Turn:
        lane = self._lane
        lane._calls += 1
        turn = lane._turn_of(lane._calls, self._bus.run("turn", *lane._arguments_at_bell(lane._calls, pull)))
        assert turn is not None, "a turn at the bell was refused"
        return turn

    def beat(self, retain: int) -> None:
        """Trims what all groups have handled."""
        arguments = (self._lane.worker, int(LEASE * 1000), retain, 100_000, 0, 0)
        assert self._bus.run("beat", *arguments)[:1] == [b"OK"]


class Auditing:
    """The type beside the others: two workers, and what becomes of its subscription."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.audit = Audit()
        self._subscribe()
        self.workers = [Auditor(bus, self.audit), Auditor(bus, self.audit)]

    def _subscribe(self) -> None:
        self.bus.run("declare", 1, 1, AUDIT, "{}", 1, AUDIT, "topic", VISITS.partition(":")[2], "")

    def change(self) -> None:
        """Its subscription ends, or begins again."""
        photo = self.bus.photo()
        stream = photo.streams.get(VISITS)
        entries = (
            {} if stream is None else {at: fields["id"].decode() for at, fields in stream.entries.items()}
        )
        if not self.audit.subscribes:
            self._subscribe()
            self.audit.come_back(set(entries.values()))
            return
        group = stream.groups.get(AUDIT) if stream is not None else None
        position = group.cursor if group else photo.hash(f"cursor:{AUDIT}").get(VISITS, "0-0")
        self.audit.leave([message for at, message in entries.items() if _order(at) > _order(position)])
        assert self.bus.run("unsubscribe", AUDIT, "topic", VISITS.partition(":")[2]) == 1

    def lose_group(self) -> None:
        """Somebody destroys its consumer group."""
        self.bus.wire.call(("XGROUP", "DESTROY", self.bus.keys.of(VISITS), AUDIT))

    def check(self, photo: Photo) -> None:
        """What is to be handled is there, and pending once it was read; nothing else is pending."""
        stream = photo.streams.get(VISITS)
        if stream is None:
            assert not self.audit.unfinished
            return
        ids = {at: fields["id"].decode() for at, fields in stream.entries.items()}
        assert self.audit.unfinished <= set(ids.values()), "trimmed, but not handled by the other type"
        group = stream.groups.get(AUDIT)
        if group is None:
            return
        handled = {ids.get(at, at) for at in group.pending} - self.audit.unfinished
        assert not handled, "pending for the other type, but handled"
        assert read_of(photo, AUDIT) <= {f"{VISITS} {at}" for at in group.pending}, "read, but not pending"

    def drain(self, turns: int = 200) -> None:
        """Everything that it has in hand, or subscribes to, is handled."""
        for _ in range(turns):
            for worker in self.workers:
                worker.turn(next(iter(worker.held), ""), count=8)
            if not self.audit.unfinished:
                break
        assert not self.audit.unfinished, "lost by the other type"
        for worker in self.workers:
            worker.turn(count=8)
            assert not worker.held
            worker.beat(0)
        assert self.bus.command("EXISTS", "leaving") == 0, "its group would stay for ever"


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number)
