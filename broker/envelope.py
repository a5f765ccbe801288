"""A message with everything that travels along with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["event", "request", "reply", "control"]
Route = tuple[str, str]


class Envelope(NamedTuple):
    """One message as it is in a stream. A NamedTuple: one is made for every message.

    Attributes:
        id: unique; the same in every attempt.
        type: wire name of the message class.
        key: key of the agent it is for (the topic's source).
        sender: `type/key` of the agent that sent it, or None.
        at: when it was published, server ms.
        body: the encoded message.
        kind: event, request, reply or control.
        topic: topic type it was published to when the stream does not say it (replayed dead letters).
        reply_to: process that waits for the reply.
        recorded: the reply is kept, because a handler asked that may run again.
        cause: id of the message whose handler sent it.
        chain: agents whose requests led here, the nearest last.
        deadline: server ms until which somebody waits for it.
        cancellable: its sender may cancel it.
        version: version of the message class.
        trace: headers of a trace (W3C names).
        error: a reply that carries an error.
        claimed: the body is a pointer to bytes beside the stream, see claims.py.
        routes: agents of the chain that let requests in while they wait -> the message that each of them handles,
            and the request that it waits for.
    """

    id: str
    type: str
    key: str
    sender: str | None
    at: int
    body: bytes
    kind: Kind = "event"
    topic: str | None = None
    reply_to: str | None = None
    recorded: bool = False
    cause: str | None = None
    chain: tuple[str, ...] = ()
    deadline: int | None = None
    cancellable: bool = False
    version: int = 1
    trace: Mapping[str, str] | None = None
    error: bool = False
    claimed: bool = False
    routes: Mapping[str, Route] | None = None
