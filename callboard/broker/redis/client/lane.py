"""A worker's lane to the server: join, turns (commits of what is done, new work), the bell, and leaving."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from operator import ne
from typing import Any, ClassVar, Final, TypeAlias

from callboard.broker.envelope import (
    Claim,
    Delivery,
    EntryValues,
    Posting,
    encode,
    read_deliveries,
)
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from callboard.broker.limits import Limits
from callboard.broker.mailbox import ConsumedType, Ending, Incarnation, Pull, Rung, Turn
from callboard.broker.outcome import (
    NOTHING,
    Commit,
    DeadLetter,
    LogChange,
    Outcome,
    Retry,
    RunWrite,
    Suspend,
    Wait,
    reason_of,
)
from callboard.broker.redis import keys
from callboard.broker.redis.arguments import index_of, width_of
from callboard.broker.redis.library import Mark, is_missing
from callboard.broker.settings import BrokerSettings

from .connection import Link, steady_ms
from .endpoint import Argument
from .identity import own_name
from .wire import Beginning, pack

logger = logging.getLogger("callboard.broker")

BEFORE = 4  # place of the number of the call before in an answer
SCAN, AT_BELL = index_of("turn", "scan"), "b"  # what that argument is in a turn that waits at a bell


Committed: TypeAlias = tuple[Delivery, str, Sequence[Argument]]
"""A delivery, and how it ended, as the Lua functions take it: see `commit_of`."""


class WorkerLane:
    """One incarnation of a worker after another; each has a name that ends with its fencing token.

    Attributes:
        incarnation: the one that joined last, with the number of its last call that was answered. One value, because the
            heartbeat's thread reads both: the number of one incarnation under the name of another would say that the
            server has lost something.
    """

    # Of the process: a server that lost a tail would give a number again that another lane of this process has.
    _highest: ClassVar[int] = 0

    def __init__(self, link: Link, bell_link: Link) -> None:
        self._link = link
        self._bell = bell_link
        self._limits = Limits.of(link.settings)
        self._bells: dict[str, str] = {}
        self._waiting = Beginning.of("BLPOP")
        self._types: Sequence[ConsumedType] | None = None  # of the terms
        self._terms = ""
        self._calls = 0
        self._at_bell: int | None = None  # number of the turn that waits there and may still be carried out
        self._in_turn = False
        self.incarnation = Incarnation()

    @property
    def worker(self) -> str:
        """Name of the present incarnation; "" before the first one joined."""
        return self.incarnation.worker

    async def join(self, agent_types: Sequence[str], accepts: Mapping[str, int] | None = None) -> None:
        """Begins a new incarnation.

        Args:
            agent_types: what it works for.
            accepts: the messages that it knows, with their versions.
        """
        settings = self._link.settings
        name = own_name()
        host, pid, _ = name.rsplit(":", 2)
        lease = int(settings.lease * 1000)
        known = as_words(accepts or {})
        arguments = (name, lease, " ".join(agent_types), host, pid, known, WorkerLane._highest)
        # An incarnation whose answer was lost has taken nothing, and its lease ends by itself.
        answer = await self._link.despite_losses(lambda: self._link.run("join", arguments))
        worker = answer[0].decode()
        WorkerLane._highest = max(WorkerLane._highest, int(worker.rpartition(":")[2]))
        self._calls = 0
        self._at_bell = None
        self.incarnation = Incarnation(worker)

    async def turn(self, endings: Sequence[Ending], pull: Pull) -> Turn:
        """One turn: commits how deliveries ended, takes new ones.

        Raises:
            FencedError: the lease was lost; nothing of the call was written.
            ConnectionLostError: whether the call was carried out is unknown; `resync` tells.
        """
        window = self._link.settings.dedupe_window
        commits = [(each[0], *commit_of(*each, window)) for each in endings]
        return await self.commit_and_pull(commits, pull)

    async def commit_and_pull(self, commits: Sequence[Committed], pull: Pull) -> Turn:
        """The same with commits that are encoded already."""
        number, worker = self._next_call(), self.worker
        asked = steady_ms()
        self._in_turn = True
        try:
            answer = await self._link.run("turn", self._arguments(number, commits, pull))
        finally:
            self._in_turn = False
        self._check(answer)
        self._acknowledge(number, worker)
        turn = read_turn(answer, asked, self._limits, self.worker)
        if self._at_bell is not None and self._was_overtaken(int(answer[BEFORE])):
            return turn._replace(is_second=True)
        return turn

    def _next_call(self) -> int:
        self._calls += 1
        return self._calls

    def _was_overtaken(self, before: int) -> bool:
        """Whether the turn at the bell was carried out before the present call; if not, it never will be."""
        # guard: a turn at the bell that is overtaken counts no more
        if self._at_bell is not None and before < self._at_bell:
            self._at_bell = None
        return self._at_bell is not None

    def _acknowledge(self, number: int, worker: str) -> None:
        """This call was answered: from now on a server that does not know it has lost something.

        Args:
            number: that it was sent with. The server need not know others that were sent since, with higher ones.
            worker: whose call it was; one that joined since counts its own.
        """
        # guard: what was answered is acknowledged
        if worker == self.worker and number > self.incarnation.acknowledged:
            self.incarnation = Incarnation(worker, number)

    def _arguments(self, number: int, commits: Sequence[Committed], pull: Pull) -> list[Argument]:
        if pull.types is not self._types:  # a tuple that is kept from turn to turn
            self._types, self._terms = pull.types, terms_of(self._link.settings, pull.types)
        worker, acknowledged = self.incarnation
        arguments: list[Argument] = [
            worker,
            number,
            acknowledged,
            self._terms,
            pull.held,
            "1" if pull.scan else "",
            int(pull.accept),
            pull.room,
        ]
        add_commits(arguments, commits)
        return arguments

    def _arguments_at_bell(self, number: int, pull: Pull) -> list[Argument]:
        arguments = self._arguments(number, (), pull)
        arguments[SCAN] = AT_BELL
        return arguments

    def _check(self, answer: Any) -> None:
        if answer[0] == b"FENCED":
            # guard: a refused turn is not taken for an answer
            raise FencedError(self.worker)
        # A copy of an older call that arrives after a newer one, held up by a broken connection, is refused: carried
        # out, it would take deliveries of which this worker never hears.
        if answer[0] == b"STALE":
            raise ConnectionLostError(self._link.endpoint.shown, "an older call was overtaken")

    def can_send(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Whether this ending can be written; one that cannot keeps all the others of a turn from leaving."""
        try:
            _, values = commit_of(delivery, outcome, True, self._link.settings.dedupe_window)
            pack(values)
            return True
        except EncodeError:
            return False

    async def resync(self) -> list[Delivery]:
        """The deliveries that this worker holds as the server sees it; copies of older calls that still arrive are refused.

        Raises:
            FencedError: the lease was lost.
        """
        number = self._next_call()
        # What a turn at the bell has brought is in the answer, whenever its own comes.
        # guard: what a resync tells of is not taken from the bell as well
        self._at_bell = None
        worker, acknowledged = self.incarnation
        answer = await self._link.run("resync", (worker, number, acknowledged))
        self._check(answer)
        self._acknowledge(number, worker)
        held = read_deliveries(held_in(answer[1]), self._limits, self.worker)
        for delivery in held:
            delivery.state_unknown = True
        return held

    async def announce(self, agent_types: Sequence[str]) -> None:
        """Says that this incarnation works for more agent types than it joined with."""
        key = self._link.keys.of(f"worker:{self.worker}")
        await self._link.command("HSET", key, "types", " ".join(agent_types))

    async def wait_for_bell(self, agent_types: Sequence[str], seconds: float) -> str | None:
        """Waits for a token.

        Returns:
            The agent type whose bell rang; None when none did; "" when the connection broke, after a short pause:
            then a publisher may have rung.
        """
        if not agent_types:
            await asyncio.sleep(seconds)
            return None
        bells = self._bells_of(agent_types)
        try:
            answer = await self._bell.command(
                "BLPOP", *bells, f"{seconds:.3f}", timeout=seconds + self._bell.settings.socket_timeout
            )
        except (ConnectionLostError, ServerUnavailableError, CommandError) as error:
            logger.debug("the bell can't be heard: %s", error)
            await asyncio.sleep(min(0.1, seconds))
            return ""
        return None if answer is None else bells[answer[0].decode()]

    def _bells_of(self, agent_types: Sequence[str]) -> Mapping[str, str]:
        """The keys of the bells of these types, with the types. They are the same nearly always, so they are kept."""
        if [*self._bells.values()] != agent_types:
            self._bells = {self._bell.keys.of(keys.bell(each)): each for each in agent_types}
        return self._bells

    async def turn_at_bell(self, agent_types: Sequence[str], seconds: float, pull: Pull) -> Rung:
        """Waits for a token, with a turn behind it on the same connection, which the server takes in the same moment.

        What else is asked for meanwhile goes over the other connection, with a higher number: it makes this turn
        STALE, or comes after it. While a turn is under way none is left at the bell: it could bring more of an agent that
        the worker lets go with the turn after that.

        Raises:
            FencedError: the lease was lost, or is lost with this turn.
            ServerUnavailableError, CommandError, OverloadedError: whether the turn was carried out is not known.
        """
        # guard: no turn is left at the bell beside another
        if self._in_turn:
            return Rung(await self.wait_for_bell(agent_types, seconds), None)
        number, worker = self._next_call(), self.worker
        self._at_bell = number
        bells = self._bells_of(agent_types)
        waiting = self._waiting_at(bells, f"{seconds:.3f}")
        within = seconds + self._bell.settings.socket_timeout
        try:
            token, answer = await self._bell.run_behind(
                waiting, "turn", self._arguments_at_bell(number, pull), within
            )
        except ServerUnavailableError:
            if not self._is_awaited(number, worker):
                return Rung("", None)
            raise
        rang = _name_of_bell(token, bells)
        if rang == "":  # another time the same: not in a loop
            await asyncio.sleep(min(0.1, seconds))
        # guard: what counts no more at the bell is not taken
        if not self._is_awaited(number, worker):
            return Rung(rang, None)
        return Rung(rang, self._turn_of(number, answer))

    def _is_awaited(self, number: int, worker: str) -> bool:
        return self._at_bell == number and self.worker == worker

    def _turn_of(self, number: int, answer: Any) -> Turn | None:
        self._at_bell = None
        if isinstance(answer, CommandError) and is_missing(answer):
            return None  # the next turn loads the functions
        if isinstance(answer, Exception):
            raise answer
        if answer[0] == b"STALE":
            return None
        self._check(answer)
        self._acknowledge(number, self.worker)
        return read_turn(answer, None, self._limits, self.worker)

    def _waiting_at(self, bells: Mapping[str, str], seconds: str) -> Beginning:
        """The command that waits at these bells for so long. It is the same nearly always, so it is kept."""
        if self._waiting.words != (words := ("BLPOP", *bells, seconds)):
            self._waiting = Beginning.of(*words)
        return self._waiting

    async def ring(self, agent_type: str) -> None:
        """Passes a token on to another worker, or wakes this one. When that fails, they look by themselves soon."""
        try:
            # Not through the bell's own connection, which is busy while the worker waits on it.
            await self._link.command("RPUSH", self._link.keys.of(keys.bell(agent_type)), "1")
        except (ConnectionLostError, ServerUnavailableError, CommandError, OverloadedError) as error:
            logger.debug("the bell of %s can't be rung: %s", agent_type, error)

    async def leave(self, crashed: bool = False) -> None:
        """Ends the incarnation; what it still holds goes to the others at once, without counting an attempt."""
        await self._link.run("leave", ("1" if crashed else "", "1", self.worker))

    async def reconnect(self, within: float) -> None:
        """Makes the connection again after it broke."""
        await self._link.reconnect(within)

    def close(self) -> None:
        self._link.close()
        self._bell.close()


