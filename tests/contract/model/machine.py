"""Any sequence of what can happen, drawn by hypothesis and done to the real scripts and to the reference."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from .bus import Bus
from .hand import Hand
from .reference import AGENT_TYPE, EFFECTS, Ending, How, Item, Sent
from .world import KEYS, LATER, STREAMS, World

LIMIT = 4  # attempts
LONGEST_CHAIN = 2  # messages that lead from one to the next

PLACES = st.tuples(st.sampled_from(STREAMS), st.sampled_from(KEYS))
PAUSED = (
    ("topic", "visits"),
    ("topic", "visits"),
    ("topic", "orders"),
    ("key", f"{AGENT_TYPE}/a"),
    ("type", AGENT_TYPE),
)
CHOICE = st.integers(0, 1000)  # one of what is there, by its number
HOWS: st.SearchStrategy[How] = st.sampled_from(("C", "C", "C", "C", "D", "R", "L", "U"))
OUTGOING = st.lists(st.sampled_from(["effect", "order", "later", "named"]), max_size=3)


class Delivering(RuleBasedStateMachine):
    """The scripts on one side, the reference on the other."""

    url: ClassVar[str] = ""

    @initialize(audited=st.booleans())
    def begin(self, audited: bool) -> None:
        """Either another type reads along, or the server loses tails: the other type does not know how to forget."""
        self.bus = Bus(self.url)
        self.world = World(self.bus, limit=LIMIT, audited=audited)
        self.number = 0
        self.world.join()

    def new_id(self) -> str:
        self.number += 1
        return f"m{self.number}"

    def one(self, choice: int) -> Hand | None:
        """A worker that is alive."""
        hands = [hand for hand in self.world.hands if hand.behind is None]
        return hands[choice % len(hands)] if hands else None

    def sure(self, choice: int) -> Hand | None:
        """One that knows what it holds."""
        hands = [hand for hand in self.world.hands if not hand.unsure and hand.behind is None]
        return hands[choice % len(hands)] if hands else None

    # Publishing

    @rule(places=st.lists(PLACES, min_size=1, max_size=10))
    def publish(self, places: list[tuple[str, str]]) -> None:
        self.world.publish(*(Sent(Item(self.new_id(), key, stream)) for stream, key in places))

    @rule(places=st.lists(PLACES, min_size=1, max_size=3), names=st.lists(CHOICE, min_size=3, max_size=3))
    def publish_with_an_id(self, places: list[tuple[str, str]], names: list[int]) -> None:
        """Ids of a person or program, some of them seen before."""
        ids = [f"chosen-{name % 12}" for name in names]
        self.world.publish(
            *(
                Sent(Item(self.new_id(), key, stream), once=chosen)
                for (stream, key), chosen in zip(places, ids, strict=False)
            )
        )

    @rule(place=PLACES)
    def publish_for_later(self, place: tuple[str, str]) -> None:
        self.world.publish(Sent(Item(self.new_id(), place[1], place[0]), due=LATER))

    @rule(key=st.sampled_from(KEYS), name=st.integers(0, 5), process=st.sampled_from(["p1", "p2"]))
    def ask(self, key: str, name: int, process: str) -> None:
        """A recorded request, which may be asked again by another process."""
        item = Item(f"call-{name}", key, f"inbox:{AGENT_TYPE}", asked=True)
        self.world.publish(Sent(item, once=item.id, waiting=process))

    @rule(name=st.integers(0, 5))
    def cancel(self, name: int) -> None:
        """Before it is asked, while it waits, while it is handled, or too late."""
        self.world.cancel(f"call-{name}")

    @rule()
    def publish_again(self) -> None:
        self.world.publish_again()
        self.world.publish_late()

    # Working

    @precondition(lambda self: len(self.world.hands) < 4)
    @rule()
    def join(self) -> None:
        self.world.join()

    @rule(choice=CHOICE, count=st.integers(1, 6), scan=st.booleans(), lost=st.booleans())
    def take(self, choice: int, count: int, scan: bool, lost: bool) -> None:
        hand = self.sure(choice)
        if hand is not None:
            self.world.turn(hand, count=count, scan=scan, lost=lost and scan)

    @rule(data=st.data(), choice=CHOICE, count=st.integers(0, 3), accept=st.booleans(), lost=st.booleans())
    def finish(self, data: st.DataObject, choice: int, count: int, accept: bool, lost: bool) -> None:
        """Several keys at once, of each the first messages."""
        hand = self.sure(choice)
        if hand is None or not hand.held:
            return
        keys = data.draw(st.lists(st.sampled_from(sorted(hand.held)), min_size=1, unique=True), "keys")
        endings = {key: self._endings(data, hand, key) for key in keys}
        self.world.turn(hand, endings, count=count, accept=accept, lost=lost)

    @rule(choice=CHOICE, count=st.integers(1, 3))
    def wait_at_a_bell(self, choice: int, count: int) -> None:
        """A worker that holds nothing leaves a turn there."""
        hand = self.sure(choice)
        if hand is not None and not hand.everything and hand.waiting is None and hand.unread is None:
            self.world.wait(hand, count)

    @rule(choice=CHOICE, is_heard=st.booleans())
    def a_bell_rings(self, choice: int, is_heard: bool) -> None:
        """Or the time is over for which a worker waits there."""
        waiting = [hand for hand in self.world.hands if hand.waiting is not None]
        if waiting:
            self.world.ring(waiting[choice % len(waiting)], is_heard=is_heard)

    @rule(choice=CHOICE)
    def a_bell_is_heard(self, choice: int) -> None:
        unread = [hand for hand in self.world.hands if hand.unread is not None]
        if unread:
            self.world.hear(unread[choice % len(unread)])

    def _endings(self, data: st.DataObject, hand: Hand, key: str) -> list[Ending]:
        endings: list[Ending] = []
        for delivery in hand.held[key][: data.draw(st.integers(1, 3), "how many")]:
            how: How = data.draw(HOWS, "how")
            if how == "U" and not self.world.reference.questions.of(delivery.envelope.id):
                how = "L"
            endings.append(Ending(how))
            if how == "C":
                endings[-1] = self._commit(data, delivery.envelope.id, key)
            elif how in "RLU":
                break
        return endings

    def _commit(self, data: st.DataObject, id: str, key: str) -> Ending:
        state = id.encode() if data.draw(st.booleans(), "state") else None
        reply = "p1" if id.startswith("call-") or data.draw(st.booleans(), "reply") else ""
        kinds = data.draw(OUTGOING, "outgoing") if id.count(".") < LONGEST_CHAIN else []
        return Ending(
            "C", state, tuple(outgoing(f"{id}.{n}", key, kind) for n, kind in enumerate(kinds)), reply
        )

    @rule(choice=CHOICE, name=st.sampled_from(["pay", "mail"]), key=st.sampled_from(KEYS))
    def record(self, choice: int, name: str, key: str) -> None:
        hand = self.sure(choice)
        if hand is not None and key in hand.held:
            self.world.record(hand, key, name)

    @rule(choice=CHOICE, name=st.sampled_from(["1", "2"]), key=st.sampled_from(KEYS))
    def send_now(self, choice: int, name: str, key: str) -> None:
        hand = self.sure(choice)
        if hand is not None and key in hand.held:
            self.world.send_now(hand, key, name)

    @rule(choice=CHOICE, name=st.sampled_from(["q", "r"]), key=st.sampled_from(KEYS), waits=st.booleans())
    def ask_a_person(self, choice: int, name: str, key: str, waits: bool) -> None:
        """Mostly the handler has nothing else to do then."""
        hand = self.sure(choice)
        if hand is not None and key in hand.held:
            self.world.ask(hand, key, name)
            if waits:
                self.world.turn(hand, {key: [Ending("U")]}, count=2)

    @rule(choice=CHOICE)
    def answer(self, choice: int) -> None:
        questions = self.world.reference.questions.status
        if questions:
            self.world.answer(sorted(questions)[choice % len(questions)])

    @rule(choice=CHOICE)
    def resync(self, choice: int) -> None:
        hand = self.one(choice)
        if hand is not None:
            self.world.resync(hand)

    @rule(choice=CHOICE)
    def beat(self, choice: int) -> None:
        hand = self.one(choice)
        if hand is not None:
            assert self.world.beat(hand) == 0

    # Accidents

    @rule(choice=CHOICE, other=CHOICE, is_supervised=st.booleans())
    def crash(self, choice: int, other: int, is_supervised: bool) -> None:
        hand = self.one(choice)
        if hand is not None:
            others = [one for one in self.world.hands if one is not hand and one.behind is None]
            by = None if is_supervised or not others else others[other % len(others)]
            self.world.crash(hand, by)

    @rule(choice=CHOICE)
    def leave(self, choice: int) -> None:
        hand = self.one(choice)
        if hand is not None:
            self.world.leave(hand)

    @rule(choice=CHOICE)
    def copies_arrive_late(self, choice: int) -> None:
        hand = self.one(choice)
        if hand is not None:
            self.world.turn_again(hand)
            self.world.overtaken(hand)

    @precondition(lambda self: self.world.kept is None and self.world.auditing is None)
    @rule()
    def a_tail_begins(self) -> None:
        self.world.keep()

    @precondition(lambda self: self.world.kept is not None)
    @rule()
    def the_tail_is_lost(self) -> None:
        self.world.lose_tail()

    @precondition(lambda self: self.world.auditing is None)
    @rule(data=st.data(), choice=CHOICE, other=CHOICE, lost=st.booleans())
    def work_is_lost(self, data: st.DataObject, choice: int, other: int, lost: bool) -> None:
        """A short tail in which workers do something."""
        self.world.keep()
        self.finish(data, choice, 2, True, False)
        self.take(other, 2, True, lost)
        self.world.lose_tail()

    @rule(choice=CHOICE, how=st.sampled_from(["turn", "beat", "resync"]))
    def who_knows_more_hears_it(self, choice: int, how: str) -> None:
        behind = [hand for hand in self.world.hands if hand.behind is not None]
        if behind:
            self.world.hears(behind[choice % len(behind)], how)

    @rule()
    def zombies_wake_up(self) -> None:
        for hand in self.world.gone[-3:]:
            self.world.zombie(hand)

    @rule(choice=CHOICE)
    def time_passes(self, choice: int) -> None:
        waiting = sorted(self.world.reference.waits() - self.world.reference.ripe)
        if waiting:
            self.world.ripen(waiting[choice % len(waiting)])

    @rule(choice=CHOICE)
    def replay(self, choice: int) -> None:
        letters = self.world.reference.letters
        if letters:
            self.world.replay(letters[choice % len(letters)])
        self.world.replay_again()

    @rule(stream=st.sampled_from(STREAMS))
    def lose_a_group(self, stream: str) -> None:
        self.world.lose_group(stream)

    # Orders of an operator

    @rule(what=st.sampled_from(PAUSED))
    def pause(self, what: tuple[str, str]) -> None:
        self.world.pause(*what)

    @rule(what=st.sampled_from(PAUSED))
    def resume(self, what: tuple[str, str]) -> None:
        self.world.resume(*what)

    @precondition(lambda self: self.world.reference.paused)
    @rule()
    def resume_all(self) -> None:
        self.world.resume_all()

    # The other type

    @precondition(lambda self: self.world.auditing is not None)
    @rule(worker=st.integers(0, 1), count=st.integers(0, 3), ends=st.booleans(), scan=st.booleans())
    def audit(self, worker: int, count: int, ends: bool, scan: bool) -> None:
        self.world.audit(worker, count=count, ends=ends, scan=scan)

    @precondition(lambda self: self.world.auditing is not None)
    @rule()
    def audit_beats(self) -> None:
        self.world.audit_beats()

    @precondition(lambda self: self.world.auditing is not None)
    @rule()
    def audit_comes_and_goes(self) -> None:
        assert self.world.auditing is not None
        self.world.auditing.change()

    @precondition(lambda self: self.world.auditing is not None)
    @rule()
    def audit_loses_its_group(self) -> None:
        assert self.world.auditing is not None
        self.world.auditing.lose_group()

    # What must hold

    @invariant()
    def both_agree(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        try:
            self.world.drain()
        finally:
            self.bus.clear()
            self.bus.close()


def outgoing(id: str, key: str, kind: str) -> Sent:
    """A message that leaves with a commit."""
    if kind == "order":  # to the same type, to be handled in its turn
        return Sent(Item(id, KEYS[(KEYS.index(key) + 1) % len(KEYS)], "topic:orders"))
    if kind == "named":  # with an id that somebody else may have used
        return Sent(Item(id, key, EFFECTS), once=f"named-{key}")
    return Sent(Item(id, key, EFFECTS), due=LATER if kind == "later" else 0)
