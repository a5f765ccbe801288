"""What the bus promises, on a few pages of plain Python: for each agent key what is to be done, and who does it.

It knows nothing of streams, parked entries or bells. Which entries a worker is given is the server's choice; the reference
says whether that choice was allowed, and what has to be true afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from .audit import Audit

from callboard.broker.envelope import Fence

from .questions import Questions

AGENT_TYPE = "counter"
RUN = "work"
EFFECTS = "topic:effects"  # nobody subscribes: what commits sent stays there in its order

How = Literal["C", "D", "R", "L", "U"]


class Item(NamedTuple):
    """A message. `asked`: a request whose reply is kept until nobody can ask for it again."""

    id: str
    key: str
    stream: str
    asked: bool = False


class Sent(NamedTuple):
    """A message on its way: when it is due (0: now), its idempotency id, the process that waits for a reply.

    What a handler sends before its commit has a fence.
    """

    item: Item
    due: int = 0
    once: str = ""
    waiting: str = ""
    fence: Fence | None = None


class Ending(NamedTuple):
    """How the handling of a message ended: committed, dead letter, to be tried again, released, to wait for an answer."""

    how: How
    state: bytes | None = None
    outgoing: tuple[Sent, ...] = ()
    reply: str = ""


class Letter(NamedTuple):
    """A dead letter."""

    item: Item
    reason: str
    attempts: int


LOG = "said"  # whatever is a state is said, too
KEPT = 2  # items that stay in the log


class StateOf(NamedTuple):
    """State of a persistent agent, the worker that wrote it, and its log."""

    version: int
    data: bytes
    writer: str
    said: tuple[bytes, ...] = ()

    def next(self, data: bytes, writer: str) -> StateOf:
        """The state after a commit."""
        return StateOf(self.version + 1, data, writer, (*self.said, data)[-KEPT:])


NO_STATE = StateOf(0, b"", "")


class Reference:
    """The queue as it should be.

    Attributes:
        limit: attempts before a message is a dead letter.
        queues: for each agent key what is to be done, in order.
        holder, count: who holds a key, and how many of its first messages.
        attempts: how often a message failed or took its worker with it.
        deaths: how often a worker died that held a message among others.
        resting: keys that back off after a failure.
        timers, ripe: messages that are due later; timers whose time has come.
        questions: what handlers asked, and who waits for an answer.
        seen: idempotency ids.
        cancelled: requests of which nothing may happen any more.
        paused: `<kind> <name>` of what is paused.
        audit: what another agent type is to do, if there is one.
        effects: what commits and publishers sent to EFFECTS, in order.
        events: the messages whose commits wrote to RUN, in order: those that send something.
        calls: recorded requests: who waits, and whether the reply is there.
        replies: to whom, to what.
        states, once, letters, counters: of the agent type.
    """

    def __init__(self, keys: Iterable[str], limit: int) -> None:
        self.limit = limit
        self.queues: dict[str, list[Item]] = {key: [] for key in keys}
        self.holder: dict[str, str] = {}
        self.count: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.deaths: dict[str, int] = {}
        self.resting: set[str] = set()
        self.questions = Questions()
        self.timers: dict[str, Item] = {}
        self.ripe: set[str] = set()
        self.seen: set[str] = set()
        self.cancelled: set[str] = set()
        self.paused: set[str] = set()
        self.audit: Audit | None = None
        self.effects: list[str] = []
        self.events: list[str] = []
        self.calls: dict[str, tuple[tuple[str, ...], bool]] = {}
        self.replies: list[tuple[str, str]] = []
        self.states: dict[str, StateOf] = {}
        self.once: dict[str, dict[str, str]] = {}
        self.letters: list[Letter] = []
        self.counters: Counter[str] = Counter()

    def copy(self) -> Reference:
        """Another one that goes its own way from here."""
        made = Reference((), self.limit)
        made.queues = {key: list(queue) for key, queue in self.queues.items()}
        made.once = {message: dict(names) for message, names in self.once.items()}
        made.holder, made.count, made.attempts = dict(self.holder), dict(self.count), dict(self.attempts)
        made.resting, made.deaths = set(self.resting), dict(self.deaths)
        made.timers, made.ripe, made.seen = dict(self.timers), set(self.ripe), set(self.seen)
        made.cancelled, made.paused = set(self.cancelled), set(self.paused)
        made.questions = self.questions.copy()
        assert self.audit is None
        made.effects, made.replies, made.letters = list(self.effects), list(self.replies), list(self.letters)
        made.events = list(self.events)
        made.calls, made.states, made.counters = dict(self.calls), dict(self.states), Counter(self.counters)
        return made

    # Publishing

    def publish(self, sent: Sent) -> str | None:
        """The status that the publisher is told, None when the message was added."""
        if sent.once and not self._is_new(sent.once):
            if sent.waiting:
                self._ask_again(sent.item.id, sent.waiting)
            return "duplicate"
        self._send(sent)
        if sent.waiting:
            self.calls[sent.item.id] = ((sent.waiting,), False)
        return None

    def _is_new(self, once: str) -> bool:
        if once.startswith(
            ">"
        ):  # what a handler sends at once is remembered with the message that it handles
            message, _, name = once[1 + len(AGENT_TYPE) + 1 :].partition("|")
            names = self.once.setdefault(message, {})
            return names.setdefault(">" + name, once) is once
        is_new = once not in self.seen
        self.seen.add(once)
        return is_new

    def _ask_again(self, id: str, process: str) -> None:
        waiting, is_answered = self.calls.get(id, ((), False))
        self.calls[id] = (tuple(dict.fromkeys((*waiting, process))), is_answered)
        if is_answered:
            self.replies.append((process, id))

    def _send(self, sent: Sent) -> None:
        if self.audit is not None and not sent.due:
            self.audit.publish(sent.item)
        if sent.due:
            self.timers[f"m|{sent.item.id}"] = sent.item
        elif sent.item.stream == EFFECTS:
            self.effects.append(sent.item.id)
        else:
            self.queues[sent.item.key].append(sent.item)

    # Taking

    def give(self, worker: str, id: str, key: str, attempt: int) -> Item:
        """A worker was given a message: the next one of a key that nobody else holds."""
        assert self.holder.setdefault(key, worker) == worker, f"{key} is held by {self.holder[key]}"
        assert key not in self.resting, f"{key} backs off"
        assert key not in self.questions.suspended, f"{key} waits for an answer"
        place = self.count.get(key, 0)
        queue = self.queues[key]
        assert place < len(queue), f"{id} of {key} is not to be done"
        assert queue[place].id == id, f"{id} of {key} was given, {queue[place].id} is next"
        assert not self.is_paused(queue[place]), f"{id} of {key} is paused"
        assert attempt == self.attempts.get(id, 0) + 1, f"attempt {attempt} of {id}"
        self.count[key] = place + 1
        return queue[place]

    def is_paused(self, item: Item) -> bool:
        """Whether nobody may begin with it."""
        targets = (item.stream.replace(":", " ", 1), f"type {AGENT_TYPE}", f"key {AGENT_TYPE}/{item.key}")
        return not self.paused.isdisjoint(targets)

    # Ending

    def end(self, worker: str, item: Item, ending: Ending) -> None:
        """A worker that holds the key ends the first message of it, or gives back a later one."""
        key = item.key
        assert self.holder[key] == worker
        if ending.how in "CD":
            assert self.queues[key].pop(0) == item
            attempts = self.attempts.pop(item.id, 0)
            self.deaths.pop(item.id, None)
            if ending.how == "C":
                self._commit(worker, item, ending)
            else:
                self._bury(item, "failed", attempts + 1)
        elif ending.how == "R":
            self.attempts[item.id] = self.attempts.get(item.id, 0) + 1
            self.deaths.pop(item.id, None)
            self.resting.add(key)
            self.counters["retried"] += 1
        elif ending.how == "U":
            self.deaths.pop(item.id, None)
            self.questions.wait(key, item.id, item.id in self.cancelled)
        else:
            self.counters["released"] += 1
        self.count[key] -= 1
        if not self.count[key]:
            self._let_go(key)

    def _let_go(self, key: str) -> None:
        del self.count[key], self.holder[key]

    def _commit(self, worker: str, item: Item, ending: Ending) -> None:
        self.counters["done"] += 1
        names = self.once.pop(item.id, {})
        self.questions.leave(item.id, names)
        for name in names:
            self.calls.pop(name[1:], None)
        if item.asked and item.id in self.cancelled:
            return
        if ending.state is not None:
            self.states[item.key] = self.states.get(item.key, NO_STATE).next(ending.state, worker)
        if ending.reply:
            to, _ = self.calls.get(item.id, ((ending.reply,), False))
            if item.id in self.calls:
                self.calls[item.id] = (to, True)
            self.replies += [(process, item.id) for process in to]
        if ending.outgoing:
            self.events.append(item.id)
        for sent in ending.outgoing:
            if not sent.once or self._is_new(sent.once):
                self._send(sent)

    def _bury(self, item: Item, reason: str, attempts: int) -> None:
        names = self.once.get(item.id, {})
        for name in self.questions.leave(item.id, names):
            del names[name]
        self.letters.append(Letter(item, reason, attempts))
        self.counters["dead"] += 1

    # Time, deaths, repairs

    def waits(self) -> set[str]:
        """The members of `timers`."""
        return {*self.timers, *(f"k|{AGENT_TYPE}|{key}" for key in self.resting)}

    def fire(self) -> None:
        """Whatever is due happens, as in every turn and beat."""
        for member in [one for one in self.timers if one in self.ripe]:  # in the order in which they came
            self._send(Sent(self.timers.pop(member)))
        for member in self.ripe:
            self.resting.discard(member.partition("|")[2].partition("|")[2])
        self.ripe.clear()

    def lose(self, worker: str, is_crash: bool, has_begun: bool = True) -> None:
        """A worker ends. What it held alone has ended it, if it crashed and had begun; of several messages each may have."""
        keys = [key for key, holder in self.holder.items() if holder == worker]
        held = [item for key in keys for item in self.queues[key][: self.count[key]]]
        self.counters["reaped"] += bool(held)
        for key in keys:
            self._let_go(key)
        if is_crash and has_begun and len(held) == 1:
            self._count_crash(held[0])
        elif is_crash:
            for item in held:
                self.deaths[item.id] = self.deaths.get(item.id, 0) + 1

    def _count_crash(self, item: Item) -> None:
        attempts = self.attempts[item.id] = self.attempts.get(item.id, 0) + 1
        self.deaths[item.id] = max(self.deaths.get(item.id, 0), self._deaths_allowed)
        if attempts >= self.limit:
            del self.attempts[item.id], self.deaths[item.id]
            self._bury(item, "crashed", attempts)
            self.queues[item.key].remove(item)

    @property
    def _deaths_allowed(self) -> int:
        return max(1, self.limit - 1)

    def is_suspect(self, key: str) -> bool:
        """The next message of the key is given to nobody who holds anything else, and nothing is given with it."""
        queue = self.queues[key]
        place = self.count.get(key, 0)
        return place < len(queue) and self.deaths.get(queue[place].id, 0) >= self._deaths_allowed

    def replay(self, letter: Letter) -> None:
        """A dead letter goes to the agent's inbox, behind everything else."""
        self.letters.remove(letter)
        again = letter.item._replace(stream=f"inbox:{AGENT_TYPE}")
        self.queues[again.key].append(again)

    # Looking

    @property
    def is_done(self) -> bool:
        """Nothing is left to do."""
        return not self.timers and not any(self.queues.values())

    def unfinished(self) -> set[str]:
        """Messages that somebody still needs."""
        return {item.id for queue in self.queues.values() for item in queue}