def _name_of_bell(token: Any, bells: Mapping[str, str]) -> str | None:
    if isinstance(token, Exception):
        logger.debug("the bell can't be heard: %s", token)
        return ""
    return None if token is None else bells[token[0].decode()]


# The answer to a turn

RUN_WIDTH, STATE_WIDTH = width_of("GIVEN"), width_of("STATE")  # in the answer to a turn
PLAIN, HEADED = width_of("GIVEN_PLAIN"), width_of("GIVEN_HEADED")
OF_STREAMS = 1  # more where each delivery of a run names its stream, at the end
ONE = 3  # values of several deliveries with their states; more are one delivery
WIDTH = 11  # values of one delivery in the answer to a resync


def read_turn(answer: Any, asked: float | None, limits: Limits, worker: str) -> Turn:
    """The answer to a turn that was sent at that time (`Turn.asked_ms`)."""
    _, now, due, flags, _, *given = answer
    deliveries = _read_deliveries(given, limits, worker) if given else []
    due_ms = int(due) if due else None
    if not flags:  # as of nearly every turn that brings little
        return Turn(deliveries, int(now or 0), due_ms, False, False, "", 0, asked)
    letters, _, full_topic = flags.decode().partition("f")
    more, suspect, deaths = letters.partition("s")
    return Turn(
        deliveries, int(now or 0), due_ms, bool(more), bool(suspect), full_topic, int(deaths or 0), asked
    )


