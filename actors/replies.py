"""The two ends of a delivery that are the same for every request: reading the message, and writing the reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker import AgentId, BrokerSettings, MessageRegistry
from broker.claims import Claim, Pointer, is_set_aside, reply_claim
from broker.codec import head_of_reply
from broker.envelope import Envelope
from broker.limits import Limits
from broker.redis.transport import RedisTransport
from broker.remote_errors import encode_error

Reply = tuple[Any, ...]  # process, call id or "", id, type, from, head, body


async def fetch_message(
    transport: RedisTransport, registry: MessageRegistry, envelope: Envelope, pointer: Pointer
) -> Any:
    """The message whose bytes lie beside the stream.

    Raises:
        ClaimLostError, ClaimTooLargeError: they are not there, or too many.
        DecodeError: they can't be read.
    """
    body = await transport.claims.fetch(pointer)
    limits = Limits.of_claims(transport.settings)
    return registry.decode(envelope.type, envelope.version, body, limits)


def reply_to(
    envelope: Envelope, sender: AgentId, result: Any, registry: MessageRegistry, settings: BrokerSettings
) -> tuple[Reply, Claim | None]:
    """The reply to a request, and the bytes that it points to when they are many.

    Raises:
        EncodeError: the result can't be written.
        PayloadTooLargeError: it is too large.
    """
    entry = registry.entry_for(result)
    body = entry.encode(result)
    claim = _claim(envelope, body, settings) if len(body) > settings.max_payload else None
    if claim is not None:
        body = claim.pointer
    head = head_of_reply(entry.version, error=False, claimed=claim is not None)
    call_id = envelope.id if envelope.recorded else ""
    return (envelope.reply_to or "", call_id, envelope.id, entry.name, str(sender), head, body), claim


def _claim(envelope: Envelope, body: bytes, settings: BrokerSettings) -> Claim:
    """Whoever sent a request with claim_check takes its reply like this as well."""
    if envelope.claimed and not settings.claim_check:
        settings = replace(settings, claim_check=True)
    is_set_aside(len(body), None, settings)
    return reply_claim(envelope.id, body)


def error_reply_to(envelope: Envelope, error: BaseException) -> Reply | None:
    """The error as a reply; None when nobody waits for one."""
    if envelope.kind != "request" or not envelope.reply_to:
        return None
    head = head_of_reply(1, error=True)
    call_id = envelope.id if envelope.recorded else ""
    return (envelope.reply_to, call_id, envelope.id, "error", "", head, encode_error(error))
