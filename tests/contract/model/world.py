"""The real bus and the reference side by side: whatever is done is done to both, and both have to agree after it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from callboard.broker.envelope import Delivery, Envelope, Posting
from callboard.broker.errors import CommandError, ConnectionLostError, FencedError
from callboard.broker.mailbox import ConsumedType, Pull, Turn
from callboard.broker.outcome import (
    Commit,
    DeadLetter,
    ErrorInfo,
    LogChange,
    Outcome,
    Release,
    Retry,
    RunEvent,
    RunWrite,
    Suspend,
)
from callboard.broker.redis.client.lane import WorkerLane
from tests.helpers.commits import Done, as_done

from .agreement import check, timer_names
from .audit import Auditing
from .bus import LEASE, Bus, at_once, publish_arguments
from .hand import Hand, Held, Waiting
from .questions import OPEN
from .reference import AGENT_TYPE, EFFECTS, KEPT, LOG, NO_STATE, RUN, Ending, Item, Letter, Reference, Sent

STREAMS = ("topic:visits", "topic:orders", f"inbox:{AGENT_TYPE}")
KEYS = ("a", "b", "c")
LATER = 10**9  # ms until a timer would fire by itself; tests say when its time has come
PAUSE = 10.0**6  # seconds of backing off, likewise
UNKNOWN = -1  # calls of a worker of which the server has forgotten that it joined
EVERYTHING_GOES = -100  # entries to retain so that whatever may be trimmed is trimmed
REQUEST = b"\x81\xa1k\xa7request"  # head of a message for whose reply a caller waits
FAR = "9000000000000-0"  # a clock of ids that is ahead of time gives the same ids in every run

CONSUMED_TYPE = ConsumedType(AGENT_TYPE, persistent=True)


def _written(id: str) -> RunWrite:
    """What the commit of a message writes to a run."""
    return RunWrite(RUN, (RunEvent("Note", 1, id.encode()),), 1_000_000, LATER)


class Kept(NamedTuple):
    """A moment that the world may be thrown back to: what the server held, and what was true then."""

    server: list[Any]
    reference: Reference
    hands: dict[str, Hand]
    batch: int
    replayed: list[bytes]


class World:
    """One namespace with its reference.

    Args:
        bus: the namespace, empty.
        keys: agent keys.
        limit: attempts.
        same_ids: the server gives the same ids in every run.
        audited: another agent type reads one of the topics, too.
    """

    def __init__(
        self,
        bus: Bus,
        keys: Iterable[str] = KEYS,
        limit: int = 3,
        same_ids: bool = False,
        audited: bool = False,
    ) -> None:
        self.bus = bus
        self.reference = Reference(keys, limit)
        self.auditing: Auditing | None = None
        self.hands: list[Hand] = []
        self.gone: list[Hand] = []
        self.batch = 0
        self.sent: tuple[list[Any], list[Any]] | None = None
        self.replayed: list[bytes] = []
        self.kept: Kept | None = None
        if same_ids:
            bus.command("SET", "clock", FAR)
        subscriptions = [(AGENT_TYPE, "topic", name, "") for name in ("visits", "orders")]
        flat = [value for subscription in subscriptions for value in subscription]
        bus.run("declare", 1, 1, AGENT_TYPE, f'{{"max_attempts": {limit}}}', len(subscriptions), *flat)
        if audited:
            self.auditing = Auditing(bus)
            self.reference.audit = self.auditing.audit

    def fork(self) -> World:
        """The same place for another future; the server's part is the caller's to copy."""
        made = World.__new__(World)
        made.bus, made.batch, made.sent, made.replayed = self.bus, self.batch, self.sent, list(self.replayed)
        made.reference, made.kept, made.auditing = self.reference.copy(), self.kept, None
        made.hands = [hand.copy() for hand in self.hands]
        made.gone = [hand.copy() for hand in self.gone]
        return made

    def check(self) -> None:
        """The server holds what the reference says."""
        known = [hand.behind or hand for hand in self.hands]
        photo = self.bus.photo()
        check(self.reference, {hand.name: hand.everything for hand in known}, photo)
        if self.auditing is not None:
            self.auditing.check(photo)

    # Publishing

    def publish(self, *messages: Sent) -> None:
        """One batch."""
        self.batch += 1
        arguments = publish_arguments(
            self.bus.settings, "producer", self.batch, [posting(m) for m in messages]
        )
        answer = self.bus.run("publish", *arguments)
        statuses = {int(answer[i]): answer[i + 1].decode() for i in range(2, len(answer), 2)}
        expected = {i: self.reference.publish(one) for i, one in enumerate(messages)}
        assert statuses == {i: status for i, status in expected.items() if status}
        self.sent = (arguments, [int(one) if i % 2 else one for i, one in enumerate(answer[2:], 1)])

    def publish_again(self) -> None:
        """The answer was lost and the batch is sent again: nothing is added, the answer is the same."""
        if self.sent is None:
            return
        arguments, statuses = self.sent
        again = self.bus.run("publish", *arguments)
        assert [int(one) if i % 2 else one for i, one in enumerate(again[2:], 1)] == statuses

    def publish_late(self) -> None:
        """A copy of a batch that a later one has overtaken arrives: nothing is added, and nobody takes it for added."""
        if self.sent is not None and self.batch > 1:
            arguments = [self.sent[0][0], self.batch - 1, *self.sent[0][2:]]
            with pytest.raises(CommandError, match="OVERTAKEN"):
                self.bus.run("publish", *arguments)

    # Workers

    def join(self) -> Hand:
        lane = self.bus.lane()
        at_once(lane.join([AGENT_TYPE]))
        hand = Hand(lane.worker)
        self.hands.append(hand)
        return hand

    def lane_of(self, hand: Hand) -> WorkerLane:
        """Its lane, as it is before its next call."""
        lane = self.bus.lane(hand.name, hand.calls, hand.acknowledged)
        lane._at_bell = hand.at_bell
        return lane

    def turn(
        self,
        hand: Hand,
        endings: Mapping[str, Sequence[Ending]] | None = None,
        *,
        count: int = 0,
        accept: bool = True,
        scan: bool = True,
        lost: bool = False,
    ) -> None:
        """One turn: ends the first messages of some keys, takes up to `count`.

        Args:
            hand: the worker.
            endings: for each agent key how its first messages end.
            count: entries wanted.
            accept: takes what is parked behind a key that is free now.
            scan: looks at all streams.
            lost: the answer does not arrive.
        """
        done = self._end(hand, endings or {})
        self.reference.fire()
        suspects = {key for key in self.reference.queues if self.reference.is_suspect(key)}
        is_one_listed = bool(suspects and self.bus.command("LLEN", f"suspects:{AGENT_TYPE}"))
        held = hand.total
        lane = self.lane_of(hand)
        pull = Pull([CONSUMED_TYPE] if count else [], count, held, scan, 100 if accept else 0)
        hand.last = ("turn", *lane_arguments(lane, done, pull))
        hand.served = lane._calls + 1
        turn = at_once(lane.commit_and_pull(done, pull))
        hand.calls, hand.at_bell = lane._calls, lane._at_bell
        if not lost:
            hand.acknowledged = hand.served
            assert turn.is_second == (hand.unread is not None), "it does not know what its bell has brought"
        if turn.is_second:
            self.hear(hand)
        hand.hear_all()
        self._given(hand, turn, count, suspects, held)
        if count and is_one_listed and not self.reference.paused:
            assert turn.suspects_wait, "the worker is not told that a suspect waits"
        hand.unsure = lost

    # The bell

    def wait(self, hand: Hand, count: int) -> None:
        """A worker that holds nothing leaves a turn at its bell."""
        lane = self.lane_of(hand)
        pull = Pull([CONSUMED_TYPE], count, 0, False, count)
        hand.calls = lane._calls = lane._calls + 1
        hand.waiting = Waiting(hand.calls, ("turn", *lane._arguments_at_bell(hand.calls, pull)), count)
        hand.at_bell = hand.calls

    def ring(self, hand: Hand, *, is_heard: bool = True) -> None:
        """The server comes to the turn that waits at the bell of a worker.

        Args:
            hand: the worker.
            is_heard: the worker reads the answer before it does anything else.
        """
        assert hand.waiting is not None
        (number, call, count), hand.waiting = hand.waiting, None
        lane = self.lane_of(hand)
        if hand.served >= number:
            assert self.bus.run(*call) == [b"STALE"], "a turn at the bell was carried out that was overtaken"
            hand.at_bell = None
            return
        self.reference.fire()
        suspects = {key for key in self.reference.queues if self.reference.is_suspect(key)}
        assert hand.unsure or lane._is_awaited(number, hand.name)
        turn = lane._turn_of(number, self.bus.run(*call))
        assert turn is not None, "a turn at the bell was refused"
        hand.served = hand.brought = number
        if is_heard and not hand.unsure:
            hand.acknowledged, hand.at_bell = number, None
        elif not hand.unsure:
            hand.unread = {}
        self._given(hand, turn, count, suspects, 0, hand.unread)
        assert not suspects & hand.everything.keys(), "a suspect came with a bell"

    def hear(self, hand: Hand) -> None:
        """A worker reads what came with its bell."""
        hand.hear_all()
        hand.acknowledged, hand.at_bell = max(hand.acknowledged, hand.brought), None

    def _end(self, hand: Hand, endings: Mapping[str, Sequence[Ending]]) -> list[Done]:
        """Ends messages as a consumer would: what is held behind one that goes back goes back too."""
        done: list[Done] = []
        for key, its_endings in endings.items():
            ended, goes_back = list(its_endings), its_endings[-1].how in "RLU"
            rest = hand.held[key][len(ended) :] if goes_back else []
            for ending in [*ended, *(Ending("L") for _ in rest)]:
                delivery = hand.held[key].pop(0)
                item = self._item(delivery)
                is_last = not hand.held[key] or (goes_back and len(hand.held[key]) <= len(rest))
                outcome = self._outcome(item, delivery, ending)
                done.append(as_done(delivery, outcome, is_last, self.bus.settings.dedupe_window))
                self.reference.end(hand.name, item, ending)
            if not hand.held[key]:
                del hand.held[key]
        return done

    def _item(self, delivery: Delivery) -> Item:
        queue = self.reference.queues[delivery.raw_key.decode()]
        return next(item for item in queue if item.id == delivery.envelope.id)

    def _outcome(self, item: Item, delivery: Delivery, ending: Ending) -> Outcome:
        if ending.how == "D":
            return DeadLetter("failed", ErrorInfo("ValueError", "no"))
        if ending.how == "R":
            return Retry(PAUSE, "no")
        if ending.how == "L":
            return Release("no")
        if ending.how == "U":
            return Suspend(item.id, tuple(self.reference.questions.of(item.id)))
        before = self.reference.states.get(item.key, NO_STATE)
        state, logs = None, None
        if ending.state is not None:
            state = (before.version + 1, ending.state)
            dropped = max(0, len(before.said) + 1 - KEPT)
            logs = (before.version + 1, (LogChange(LOG, dropped, (ending.state,)),))
        answer = Envelope(item.id, "Note", "", None, 0, b"", "reply")
        reply = Posting(answer, f"reply:{ending.reply}", 0, item.id if item.asked else "")
        return Commit(
            reply if ending.reply else None,
            state,
            tuple(posting(sent) for sent in ending.outgoing),
            item.id if item.id in self.reference.once else None,
            item.id if item.asked else None,
            logs=logs,
            events=(_written(item.id),) if ending.outgoing else (),
        )

    def _given(
        self,
        hand: Hand,
        turn: Turn,
        count: int,
        suspects: set[str],
        held: int,
        unread: Held | None = None,
    ) -> None:
        before = {key: self.reference.states.get(key, NO_STATE) for key in self.reference.queues}
        for one in turn.deliveries:
            key = one.raw_key.decode()
            item = self.reference.give(hand.name, one.envelope.id, key, one.attempt)
            assert one.stream.decode() == item.stream
            assert one.is_cancelled == (item.asked and item.id in self.reference.cancelled)
            state = before[key]
            if count:
                assert one.state_version == state.version
                assert one.state == (None if state.writer == hand.name else state.data)
            (hand.held if unread is None else unread).setdefault(key, []).append(one)
            if key in suspects:
                assert not held, "a suspect came to a worker that holds something"
                assert len(turn.deliveries) == 1, "a suspect did not come alone"

    def turn_again(self, hand: Hand) -> None:
        """A copy of its last turn arrives: it is refused and nothing is written."""
        if hand.last is not None:
            assert self.bus.run(*hand.last) == [b"STALE"]

    def resync(self, hand: Hand) -> None:
        """After a lost answer: what it holds, in order. A turn that was under way arrives later and is refused."""
        late = hand.calls
        hand.hear_all()
        lane = self.bus.lane(hand.name, hand.calls + 1, hand.acknowledged)
        found: dict[str, list[Delivery]] = {}
        for one in at_once(lane.resync()):
            found.setdefault(one.raw_key.decode(), []).append(one)
        shown = {
            key: [(one.entry, one.attempt, one.envelope.body) for one in held] for key, held in found.items()
        }
        assert shown == {
            key: [(one.entry, one.attempt, one.envelope.body) for one in held]
            for key, held in hand.held.items()
        }
        with pytest.raises(ConnectionLostError):
            at_once(self.bus.lane(hand.name, late).turn([], Pull([CONSUMED_TYPE], 5, 0, True, 100)))
        hand.calls = hand.acknowledged = hand.served = lane._calls
        hand.unsure, hand.held, hand.at_bell = False, found, None

    def beat(self, hand: Hand) -> int:
        """Returns how many workers it reaped."""
        self.reference.fire()
        answer = self.bus.run(
            "beat", hand.name, int(LEASE * 1000), EVERYTHING_GOES, 100_000, 0, 0, hand.acknowledged
        )
        assert answer[0] == b"OK"
        hand.told = hand.acknowledged
        return int(answer[2])

    def crash(self, hand: Hand, by: Hand | None) -> None:
        """A worker stops; its lease ends and another one's beat reaps it, or its supervisor says so."""
        self._remove(hand)
        # Who is only silent may have stood still since before its bell rang.
        self.reference.lose(hand.name, is_crash=True, has_begun=by is None or not hand.has_not_heard)
        if by is None:
            assert self.bus.run("leave", "1", "1", hand.name) == 1
        else:
            self.bus.command("ZADD", "workers", 1, hand.name)
            assert self.beat(by) == 1

    def leave(self, hand: Hand) -> None:
        """A worker goes in peace."""
        self._remove(hand)
        self.reference.lose(hand.name, is_crash=False)
        at_once(self.lane_of(hand).leave())

    def _remove(self, hand: Hand) -> None:
        self.hands.remove(hand)
        self.gone.append(hand)

    def zombie(self, hand: Hand) -> None:
        """A worker that was reaped wakes up and goes on as if nothing had happened: all of it is refused."""
        held = [one for deliveries in hand.held.values() for one in deliveries]
        sent = Envelope("zombie", "Note", "a", None, 0, b"")
        state, reply = (10_000, b"zombie"), Posting(sent, "reply:zombie")
        outcome = Commit(reply, state, (Posting(sent, EFFECTS),), "zombie", events=(_written("zombie"),))
        done = [as_done(one, outcome, True, 60.0) for one in held]
        for work in (
            self.lane_of(hand).commit_and_pull(done, Pull([CONSUMED_TYPE], 5, 0, True, 100)),
            self.lane_of(hand).resync(),
        ):
            with pytest.raises(FencedError):
                at_once(work)
        assert self.bus.run("beat", hand.name, 60_000, 0, 1000, 0, 0) == [b"FENCED"]
        for call in (hand.last, hand.waiting and hand.waiting.call):
            assert call is None or self.bus.run(*call) == [b"FENCED"]
        for one in held:
            self._handler_of_zombie(one)

    def _handler_of_zombie(self, delivery: Delivery) -> None:
        """Its handler sends and records what it would have before its commit."""
        message = delivery.envelope.id
        step = (*delivery.fence, AGENT_TYPE, message, "pay")
        assert self.bus.run("recall", *step) == [b"FENCED"]
        assert self.bus.run("record", *step, "zombie", 60_000) == [b"FENCED"]
        assert self.bus.run("ask", *delivery.fence, *_question(message, "zombie", "a")) == [b"FENCED"]
        once = f">{AGENT_TYPE}:{message}|zombie"
        ask = posting(Sent(Item("zombie", "a", EFFECTS), once=once, waiting="zombie", fence=delivery.fence))
        arguments = publish_arguments(self.bus.settings, "zombie", 1, [ask])
        assert self.bus.run("publish", *arguments)[3] == b"fenced"
        self.bus.command("DEL", "sent:zombie")

    def overtaken(self, hand: Hand) -> None:
        """A turn that a later call has overtaken does not look like one that was carried out."""
        with pytest.raises(ConnectionLostError):
            at_once(self.bus.lane(hand.name, max(hand.served - 1, -1)).turn([], Pull([], 0, 0, True, 100)))

    # A server that loses a tail

    def keep(self) -> None:
        """What happens from here on may be lost."""
        known = [hand.behind or hand for hand in self.hands]
        self.kept = Kept(
            self.bus.keep(),
            self.reference.copy(),
            {hand.name: hand.copy() for hand in known if hand.calls != UNKNOWN},
            self.batch,
            list(self.replayed),
        )

    def lose_tail(self) -> None:
        """The server forgets all that happened since; the workers and the publisher do not."""
        if self.kept is None:
            return
        kept, self.kept = self.kept, None
        self.bus.put_back(kept.server)
        self.reference, self.replayed = kept.reference, kept.replayed
        if self.batch != kept.batch:
            self.sent = None  # answered, and lost: nobody sends it again
        for hand in self.hands:
            hand.hang_up()
            self._throw_back(hand, kept.hands.get(hand.name))
        for name in kept.hands.keys() - {hand.name for hand in self.hands}:
            # It is dead, has left or begun anew since; for the server its lease ends once more.
            self.reference.lose(name, is_crash=True)
            assert self.bus.run("leave", "1", "1", name) == 1

    @staticmethod
    def _throw_back(hand: Hand, then: Hand | None) -> None:
        """What becomes of a worker that the server knows as it was then, or not at all."""
        if then is None or hand.behind is not None or hand.acknowledged > then.served:
            hand.behind = then or Hand(hand.name, UNKNOWN)
        else:  # it was answered nothing since, and only has to ask whether its last call was carried out
            hand.calls, hand.held, hand.last = max(hand.calls, then.calls), then.everything, then.last
            hand.served, hand.brought, hand.told = then.served, then.brought, then.told

    def hears(self, hand: Hand, how: str) -> None:
        """A worker that knows more than the server makes a call: it is fenced, and what it held there goes back.

        Args:
            hand: the worker.
            how: the call: "turn", "beat" or "resync".
        """
        assert hand.behind is not None
        if how == "beat":
            arguments = (int(LEASE * 1000), EVERYTHING_GOES, 100_000, 0, 0, hand.acknowledged)
            assert self.bus.run("beat", hand.name, *arguments) == [b"FENCED"]
        else:
            with pytest.raises(FencedError):
                at_once(self.lane_of(hand).resync() if how == "resync" else self._everything(hand))
        self.reference.lose(hand.name, is_crash=False)
        self._remove(hand)

    def _everything(self, hand: Hand) -> Coroutine[Any, Any, Turn]:
        """A turn that commits all that it believes to hold, with effects, and would take more."""
        sent = Envelope("zombie", "Note", "a", None, 0, b"")
        reply, sends = Posting(sent, "reply:zombie"), (Posting(sent, EFFECTS),)
        outcome = Commit(reply, (10_000, b"zombie"), sends, events=(_written("zombie"),))
        done = [as_done(one, outcome, True, 60.0) for held in hand.held.values() for one in held]
        return self.lane_of(hand).commit_and_pull(done, Pull([CONSUMED_TYPE], 5, 0, True, 100))

    # What handlers do before their commit

    def record(self, hand: Hand, key: str, name: str) -> None:
        """ctx.once keeps a result, and finds it again."""
        delivery = hand.held[key][0]
        message, step = delivery.envelope.id, (*delivery.fence, AGENT_TYPE, delivery.envelope.id, name)
        known = self.reference.once.get(message, {}).get("." + name)
        assert self.bus.run("recall", *step) == [b"OK", None if known is None else known.encode()]
        assert self.bus.run("record", *step, f"{message} {name}", 60_000)[0] == b"OK"
        self.reference.once.setdefault(message, {})["." + name] = f"{message} {name}"

    def send_now(self, hand: Hand, key: str, name: str) -> None:
        """A handler sends before its commit: however often it runs, the message leaves once."""
        delivery = hand.held[key][0]
        message = delivery.envelope.id
        sent_id = f"{message}!{name}"
        once = f">{AGENT_TYPE}:{message}|{sent_id}"
        self.publish(Sent(Item(sent_id, key, EFFECTS), once=once, fence=delivery.fence))

    def ask(self, hand: Hand, key: str, name: str) -> None:
        """ctx.ask: however often the handler runs, the question is asked once."""
        delivery = hand.held[key][0]
        message, names = delivery.envelope.id, self.reference.once.setdefault(delivery.envelope.id, {})
        question = f"{message}?{name}"
        self.reference.questions.ask(question, "?" + name in names)
        names["?" + name] = question
        found = self.bus.run("ask", *delivery.fence, *_question(message, name, key))
        assert found[:2] == [b"OK", self.reference.questions.status[question].encode()]

    def answer(self, question: str) -> None:
        """Somebody answers; only the first answer counts."""
        status = self.reference.questions.status[question]
        found = self.bus.run("input", "answered", question, '"yes"', "ada")
        assert found[0] == (b"OK" if status == OPEN else status.encode())
        if status == OPEN:
            self.reference.questions.answer(question)

    def cancel(self, message: str) -> None:
        """Somebody cancels a request: nothing of it may happen from now on."""
        assert self.bus.run("control", "cancel", message, FAR.partition("-")[0]) == 1
        self.reference.cancelled.add(message)
        self.reference.questions.wake(message)

    def pause(self, kind: str, name: str) -> None:
        """Somebody pauses a type, an agent or a topic."""
        is_new = f"{kind} {name}" not in self.reference.paused
        assert self.bus.run("control", "pause", kind, name, "somebody") == is_new
        self.reference.paused.add(f"{kind} {name}")

    def resume(self, kind: str, name: str) -> None:
        """Somebody lets it go on."""
        is_there = f"{kind} {name}" in self.reference.paused
        assert self.bus.run("control", "resume", kind, name, "somebody") == is_there
        self.reference.paused.discard(f"{kind} {name}")

    def resume_all(self) -> None:
        for target in sorted(self.reference.paused):
            kind, _, name = target.partition(" ")
            self.resume(kind, name)

    # The other type

    def audit(self, worker: int, *, count: int, ends: bool, scan: bool) -> None:
        """A turn of one of its workers."""
        assert self.auditing is not None
        self.reference.fire()
        auditor = self.auditing.workers[worker]
        key = next(iter(auditor.held), "") if ends else ""
        auditor.turn(key, count=count, paused="topic visits" in self.reference.paused, scan=scan)

    def audit_beats(self) -> None:
        """One of its workers trims."""
        assert self.auditing is not None
        self.reference.fire()
        self.auditing.workers[0].beat(EVERYTHING_GOES)

    # Time, repairs, accidents

    def ripen(self, member: str) -> None:
        """The time of a timer has come; the next turn or beat fires it."""
        name = timer_names(self.bus.photo()).get(member.removeprefix("m|"), member)
        assert self.bus.command("ZADD", "timers", "XX", "CH", 1, name) == 1
        self.reference.ripe.add(member)

    def replay(self, letter: Letter) -> None:
        """Sends a dead letter again, with the head that it had: a request stays one."""
        letter_id, head = self._letter_id(letter), REQUEST if letter.item.asked else b""
        assert self.bus.run("replay", AGENT_TYPE, "replay", letter_id, head) == [letter_id, b"done"]
        self.replayed.append(letter_id)
        self.reference.replay(letter)

    def _letter_id(self, letter: Letter) -> bytes:
        for letter_id, fields in self.bus.photo().streams[f"dead:{AGENT_TYPE}"].entries.items():
            if fields["id"].decode() == letter.item.id:
                return letter_id.encode()
        raise AssertionError(f"there is no letter of {letter.item.id}")

    def replay_again(self) -> None:
        """A letter that was sent again is gone."""
        for letter_id in self.replayed:
            assert self.bus.run("replay", AGENT_TYPE, "replay", letter_id, b"") == [letter_id, b"gone"]

    def lose_group(self, stream: str) -> None:
        """Somebody destroys the consumer group of a stream."""
        self.bus.wire.call(("XGROUP", "DESTROY", self.bus.keys.of(stream), AGENT_TYPE))

    # The end

    def drain(self, turns: int = 400) -> None:
        """Whatever happened: a last worker finishes everything, and nothing is left over."""
        self.resume_all()
        for hand in list(self.hands):
            if hand.behind is None:
                self.leave(hand)
            else:
                self.hears(hand, "turn")
        last = self.join()
        for _ in range(turns):
            for member in self.reference.waits() - self.reference.ripe:
                self.ripen(member)
            for question in self.reference.questions.open():
                self.answer(question)
            self.turn(last, {key: [Ending("C")] * len(held) for key, held in last.held.items()}, count=8)
            if self.reference.is_done and not last.held:
                break
        assert self.reference.is_done, "lost"
        self.turn(last, count=8)
        if self.auditing is not None:
            self.auditing.drain()
        self.check()
        check_empty(self.bus)