def _read_deliveries(given: list[Any], limits: Limits, worker: str) -> list[Delivery]:
    if len(given) > ONE:
        raw_type, stream, kind, *flat = given
        return read_deliveries(_delivered((raw_type, stream, kind, len(flat), 1), flat), limits, worker)
    runs, flat, states = given
    deliveries = read_deliveries(_delivered(runs, flat), limits, worker)
    for i in range(0, len(states), STATE_WIDTH):
        delivery = deliveries[states[i]]
        delivery.state_version = int(states[i + 1])
        delivery.state = states[i + 2]
        delivery.has_logs = bool(states[i + 3])
    return deliveries


def terms_of(settings: BrokerSettings, types: Sequence[ConsumedType]) -> str:
    """The terms of a worker, the same from turn to turn, as one text: see lua/turn/arguments.lua."""
    words: list[str] = [f"{settings.max_payload} {settings.max_unclaimed}"]
    for each in types:
        rate = "-" if each.rate_limit is None else each.rate_limit
        words.append(f"{each.name} {int(each.persistent)} {rate}")
    return " ".join(words)


def as_words(accepts: Mapping[str, int]) -> str:
    """Messages and their versions, as the functions take them."""
    return " ".join(f"{name} {version}" for name, version in accepts.items())


def held_in(flat: Sequence[Any]) -> list[EntryValues]:
    """The deliveries that the answer to a resync tells of."""
    return [flat[i : i + WIDTH] for i in range(0, len(flat), WIDTH)]


