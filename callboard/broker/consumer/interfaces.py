"""The lane and the handler that a consumer is given, and the values that pass between them.

The consumer knows neither Redis nor agents: a lane of `broker.redis.client` and a host of `callboard.runtime` fit these
protocols, and so do those of the tests.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from callboard.broker.delivery import Delivery
from callboard.broker.outcome import Outcome


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
"""The end of a delivery, to be committed by a turn: the delivery, how it ended, and whether it is the last of its agent.

With the last one the worker holds nothing more of the agent, so that the commit frees it for other workers. (A plain
tuple: there is one for every message, and a class costs several times as much to make.)
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
        asked_ms: when the turn was sent, by the steady clock of `client/clock.py`; None: it is not known.
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
    """What came of waiting at the bell with a turn.

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

        Its name is "" where the request is nobody's to take: it went to an activation that waits.
        """


class Handler(Protocol):
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
