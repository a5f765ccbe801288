"""A look at the server after a test has done something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.broker import TopicId
from callboard.broker.encoding.claims import Pointer
from callboard.broker.encoding.limits import Limits
from callboard.broker.redis.keys import topic as topic_suffix
from callboard.broker.redis.operations.deadletters import DeadLetterRecord, list_letters
from callboard.broker.redis.operations.entries import fields_of, read_envelope
from callboard.runtime.runtime import RedisAgentRuntime

ALL = 1_000_000  # entries or letters; more than a test makes


async def published(runtime: RedisAgentRuntime, topic: str | TopicId) -> list[Any]:
    """The messages that are in a topic, the oldest first, whether they were handled or not.

    Args:
        runtime: one whose registry knows the classes of the messages.
        topic: the type of a topic, or one topic with its source.

    Raises:
        DecodeError: one of them can't be read here.
        ClaimLostError: the body of one lay beside its stream and was deleted with the last commit that needed it.
    """
    name, source = (topic.type, topic.source) if isinstance(topic, TopicId) else (topic, None)
    await runtime.open()
    transport = runtime.transport
    stream = topic_suffix(name)
    raw = await transport.admin.command("XRANGE", transport.keys.of(stream), "-", "+", "COUNT", ALL)
    messages = [await _message(runtime, stream, item) for item in raw]
    return [message for key, message in messages if source is None or key == source]


async def _message(runtime: RedisAgentRuntime, stream: str, raw: Sequence[Any]) -> tuple[str, Any]:
    """The key that a message is for, and the message."""
    limits = Limits.of(runtime.settings)
    envelope = read_envelope(stream, raw[0].decode(), fields_of(raw[1]), limits)
    body = envelope.body
    if envelope.claimed:
        body = await runtime.transport.claims.fetch(Pointer.read(body))
        limits = Limits.of_claims(runtime.settings)
    return envelope.key, runtime.registry.decode(envelope.type, envelope.version, body, limits)


async def dead_letters(runtime: RedisAgentRuntime, agent_type: str | None = None) -> list[DeadLetterRecord]:
    """The messages that failed for good, the oldest first.

    Args:
        runtime: one of the application.
        agent_type: whose; None: of all.
    """
    await runtime.open()
    return list(reversed(await list_letters(runtime.transport, agent_type, ALL)))