def _delivered(runs: Sequence[Any], flat: Sequence[Any]) -> list[EntryValues]:
    """Deliveries as a turn brings them: what is the same in a run of them once, what is mostly empty where it is not."""
    found: list[EntryValues] = []
    at = 0
    for i in range(0, len(runs), RUN_WIDTH):
        raw_type, stream, kind, width, count = runs[i : i + RUN_WIDTH]
        behind = at + width * count
        for first in range(at, behind, width):
            values = flat[first : first + width]
            if width == PLAIN:
                entry, name, key, body = values
                found.append((raw_type, stream, entry, b"", name, kind, key, b"", b"", b"", body))
            elif width == PLAIN + OF_STREAMS:
                entry, name, key, body, its_stream = values
                found.append((raw_type, its_stream, entry, b"", name, kind, key, b"", b"", b"", body))
            elif width == HEADED + OF_STREAMS:
                entry, name, key, sender, head, body, its_stream = values
                found.append((raw_type, its_stream, entry, b"", name, kind, key, sender, b"", head, body))
            elif width == HEADED:
                entry, name, key, sender, head, body = values
                found.append((raw_type, stream, entry, b"", name, kind, key, sender, b"", head, body))
            else:
                entry, name, key, sender, head, tries, at_ms, body = values
                found.append((raw_type, stream, entry, tries, name, kind, key, sender, at_ms, head, body))
        at = behind
    return found


# Commits as arguments

RUN_VALUES: Final = 4  # values that a run says at once; they are worth it for as many messages
LOOKED_AT: Final = 20
"""Messages of a call, its first ones: to look at all takes time where all are of one stream."""


