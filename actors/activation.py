"""What a running handler adds to its commit: one object per message being handled, found through a context variable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from broker import AgentId
from broker.claims import Claim
from broker.envelope import Route
from broker.ids import derived_id
from broker.redis.publisher import Posting

if TYPE_CHECKING:
    from .context import MessageContext
    from .reentry import Reentry


class Activation:
    """One message being handled by one agent.

    Attributes:
        agent_id: the agent.
        message_id: the message.
        chain: the agents whose requests led here, the nearest last.
        context: what the handler knows of the message; None before the host has made it.
        deadline: server ms until which the asker of this request waits, or None.
        outgoing: what leaves with the commit.
        claims: the bytes that some of it points to.
        has_sent: something left at once, so that the commit has to forget it.
        owner: the transport that the message came by.
        is_over: the handler has ended, so that nothing can leave with its commit any more.
        routes: how to reach agents of the chain that let requests in while they wait, see Envelope.
        reentry: what lets requests in while this handler waits; None: they are refused.
        before_commit: awaited in order when the handler has succeeded; what they publish belongs to its commit.
        add_waiting: told 1 when it begins to wait for a reply, -1 when that ends.
    """

    __slots__ = (
        "_asked",
        "_ordinal",
        "_taken",
        "add_waiting",
        "agent_id",
        "before_commit",
        "chain",
        "claims",
        "context",
        "deadline",
        "has_sent",
        "is_over",
        "message_id",
        "outgoing",
        "owner",
        "reentry",
        "routes",
    )

    def __init__(
        self,
        agent_id: AgentId,
        message_id: str,
        chain: tuple[str, ...],
        deadline: int | None,
        owner: object = None,
        add_waiting: Callable[[int], None] | None = None,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.before_commit: list[Callable[[], Awaitable[None]]] = []
        self.add_waiting = add_waiting
        self.message_id = message_id
        self.chain = chain
        self.context: MessageContext | None = None
        self.deadline = deadline
        self.outgoing: list[Posting] = []
        self.claims: tuple[Claim, ...] = ()
        self.has_sent = False
        self.owner = owner
        self.is_over = False
        self.routes = routes
        self.reentry: Reentry | None = None
        self._ordinal = 0
        self._asked: dict[bytes, int] | None = None
        self._taken: dict[str, set[int]] | None = None

    def sends_at_once(self, name: str) -> str:
        """The idempotency id of a message that leaves before the commit: it leaves once however often this runs."""
        self.has_sent = True
        return f">{self.agent_id.type}:{self.message_id}|{name}"

    def next_id(self) -> str:
        """The id of the next message that this handler publishes: the same in every attempt at the message."""
        self._ordinal += 1
        return derived_id(self.message_id, str(self.agent_id), self._ordinal)

    def request_id(self, request: bytes) -> str:
        """The id of a request: the same in every attempt, also when several leave at once in another order.

        Args:
            request: recipient and body.
        """
        if self._asked is None:
            self._asked = {}
        count = self._asked[request] = self._asked.get(request, 0) + 1
        return derived_id(self.message_id, str(self.agent_id), count, request)

    def take_number(self, what: str) -> int:
        """The lowest number, from 1, that no equal thing of this run has yet."""
        if self._taken is None:
            self._taken = {}
        taken = self._taken.setdefault(what, set())
        number = 1
        while number in taken:
            number += 1
        taken.add(number)
        return number

    def give_back(self, what: str, number: int) -> None:
        """The number belongs to nothing any more: what had it failed."""
        if self._taken is not None:
            self._taken.get(what, set()).discard(number)


current: ContextVar[Activation | None] = ContextVar("callboard_activation", default=None)


def running(owner: object) -> Activation | None:
    """The activation that a message sent here by `owner` is part of, or None.

    A task that a handler left behind, and another runtime that a handler uses, see the variable too: what they send is
    in nobody's commit and leaves at once.
    """
    activation = current.get()
    if activation is None or activation.is_over or activation.owner is not owner:
        return None
    return activation
