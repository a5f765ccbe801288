"""The message of one due time of a schedule, as it leaves."""

from __future__ import annotations

from callboard.broker import MessageRegistry, TopicId
from callboard.broker.encoding.claims import Claim, is_set_aside
from callboard.broker.encoding.limits import Limits
from callboard.broker.envelope import Posting, event
from callboard.broker.ids import IdSource
from callboard.broker.redis import keys
from callboard.broker.redis.client.transport import RedisTransport
from callboard.schedules import Firing, Schedule

_ids = IdSource()


def posting_of(
    transport: RedisTransport,
    registry: MessageRegistry,
    schedule: Schedule,
    firing: Firing,
    idempotency_id: str = "",
) -> Posting:
    """What is sent for a due time.

    Args:
        transport: The connection to the server, for its limits.
        registry: Message classes.
        schedule: What is due.
        firing: When it is due: before that time of the server's clock it does not arrive.
        idempotency_id: Under which it is accepted once; "": always.

    Raises:
        EncodeError: The message can't be written, or is too large.
    """
    settings = transport.settings
    message, goal = schedule.send(firing)
    kind = registry.entry_for(message)
    body, claim = kind.encode(message, Limits.of(settings)), None
    if is_set_aside(len(body), None, settings):
        claim = Claim(f"blob:{_ids.next()}", body)
        body = claim.pointer
    if isinstance(goal, TopicId):
        stream, key = keys.topic(goal.type), goal.source
    else:
        stream, key = keys.inbox(goal.type), goal.key
    run = firing.id if schedule.is_run else None
    envelope = event(
        firing.id, kind.name, key, None, body, version=kind.version, claimed=claim is not None, run=run
    )
    return Posting(envelope, stream, -firing.due, idempotency_id, claim=claim)
