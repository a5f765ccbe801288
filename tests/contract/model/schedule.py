"""What two workers can do next: the moves that a schedule is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .audit import Auditing
from .hand import Hand
from .reference import EFFECTS, Ending, Item, Sent
from .world import World


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of everything a schedule may hold.

    Attributes:
        messages: stream and agent key of each, published in this order.
        takes: entries that a worker asks for at once.
        crashes: workers that die; another one's beat finds out, a new one comes.
        losses: answers of turns that are lost; the turn is sent again (and refused), then the worker asks what it holds.
        retries, letters, releases: handlings that end so.
        beats: beats that reap nobody; they trim.
        tails: times that the server forgets what happened since some move.
        pauses: pauses of a topic; each ends again.
        groups: consumer groups of a topic that somebody destroys.
        changes: times that another agent type ends its subscription, or makes it again.
        asks: questions of handlers.
        waits: handlings that end to wait for an answer.
        bells: turns that are left at a bell.
        limit: attempts before a message is a dead letter.
    """

    messages: tuple[tuple[str, str], ...]
    takes: int = 2
    crashes: int = 0
    losses: int = 0
    retries: int = 0
    letters: int = 0
    releases: int = 0
    beats: int = 0
    tails: int = 0
    pauses: int = 0
    groups: int = 0
    changes: int = 0
    asks: int = 0
    waits: int = 0
    bells: int = 0
    limit: int = 3

    def spend(self, what: str) -> Bounds:
        """The same with one less."""
        return replace(self, **{what: getattr(self, what) - 1})


class Move(NamedTuple):
    """One call, or a few that belong together.

    Attributes:
        what: name of the method of Schedule that does it.
        worker: number of the worker, -1 for none.
        key: agent key, "" for none.
        how: letters: the ending, then `a` accepts parked entries, `t` takes new ones too, `x` the answer is lost; of a
            bell: `h` it is heard at once.
        cost: field of Bounds that it spends, "" for none.
    """

    what: str
    worker: int = -1
    key: str = ""
    how: str = ""
    cost: str = ""