def are_apart(streams: Sequence[str] | Sequence[bytes]) -> bool:
    """Whether it takes fewer values that each message names its stream than that runs of one stream do.

    Args:
        streams: of the messages, in order.
    """
    changes: int = sum(map(ne, streams, islice(streams, 1, None)))
    return RUN_VALUES * changes > len(streams)


def add_commits(arguments: list[Argument], commits: Sequence[Committed]) -> None:
    """The commits of a turn behind its other arguments."""
    arguments.append(len(commits))
    is_apart = are_apart([one[0].stream for one in commits[:LOOKED_AT]])
    raw_type, stream = b"", b""
    streams: list[Argument] = []
    entries: list[Argument] = []
    keys: list[Argument] = []
    modes: list[str] = []
    extras: list[Argument] = []
    for delivery, mode, its_extras in commits:
        if delivery.raw_type != raw_type or (delivery.stream != stream and not is_apart):
            if entries:
                arguments += _run_of_commits(raw_type, stream, streams, entries, keys, modes)
            raw_type, stream = delivery.raw_type, b"" if is_apart else delivery.stream
            streams, entries, keys, modes = [], [], [], []
        if is_apart:
            streams.append(delivery.stream)
        entries.append(delivery.entry)
        keys.append(delivery.raw_key)
        modes.append(mode)
        if its_extras:
            extras += its_extras
    if entries:
        arguments += _run_of_commits(raw_type, stream, streams, entries, keys, modes)
    arguments += extras


def _run_of_commits(
    raw_type: bytes,
    stream: bytes,
    streams: list[Argument],
    entries: list[Argument],
    keys: list[Argument],
    modes: list[str],
) -> tuple[Argument, ...]:
    """Commits of one stream, or of several, whose names are `streams`: a mode that all have is said once."""
    if modes.count(modes[0]) == len(modes):
        return (raw_type, stream, len(entries), modes[0], *streams, *entries, *keys)
    return (raw_type, stream, len(entries), "", *streams, *entries, *keys, *modes)


ModeAndValues: TypeAlias = tuple[str, Sequence[Argument]]

# Plain texts, for most commits are made of these: to look up a mark in its class and to add it takes 0.15 microseconds.
COMMIT, MORE, STATE = Mark.COMMIT.value, Mark.MORE.value, Mark.STATE.value
REPLY, OUTGOING = Mark.REPLY.value, Mark.OUTGOING.value

PROCESS: Final = len(keys.reply(""))  # where its name begins in the name of a stream of replies


def commit_of(delivery: Delivery, outcome: Outcome, is_last: bool, dedupe_window: float) -> ModeAndValues:
    """The mode of a commit, a text of marks, and what its marks bring: in the order in which `library.py` lists them.

    Args:
        delivery: what was handled.
        outcome: how it ended.
        is_last: the worker holds nothing more of its agent.
        dedupe_window: seconds that idempotency ids are remembered.
    """
    # guard: an agent is let go with the last commit that is held
    more = "" if is_last else MORE
    if outcome is NOTHING and not delivery.tries and delivery.claim is None:
        return COMMIT + more, ()  # most commits are these
    if isinstance(outcome, Commit):
        return _committed(delivery, outcome, more, int(dedupe_window * 1000))
    if isinstance(outcome, DeadLetter):
        return _dead(delivery, outcome, Mark.DEAD_LETTER + more, ())
    if isinstance(outcome, Wait):
        return _dead(delivery, outcome.otherwise, Mark.WAIT + more, (outcome.message, outcome.version))
    if isinstance(outcome, Retry):
        delay = max(1, math.ceil(outcome.delay * 1000))
        # guard: an outage uses up no attempt
        attempts = delivery.attempt if outcome.waited is None else delivery.attempt - 1
        reason = _writable(reason_of(outcome)[:200])
        return Mark.RETRY + more, (delay, attempts, delivery.first_tried, reason)
    if isinstance(outcome, Suspend):
        # guard: a wait uses up no attempt
        known = (outcome.message_id, delivery.attempt - 1, delivery.first_tried)
        wake = "" if outcome.wake_at is None else outcome.wake_at
        return Mark.SUSPEND + more, (*known, wake, len(outcome.asked), *outcome.asked)
    return Mark.RELEASE + more, ()


