"""Dead letters: what failed for good and why; sending it again, or away with it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callboard.broker.envelope import head_of
from callboard.broker.errors import DecodeError
from callboard.broker.limits import Limits, unpack
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import dead as dead_suffix

from .entries import fields_of, read_envelope
from .inspect import moment, number

AT_ONCE = 50  # letters in one call: each may be as large as the largest message
MOST_SEARCHED = 10_000  # letters among which that of a message is looked for
BINARY = ("body", "head")  # fields that are not text
ENTRY_ID = re.compile(r"\d{1,20}(-\d{1,20})?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    """One message that failed for good, for one agent type.

    Attributes:
        id: id of the letter, for `show`, `replay` and `discard`.
        agent_type: the type that failed; other subscribers of the topic are not concerned.
        message_id: id of the message.
        message_type: wire name of the message.
        key: key of the agent.
        sender: `type/key` of the agent that sent it, or None.
        at: when it was published, ms as text; "" when the entry did not say.
        reason: why it is here: `failed`, `permanent`, `crashed`, `expired`, `decode: ...`, or what was wrong
            with the entry.
        error: the last exception as `Type: text`, "" when there was none.
        traceback: of that exception, or "".
        attempts: how often it was tried.
        first: when it was tried first, server ms.
        last: when it was given up, server ms.
        stream: suffix of the stream it came from.
        entry: id of its entry there.
        worker: worker that tried it last, or "".
        payload: the body as plain data; None when it can't be read.
        problem: why the body can't be read, else "".
        body: the body as it is.
        head: the head as it is.
    """

    id: str
    agent_type: str
    message_id: str
    message_type: str
    key: str
    sender: str | None
    at: str
    reason: str
    error: str
    traceback: str
    attempts: int
    first: int
    last: int
    stream: str
    entry: str
    worker: str
    payload: Any
    problem: str
    body: bytes = field(repr=False)
    head: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledLetters:
    """The letters that were replayed or discarded, and those that could not be, by their ids.

    Attributes:
        done: sent again, or discarded.
        gone: were not there (any more).
        refused: can't be sent again, because they were never a message (too large, or without a type).
    """

    done: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


async def list_letters(
    transport: RedisTransport, agent_type: str | None = None, limit: int = 100
) -> tuple[DeadLetterRecord, ...]:
    """The newest letters of one agent type, or of all, newest first.

    Args:
        transport: where.
        agent_type: None: all of them.
        limit: how many at most.
    """
    names = [agent_type] if agent_type is not None else await _agent_types(transport)
    found: list[DeadLetterRecord] = []
    for name in names:
        raw = await transport.admin.command("XREVRANGE", _stream(transport, name), "+", "-", "COUNT", limit)
        found += (_letter(name, item, transport) for item in raw or [])
    return tuple(sorted(found, key=_age, reverse=True)[:limit])


async def letters_after(
    transport: RedisTransport, agent_type: str, after: str = ""
) -> AsyncIterator[DeadLetterRecord]:
    """All letters of one agent type that are there now and newer than one, oldest first, however many they are.

    Args:
        transport: where.
        agent_type: whose letters.
        after: id of a letter; "": from the oldest on.
    """
    name, start = _stream(transport, agent_type), f"({after}" if after else "-"
    newest = await transport.admin.command("XREVRANGE", name, "+", "-", "COUNT", 1)
    while newest:
        raws = await transport.admin.command("XRANGE", name, start, newest[0][0], "COUNT", AT_ONCE)
        for raw in raws:
            yield _letter(agent_type, raw, transport)
        if len(raws) < AT_ONCE:
            return
        start = "(" + raws[-1][0].decode()


async def has_letters(transport: RedisTransport, agent_type: str) -> bool:
    """Whether there are dead letters of an agent type, which may not be declared any more."""
    return bool(await transport.admin.command("EXISTS", _stream(transport, agent_type)))


async def show(transport: RedisTransport, agent_type: str, id: str) -> DeadLetterRecord | None:
    """One letter, or None when it is not there.

    Args:
        transport: where.
        agent_type: whose letter.
        id: id of the letter, or of the message, which is looked for among the type's newest 10,000 letters.
    """
    raw = await _fetch(transport, agent_type, id)
    return None if raw is None else _letter(agent_type, raw, transport)


async def replay(
    transport: RedisTransport, agent_type: str, ids: Iterable[str] | None = None
) -> HandledLetters:
    """Sends letters again, to the agent type that failed only; each goes once, however often this is called.

    The message keeps its id, its sender and its topic; it has no deadline any more. It is handled after what
    waits already.

    Args:
        transport: where.
        agent_type: whose letters.
        ids: ids of letters; None: all that are there now.
    """
    return await _act(transport, agent_type, "replay", ids)


async def discard(
    transport: RedisTransport, agent_type: str, ids: Iterable[str] | None = None
) -> HandledLetters:
    """Deletes letters; `ids` as in `replay`."""
    return await _act(transport, agent_type, "discard", ids)


async def _agent_types(transport: RedisTransport) -> list[str]:
    names = await transport.admin.command("HKEYS", transport.keys.of("types"))
    return sorted(name.decode(errors="replace") for name in names)


def _stream(transport: RedisTransport, agent_type: str) -> str:
    return transport.keys.of(dead_suffix(agent_type))


async def _fetch(transport: RedisTransport, agent_type: str, id: str) -> Sequence[Any] | None:
    if ENTRY_ID.match(id):
        found = await transport.admin.command("XRANGE", _stream(transport, agent_type), id, id)
        if found:
            letter: Sequence[Any] = found[0]
            return letter
    return await _of_message(transport, agent_type, id)


async def _of_message(transport: RedisTransport, agent_type: str, id: str) -> Sequence[Any] | None:
    """The newest letter of a message."""
    name, end = _stream(transport, agent_type), "+"
    for _ in range(MOST_SEARCHED // AT_ONCE):
        raws = await transport.admin.command("XREVRANGE", name, end, "-", "COUNT", AT_ONCE)
        for raw in raws:
            if fields_of(raw[1]).get("id") == id.encode():
                letter: Sequence[Any] = raw
                return letter
        if len(raws) < AT_ONCE:
            break
        end = "(" + raws[-1][0].decode()
    return None


async def _act(
    transport: RedisTransport, agent_type: str, action: str, ids: Iterable[str] | None
) -> HandledLetters:
    done: dict[str, list[str]] = {"done": [], "gone": [], "not replayable": []}
    pages = _all(transport, agent_type) if ids is None else _some(transport, agent_type, ids)
    async for letters, missing in pages:
        done["gone"] += missing
        arguments = [value for letter in letters.items() for value in letter]
        answer = await transport.admin.run("replay", (agent_type, action, *arguments)) if letters else []
        for i in range(0, len(answer), 2):
            done[answer[i + 1].decode()].append(answer[i].decode())
    return HandledLetters(
        done=tuple(done["done"]), gone=tuple(done["gone"]), refused=tuple(done["not replayable"])
    )


Page = tuple[dict[str, bytes], list[str]]  # letter id -> head to send it with; ids that are not there


async def _all(transport: RedisTransport, agent_type: str) -> AsyncIterator[Page]:
    """Up to the letter that is the newest now: one that fails again meanwhile is not sent in a circle."""
    name, start = _stream(transport, agent_type), "-"
    newest = await transport.admin.command("XREVRANGE", name, "+", "-", "COUNT", 1)
    while newest:
        raws = await transport.admin.command("XRANGE", name, start, newest[0][0], "COUNT", AT_ONCE)
        if not raws:
            return
        yield {raw[0].decode(): _head_for_replay(raw, transport) for raw in raws}, []
        start = "(" + raws[-1][0].decode()


async def _some(transport: RedisTransport, agent_type: str, ids: Iterable[str]) -> AsyncIterator[Page]:
    letters: dict[str, bytes] = {}
    missing: list[str] = []
    for letter_id in dict.fromkeys(ids):
        raw = await _fetch(transport, agent_type, letter_id)
        if raw is None:
            missing.append(letter_id)
        else:
            letters[raw[0].decode()] = _head_for_replay(raw, transport)
        if len(letters) == AT_ONCE:
            yield letters, missing
            letters, missing = {}, []
    yield letters, missing


def _head_for_replay(raw: Sequence[Any], transport: RedisTransport) -> bytes:
    """The head with the topic that the stream's name said until now, and without the deadline."""
    fields = fields_of(raw[1])
    try:
        envelope = read_envelope("", raw[0].decode(), fields, Limits.of(transport.settings))
    except DecodeError:
        # It can't be read now and will fail again; the operator who asked for it finds the same letter once more.
        return fields.get("head", b"")
    origin, _, name = fields.get("stream", b"").decode(errors="replace").partition(":")
    topic = envelope.topic or (name if origin == "topic" else None)
    return head_of(envelope._replace(topic=topic, deadline=None))