class Schedule:
    """A world with two workers, what was published so far, and what may still happen."""

    def __init__(self, world: World, bounds: Bounds) -> None:
        self.world = world
        self.bounds = bounds
        self.published = 0

    @classmethod
    def begin(cls, world: World, bounds: Bounds) -> Schedule:
        """Two workers have joined, nothing is published yet."""
        made = cls(world, bounds)
        world.join()
        world.join()
        return made

    def fork(self) -> Schedule:
        """Another one that goes its own way from here."""
        made = Schedule(self.world.fork(), self.bounds)
        made.published = self.published
        return made

    # What can happen

    def moves(self) -> Iterator[Move]:
        """Every move that is possible now."""
        if self.published < len(self.bounds.messages):
            yield Move("publish")
        if self.bounds.tails:
            kept = self.world.kept is not None
            yield Move("lose", cost="tails") if kept else Move("keep")
        for number, hand in enumerate(self.world.hands):
            if hand.behind is not None:
                yield from (Move("hear", number, how=how) for how in ("turn", "beat", "resync"))
                continue
            if self.bounds.crashes and self._beats_by(number) is not None:
                yield Move("crash", number, cost="crashes")
            yield from self._rings(number, hand)
            if hand.unsure:
                yield Move("resync", number)
            else:
                yield from self._turns(number, hand)
        yield from self._orders()
        yield from self._beats()
        if self.world.reference.letters:
            yield Move("replay")

    def _beats(self) -> Iterator[Move]:
        beats_by = self._beats_by(-1)
        if beats_by is None:
            return
        if self.bounds.beats:
            yield Move("beat", beats_by, cost="beats")
        if self.world.reference.waits():
            yield Move("fire", beats_by)

    def _beats_by(self, but: int) -> int | None:
        """A worker, other than this one, whose beat the server would take."""
        others = [n for n, hand in enumerate(self.world.hands) if n != but and hand.behind is None]
        return others[0] if others else None

    @staticmethod
    def _rings(number: int, hand: Hand) -> Iterator[Move]:
        """The server comes to a turn that waits at a bell, and the worker hears of it."""
        if hand.waiting is not None:
            yield Move("ring", number, how="h")
            yield Move("ring", number)
        elif hand.unread is not None:
            yield Move("read", number)

    def _bells(self, number: int, hand: Hand) -> Iterator[Move]:
        if not self.bounds.bells or hand.waiting is not None or hand.unread is not None:
            return
        if not hand.held:
            yield Move("wait", number, cost="bells")

    def _turns(self, number: int, hand: Hand) -> Iterator[Move]:
        lossy = self.bounds.losses > 0
        yield from self._bells(number, hand)
        yield Move("take", number)
        if lossy:
            yield Move("take", number, how="x", cost="losses")
        for key in hand.held:
            yield Move("finish", number, key, "Cat")
            yield Move("finish", number, key, "C")
            if lossy:
                yield Move("finish", number, key, "Catx", "losses")
            for letter, cost in (("R", "retries"), ("D", "letters"), ("L", "releases")):
                if getattr(self.bounds, cost):
                    yield Move("finish", number, key, letter + "at", cost)
            yield from self._questions(number, key, hand)

    def _questions(self, number: int, key: str, hand: Hand) -> Iterator[Move]:
        if self.bounds.asks:
            yield Move("ask", number, key, cost="asks")
        if self.bounds.waits and self.world.reference.questions.of(hand.held[key][0].envelope.id):
            yield Move("finish", number, key, "Uat", "waits")
            if self.bounds.losses:
                yield Move("finish", number, key, "Uatx", "losses")

    def _orders(self) -> Iterator[Move]:
        """What others do to the namespace, and what another type does."""
        if self.world.reference.paused:
            yield Move("resume")
        elif self.bounds.pauses:
            yield Move("pause", cost="pauses")
        if self.world.reference.questions.open():
            yield Move("answer")
        if self.bounds.groups:
            yield Move("lose_group", cost="groups")
        if self.world.auditing is not None:
            yield from self._audits(self.world.auditing)

    def _audits(self, auditing: Auditing) -> Iterator[Move]:
        for number, auditor in enumerate(auditing.workers):
            yield Move("audit", number)
            if auditor.held:
                yield Move("audit", number, how="C")
        if self.bounds.changes:
            yield Move("change", cost="changes")
        if self.bounds.groups:
            yield Move("lose_group", 0, cost="groups")
        if self.bounds.beats:
            yield Move("audit_beat", cost="beats")

    # Doing it

    def do(self, move: Move) -> None:
        """Makes a move; raises AssertionError where server and reference part."""
        if move.cost:
            self.bounds = self.bounds.spend(move.cost)
        getattr(self, f"_{move.what}")(move)

    def _publish(self, _: Move) -> None:
        stream, key = self.bounds.messages[self.published]
        self.published += 1
        self.world.publish(Sent(Item(f"m{self.published}", key, stream), once=f"once-{self.published}"))
        self.world.publish_again()

    def _keep(self, _: Move) -> None:
        self.world.keep()

    def _lose(self, _: Move) -> None:
        self.world.lose_tail()

    def _hear(self, move: Move) -> None:
        hand = self.world.hands[move.worker]
        self.world.hears(hand, move.how)
        self.world.zombie(hand)
        self._replace(move.worker)

    def _take(self, move: Move) -> None:
        hand = self.world.hands[move.worker]
        self.world.turn(hand, count=self.bounds.takes, scan=False, lost="x" in move.how)
        self.world.turn_again(hand)

    def _finish(self, move: Move) -> None:
        hand = self.world.hands[move.worker]
        self.world.turn(
            hand,
            {move.key: [self._ending(hand, move)]},
            count=self.bounds.takes if "t" in move.how else 0,
            accept="a" in move.how,
            scan=False,
            lost="x" in move.how,
        )
        self.world.turn_again(hand)

    def _wait(self, move: Move) -> None:
        self.world.wait(self.world.hands[move.worker], self.bounds.takes)

    def _ring(self, move: Move) -> None:
        self.world.ring(self.world.hands[move.worker], is_heard="h" in move.how)

    def _read(self, move: Move) -> None:
        self.world.hear(self.world.hands[move.worker])

    @staticmethod
    def _ending(hand: Hand, move: Move) -> Ending:
        if move.how[0] == "C":
            message_id = hand.held[move.key][0].envelope.id
            return Ending(
                "C", message_id.encode(), (Sent(Item(f"{message_id}.1", move.key, EFFECTS)),), "asker"
            )
        return {"R": Ending("R"), "D": Ending("D"), "L": Ending("L"), "U": Ending("U")}[move.how[0]]

    def _ask(self, move: Move) -> None:
        self.world.ask(self.world.hands[move.worker], move.key, f"q{self.bounds.asks}")

    def _answer(self, _: Move) -> None:
        self.world.answer(self.world.reference.questions.open()[0])

    def _resync(self, move: Move) -> None:
        self.world.resync(self.world.hands[move.worker])

    def _crash(self, move: Move) -> None:
        world = self.world
        hand = world.hands[move.worker]
        world.crash(hand, by=world.hands[1 - move.worker])
        world.zombie(hand)
        self._replace(move.worker)

    def _replace(self, number: int) -> None:
        """A new worker joins in the place of one that has gone."""
        new = self.world.join()
        self.world.hands.remove(new)
        self.world.hands.insert(number, new)

    def _beat(self, move: Move) -> None:
        assert self.world.beat(self.world.hands[move.worker]) == 0

    def _pause(self, _: Move) -> None:
        self.world.pause("topic", "visits")

    def _resume(self, _: Move) -> None:
        self.world.resume_all()

    def _lose_group(self, move: Move) -> None:
        if move.worker < 0 or self.world.auditing is None:
            self.world.lose_group("topic:visits")
        else:
            self.world.auditing.lose_group()

    def _audit(self, move: Move) -> None:
        self.world.audit(move.worker, count=self.bounds.takes, ends=move.how == "C", scan=False)

    def _audit_beat(self, _: Move) -> None:
        self.world.audit_beats()

    def _change(self, _: Move) -> None:
        assert self.world.auditing is not None
        self.world.auditing.change()

    def _fire(self, move: Move) -> None:
        for member in self.world.reference.waits():
            self.world.ripen(member)
        self._beat(move)

    def _replay(self, _: Move) -> None:
        self.world.replay(self.world.reference.letters[0])
        self.world.replay_again()

    @property
    def is_done(self) -> bool:
        """Everything was published and handled."""
        return self.published == len(self.bounds.messages) and self.world.reference.is_done