def _committed(delivery: Delivery, outcome: Commit, more: str, window: int) -> ModeAndValues:
    mode = COMMIT + more
    # guard: a commit says that its entry was tried before
    if delivery.tries:
        mode += Mark.TRIED
    extras: list[Any] = []
    if outcome.unless_cancelled is not None:
        mode += Mark.UNLESS_CANCELLED
        extras.append(outcome.unless_cancelled)
    # guard: a commit names what it no longer needs
    if outcome.once_of is not None:
        mode += Mark.FORGET
        extras.append(outcome.once_of)
    if outcome.logs is not None:
        mode += Mark.LOGS
        version, changes = outcome.logs
        extras += (version, *log_values(changes))
    if outcome.state is not None:
        mode += STATE
        extras += outcome.state
    claims = _claims(outcome)
    if claims or delivery.claim is not None:
        mode += Mark.CLAIMS
        extras += (delivery.claim or "", len(claims), *chain.from_iterable(claims))
    if outcome.reply is not None:
        mode += REPLY
        extras += reply_values(outcome.reply)
    if outcome.outgoing:
        mode += _outgoing(outcome.outgoing, extras, window)
    if outcome.events:
        mode += Mark.EVENTS
        extras += (len(outcome.events), *chain.from_iterable(map(write_values, outcome.events)))
    return mode, extras


def log_values(changes: Sequence[LogChange]) -> list[Argument]:
    """Changes of logs as the Lua functions take them: count, then for each: field, items that are dropped, count, items."""
    values: list[Argument] = [len(changes)]
    for field, dropped, appended in changes:
        values += (field, dropped, len(appended), *appended)
    return values


def write_values(write: RunWrite) -> list[Argument]:
    """A write to a run as the Lua functions take it, see `lua/shared/runs.lua`."""
    values: list[Argument] = [write.run, write.most, write.kept_for, write.tag, write.settles, write.since]
    values.append(len(write.events))
    values += chain.from_iterable(write.events)
    return values


def _claims(outcome: Commit) -> list[Claim]:
    """The bytes that the reply and the outgoing messages point to."""
    claims = []
    for posting in outcome.outgoing:  # most have one message: a comprehension takes twice as long then
        if posting.claim is not None:
            claims.append(posting.claim)  # noqa: PERF401
    if outcome.reply is not None and outcome.reply.claim is not None:
        claims.append(outcome.reply.claim)
    return claims


def reply_values(reply: Posting) -> tuple[Any, ...]:
    """A reply as the Lua functions take it: process, call id or "", id, type, from, head, body."""
    message_id, message_type, _, sender, head, body = encode(reply.envelope)
    return reply.stream[PROCESS:], reply.idempotency_id, message_id, message_type, sender, head, body


def _outgoing(postings: Sequence[Posting], extras: list[Any], window: int) -> str:
    """Adds messages to the arguments; returns the mark for it."""
    for posting in postings:  # most commits have one message, without such an id
        if posting.idempotency_id:
            return _identified(postings, extras, window)
    extras.append(len(postings))
    for envelope, stream, due, _, _, _, _ in postings:
        extras += (stream, due)
        extras += encode(envelope)
    return OUTGOING


def _identified(postings: Sequence[Posting], extras: list[Any], window: int) -> str:
    """The same for messages of which some have an idempotency id."""
    extras += (window, len(postings))
    for posting in postings:
        extras += (posting.idempotency_id, posting.stream, posting.due, *encode(posting.envelope))
    return Mark.IDENTIFIED


def _dead(delivery: Delivery, outcome: DeadLetter, mode: str, before: Sequence[Any]) -> ModeAndValues:
    error = outcome.error
    shown = f"{error.type}: {error.message}" if error else ""
    trace = error.traceback if error else ""
    texts = (_writable(outcome.reason), _writable(shown), _writable(trace))
    extras: list[Any] = [*before, *texts, delivery.attempt, delivery.first_tried]
    if outcome.reply is not None:
        mode += Mark.REPLY
        extras += reply_values(outcome.reply)
    return mode, extras


def _writable(text: str) -> bytes:
    """The text of an error may have anything in it, such as a file name that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace")