def _letter(agent_type: str, raw: Sequence[Any], transport: RedisTransport) -> DeadLetterRecord:
    fields = fields_of(raw[1])
    text = {
        name: value.decode(errors="replace") for name, value in fields.items() if name not in ("body", "head")
    }
    payload, problem = _payload(fields, Limits.of(transport.settings))
    return DeadLetterRecord(
        id=raw[0].decode(),
        agent_type=agent_type,
        message_id=text.get("id", ""),
        message_type=text.get("type", ""),
        key=text.get("key", ""),
        sender=text.get("from") or None,
        at=text.get("at", ""),
        reason=text.get("reason", ""),
        error=text.get("error", ""),
        traceback=text.get("traceback", ""),
        attempts=number(text.get("attempts")) or 0,
        first=moment(text.get("first")) or 0,
        last=moment(text.get("last")) or 0,
        stream=text.get("stream", ""),
        entry=text.get("entry", ""),
        worker=text.get("worker", ""),
        payload=payload,
        problem=problem,
        body=fields.get("body", b""),
        head=fields.get("head", b""),
    )


def _payload(fields: Mapping[str, bytes], limits: Limits) -> tuple[Any, str]:
    try:
        return unpack(fields.get("body", b""), limits), ""
    except DecodeError as error:
        return None, str(error)


def _age(letter: DeadLetterRecord) -> tuple[int, int]:
    ms, _, number = letter.id.partition("-")
    return int(ms), int(number)
