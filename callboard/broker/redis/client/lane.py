"""A worker's line to the server: join, turns (commit what is done, take new work), the bell, and leaving."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from callboard.broker.consumer.interfaces import ConsumedType, Ending, Incarnation, Pull, Rung, Turn
from callboard.broker.delivery import Delivery, read_deliveries
from callboard.broker.encoding.limits import Limits
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    OverloadedError,
    ServerUnavailableError,
)
from callboard.broker.outcome import Outcome
from callboard.broker.redis import keys
from callboard.broker.redis.scripts import is_missing

from .clock import steady_ms
from .commands import Beginning
from .commits import Done, as_done
from .connection import Link
from .endpoint import Argument
from .identity import own_name
from .turns import add_commits, as_words, held_in, is_sendable, read_turn, terms_of

logger = logging.getLogger("callboard.broker")

BEFORE = 4  # place of the number of the call before in an answer
SCAN, AT_BELL = 5, "b"  # place of an argument of a turn, and what it is for one that waits at a bell


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
        done = [as_done(delivery, outcome, is_last, window) for delivery, outcome, is_last in endings]
        return await self.commit_and_pull(done, pull)

    async def commit_and_pull(self, done: Sequence[Done], pull: Pull) -> Turn:
        """The same with commits that are encoded already."""
        number, worker = self._next_call(), self.worker
        asked = steady_ms()
        self._in_turn = True
        try:
            answer = await self._link.run("turn", self._arguments(number, done, pull))
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

    def _arguments(self, number: int, done: Sequence[Done], pull: Pull) -> list[Argument]:
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
        add_commits(arguments, done)
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
            return is_sendable(as_done(delivery, outcome, True, self._link.settings.dedupe_window))
        except EncodeError:  # the head of a message that leaves with it is packed here already
            return False

    async def resync(self) -> list[Delivery]:
        """What this worker holds as the server sees it; copies of older calls that still arrive are refused.

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
            then somebody may have rung.
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
            # Not through the bell's own connection, which is busy while somebody waits on it.
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
