"""Conversations as they are stored: which there are, and what was said, without the code of the app.

A conversation is kept as long as the state of its agent, in the agent's logs: of a team the manager's `thread`, of a role
its `memory`, of an agent of one's own the log of the same name. Runs, which are kept for days, are not needed for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport, literally

FIELDS: Final = ("thread", "memory")
"""The logs that hold what was said, by what a team's manager, an assistant and a role call theirs."""
PAGE: Final = 200  # items of a log in one call


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation.

    Attributes:
        agent_type: Whose it is, such as the agent type of a team.
        key: Its id: the key of the agent.
        field: The log that holds it.
        items: How many messages and events it has.
        last_at: When the last one was made; None: they do not say.
        last_by: Who said it; "": it does not say.
    """

    agent_type: str
    key: str
    field: str
    items: int
    last_at: datetime | None
    last_by: str


@dataclass(frozen=True, slots=True)
class Utterance:
    """One item of a conversation.

    Attributes:
        number: Its place, from 0.
        at: When it was made; None: it does not say.
        by: Who said it; "": it does not say.
        kind: What kind of message or event it is; "": it does not say.
        text: What was said, as text; what is no text as JSON.
        is_said: Whether the others in the conversation hear it; else it only happened on the way, such as a call of a tool.
        data: The item as it is stored.
    """

    number: int
    at: datetime | None
    by: str
    kind: str
    text: str
    is_said: bool
    data: Any


async def conversations(
    transport: RedisTransport, *, agent_type: str | None = None, key: str | None = None
) -> list[Conversation]:
    """The conversations of a namespace, the one that was spoken in last first.

    Args:
        transport: Where.
        agent_type: Only those of this type; None: of all.
        key: Only those with this id; None: all.

    Raises:
        BrokerError: The server does not answer, or the user may not look.
    """
    found = [
        await _conversation(transport, *place)
        for field in FIELDS
        async for place in _places(transport, agent_type, key, field)
    ]
    return sorted(found, key=lambda one: (one.last_at is not None, one.last_at), reverse=True)


async def _places(
    transport: RedisTransport, agent_type: str | None, key: str | None, field: str
) -> AsyncIterator[tuple[str, str, str]]:
    """Type, key and field of each log of a name; the type has no colon, the key may have."""
    start = transport.keys.of("log:")
    names = "*" if agent_type is None else literally(agent_type)
    keys = "*" if key is None else literally(key)
    seen: set[bytes] = set()
    async for page in scan(transport.admin, "SCAN", pattern=f"{literally(start)}{names}:{keys}:{field}"):
        for name in page:
            rest = name.decode(errors="surrogateescape")[len(start) : -len(field) - 1]
            its_type, _, its_key = rest.partition(":")
            if name not in seen and key in (None, its_key):
                seen.add(name)
                yield its_type, its_key, field


async def _conversation(transport: RedisTransport, agent_type: str, key: str, field: str) -> Conversation:
    log = transport.keys.of(f"log:{agent_type}:{key}:{field}")
    items = await transport.admin.command("LLEN", log)
    last = await transport.admin.command("LINDEX", log, -1)
    said = _utterance(items - 1, last or b"null")
    return Conversation(agent_type, key, field, items, said.at, said.by)


async def utterances(
    transport: RedisTransport, one: Conversation, *, last: int | None = None
) -> AsyncIterator[Utterance]:
    """What a conversation has, oldest first.

    Args:
        transport: Where.
        one: The conversation.
        last: Only so many at its end; None: all.
    """
    log = transport.keys.of(f"log:{one.agent_type}:{one.key}:{one.field}")
    number = 0 if last is None else max(0, one.items - last)
    while number < one.items:
        page = await transport.admin.command("LRANGE", log, number, min(number + PAGE, one.items) - 1)
        for item in page:
            yield _utterance(number, item)
            number += 1
        if not page:
            return


def _utterance(number: int, item: bytes) -> Utterance:
    """An item of whatever kind: an entry of a team, a message to or from a model, a message of a role, or anything else."""
    try:
        data = json.loads(item)
    except ValueError:
        data = item.decode(errors="replace")
    fields: Mapping[str, Any] = data if isinstance(data, dict) else {}
    message = fields.get("message")
    inner: Mapping[str, Any] = message if isinstance(message, dict) else fields
    by = str(fields.get("by") or _first(inner, ("source", "sent_from", "role")))
    return Utterance(
        number=number,
        at=_moment(inner.get("created_at")),
        by=by,
        kind=str(inner.get("type") or ""),
        text=_text(inner.get("content", data)),
        is_said=bool(fields.get("is_said", True)),
        data=data,
    )


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((str(fields[name]) for name in names if fields.get(name)), "")


def _moment(text: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content and all(isinstance(part, str) for part in content):
        return "\n".join(content)
    return json.dumps(content, ensure_ascii=False)