def _question(message: str, name: str, key: str) -> tuple[Any, ...]:
    """What the function `ask` takes, behind the fence."""
    return AGENT_TYPE, message, name, f"{message}?{name}", "", 60_000, 2, "key", key


def posting(sent: Sent) -> Posting:
    """A message as the publisher hands it in."""
    item = sent.item
    envelope = Envelope(item.id, "Note", item.key, None, 0, item.id.encode())
    if item.asked:
        envelope = envelope._replace(kind="request")
    return Posting(envelope, item.stream, sent.due, sent.once, sent.waiting, None, sent.fence)


def lane_arguments(lane: Any, done: Sequence[Done], pull: Pull) -> list[Any]:
    """What the next turn of a lane will send."""
    arguments: list[Any] = lane._arguments(lane._calls + 1, done, pull)
    return arguments


def check_empty(bus: Bus) -> None:
    """Nothing is held, parked, read ahead or to be tried, and no acknowledgement is missing."""
    photo = bus.photo()
    left = [
        name
        for name in (*photo.hashes, *photo.lists, *photo.sets)
        if name.split(":")[0]
        in (
            "busy",
            "parked",
            "ready",
            "suspects",
            "shelved",
            "early",
            "tries",
            "wait",
            "own",
            "timer",
            "suspended",
            "inputs",
        )
    ]
    pending = [
        entry_id
        for stream in photo.streams.values()
        for group in stream.groups.values()
        for entry_id in group.pending
    ]
    assert (left, pending) == ([], [])
