"""What a handler is told about its message, made as far as the handler looks at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from callboard.broker import AgentId, MessageRegistry, TopicId
from callboard.broker.delivery import Delivery
from callboard.broker.envelope import Envelope
from callboard.broker.redis.client.transport import RedisTransport
from callboard.cancellation import CancellationToken
from callboard.context import MessageContext

from .once import Recorder
from .run_paths import id_in


class Surroundings:
    """What the contexts of all messages of one worker have in common.

    Args:
        transport: the connection to the server.
        registry: message classes.
    """

    __slots__ = ("_topics", "namespace", "registry", "transport")

    def __init__(self, transport: RedisTransport, registry: MessageRegistry) -> None:
        self.transport = transport
        self.registry = registry
        self.namespace = transport.settings.namespace
        self._topics: dict[bytes, str] = {}

    def topic_in(self, stream: bytes) -> str:
        """The topic type whose stream this is; "": it is that of an inbox."""
        name = self._topics.get(stream)
        if name is None:
            kind, _, name = stream.decode().partition(":")
            self._topics[stream] = name = name if kind == "topic" else ""
        return name


class HandlerContext(MessageContext):
    """The context of a message that a worker handles.

    Most handlers look at little of it, and to make all of it takes a tenth of the time of a message. So a field has no
    value until somebody looks: then `__getattr__` is called, makes it, and keeps it in the field.

    Attributes:
        is_recorded: its recorder was looked at, so that it may have recorded something.
    """

    __slots__ = ("_agent_type", "_around", "_delivery", "_envelope", "is_recorded")

    _agent_type: str
    _around: Surroundings
    _delivery: Delivery
    _envelope: Envelope
    is_recorded: bool

    @classmethod
    def of(
        cls, around: Surroundings, agent_type: str, envelope: Envelope, delivery: Delivery
    ) -> HandlerContext:
        """The context of a message.

        Args:
            around: what it has in common with others.
            agent_type: of the agent that handles it.
            envelope: the message.
            delivery: the one that it came with; a nested request: the one whose handler let it in.
        """
        made = cls.__new__(cls)
        made._around = around
        made._agent_type = agent_type
        made._envelope = envelope
        made._delivery = delivery
        made.is_rpc = envelope.kind == "request"
        made.is_recorded = False
        return made

    def __getattr__(self, name: str) -> Any:
        make = LATER.get(name)
        if make is None:
            raise AttributeError(f"a MessageContext has no attribute {name!r}", name=name, obj=self)
        value = make(self)
        setattr(self, name, value)
        return value

    def _make_sender(self) -> AgentId | None:
        sender = self._envelope.sender
        return AgentId.from_str(sender) if sender else None

    def _make_topic_id(self) -> TopicId | None:
        """None: it was sent to the agent itself."""
        envelope = self._envelope
        if self.is_rpc:
            return None
        name = envelope.topic or self._around.topic_in(self._delivery.stream)
        return TopicId(name, envelope.key) if name else None

    def _make_token(self) -> CancellationToken:
        return CancellationToken()

    def _make_message_id(self) -> str:
        return self._envelope.id

    def _make_attempt(self) -> int:
        return self._delivery.attempt

    def _make_scope(self) -> str:
        return f"{self._around.namespace}/{self._agent_type}"

    def _make_deadline(self) -> float | None:
        deadline = self._envelope.deadline
        return None if deadline is None else deadline / 1000

    def _make_recorder(self) -> Recorder:
        self.is_recorded = True
        envelope, delivery, around = self._envelope, self._delivery, self._around
        kept_with = delivery.envelope.id
        if envelope is delivery.envelope:
            prefix, run = "", envelope.run
        else:
            prefix, run = f"{envelope.id}:", None
        return Recorder(around.transport, around.registry, self._agent_type, kept_with, delivery, prefix, run)

    def _make_run_id(self) -> str | None:
        run = self._envelope.run
        return None if run is None else id_in(run)


LATER: Final[dict[str, Callable[[HandlerContext], Any]]] = {
    "sender": HandlerContext._make_sender,
    "topic_id": HandlerContext._make_topic_id,
    "cancellation_token": HandlerContext._make_token,
    "message_id": HandlerContext._make_message_id,
    "attempt": HandlerContext._make_attempt,
    "deadline": HandlerContext._make_deadline,
    "recorder": HandlerContext._make_recorder,
    "scope": HandlerContext._make_scope,
    "run_id": HandlerContext._make_run_id,
}
"""Each field of a context but `is_rpc`, which all handlers are chosen by."""
