"""Forgetting a key: all that a namespace holds of the agents with one key, such as a customer or a conversation, is deleted.

First it is looked for (`find`), so that a person sees what goes. Then the agents are paused, so that no handler runs while
what it would use is taken away; entries, states, logs, records, questions and timers go; the books are mended, and the
agents go on. A message that comes meanwhile is handled afterwards, by an agent that begins anew. A deletion that was
interrupted leaves the agents paused, and is given again: what a message leads to goes before the message, so that it is
found once more.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callboard.broker.errors import BrokerError
from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport, literally

from .deadletters import discard
from .entries import fields_of
from .inspect import pages

__all__ = ["Forgotten", "KeyBusyError", "find", "forget", "named_in"]

PAGE: Final = 200  # entries of a stream in one call
AT_ONCE: Final = 100  # keys, fields or ids in one command
PATIENCE: Final = 30.0  # seconds that a running handler gets to end
LOOK_EVERY: Final = 0.1  # seconds
BY: Final = "forget"
"""Who pauses the agents meanwhile, as `callboard status` shows it."""


class KeyBusyError(BrokerError):
    """A handler of an agent with the key runs and does not end; nothing was deleted."""

    template = (
        "{agent} runs a handler and has not ended it within {seconds:g} s: nothing was deleted, and it is paused no more. "
        "Try again later, or stop its worker"
    )

    agent: str
    seconds: float


@dataclass(slots=True)
class Forgotten:
    """What a namespace holds of the agents with a key, by names as they stand in Redis without the namespace.

    Attributes:
        states: Stored states, as `state:<type>:<key>`.
        logs: Logs of states.
        entries: Messages in topics and inboxes, and resets, as ids of entries by stream.
        letters: Dead letters, as ids by agent type.
        messages: Ids of all of these messages, to which what handlers recorded belongs.
        delayed: Delayed messages, as names of timers.
        questions: Ids of questions, answered ones included.
        requests: Replies that are kept for those who ask again, such as who starts a run.
        usage: What models used for these agents.
    """

    states: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    entries: dict[str, list[str]] = field(default_factory=dict)
    letters: dict[str, list[str]] = field(default_factory=dict)
    messages: set[str] = field(default_factory=set)
    delayed: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    usage: list[str] = field(default_factory=list)

    @property
    def references(self) -> set[str]:
        """Its messages, as other keys of the namespace name them."""
        places = {**self.entries, **{f"dead:{name}": ids for name, ids in self.letters.items()}}
        return {f"{stream} {entry}" for stream, ids in places.items() for entry in ids}

    @property
    def counts(self) -> dict[str, int]:
        """How much there is of each kind."""
        return {
            "states": len(self.states),
            "logs": len(self.logs),
            "messages in topics and inboxes": sum(map(len, self.entries.values())),
            "dead letters": sum(map(len, self.letters.values())),
            "delayed messages": len(self.delayed),
            "questions": len(self.questions),
            "replies": len(self.requests),
            "usage of models": len(self.usage),
        }


async def find(transport: RedisTransport, key: str, types: Collection[str] | None = None) -> Forgotten:
    """All that is of the agents with a key. Changes nothing.

    Args:
        transport: Where.
        key: The key.
        types: Only of agents of these types; None: of all.

    Raises:
        BrokerError: The server does not answer, or the user may not look.
    """
    found = Forgotten()
    async for name in _names(transport):
        if not _take_by_name(found, name, key, types):
            await _take_by_content(transport, found, name, key, types)
    return found


def _take_by_name(found: Forgotten, name: str, key: str, types: Collection[str] | None) -> bool:
    """Takes a Redis key whose name says whose it is; False for any other."""
    kind, _, rest = name.partition(":")
    match kind:
        case "state" if _is_of(rest, key, types):
            found.states.append(name)
        case "log" if _is_of(rest.rpartition(":")[0], key, types):
            found.logs.append(name)
        case "call" if types is None and f"/{key}:" in f"{rest}:":
            found.requests.append(name)
        case "store" if types is None and rest.endswith((f"/{key}", f":{key}")):
            found.usage.append(name)
        case _:
            return False
    return True


async def _take_by_content(
    transport: RedisTransport, found: Forgotten, name: str, key: str, types: Collection[str] | None
) -> None:
    kind, _, rest = name.partition(":")
    is_stream = kind in ("inbox", "urgent", "dead") and (types is None or rest in types)
    # What a topic has for a key, all its subscribers have.
    if is_stream or (kind == "topic" and types is None):
        await _look_into(transport, name, key, found)
    elif kind in ("timer", "input") and await _names_key(transport, name, key, types):
        (found.delayed if kind == "timer" else found.questions).append(rest)


async def _names(transport: RedisTransport) -> AsyncIterator[str]:
    start = len(transport.keys.prefix)
    seen: set[bytes] = set()
    async for page in scan(transport.admin, "SCAN", pattern=literally(transport.keys.prefix) + "*"):
        for name in page:
            if name not in seen:
                seen.add(name)
                yield name[start:].decode(errors="surrogateescape")


def _is_of(rest: str, key: str, types: Collection[str] | None) -> bool:
    """Whether `<type>:<key>` is of this key; a type has no colon, a key may have."""
    agent_type, _, its_key = rest.partition(":")
    return its_key == key and (types is None or agent_type in types)


async def _names_key(transport: RedisTransport, name: str, key: str, types: Collection[str] | None) -> bool:
    its_key, agent_type, stream = await _command(transport, "HMGET", name, "key", "type", "stream")
    if its_key is None or its_key.decode(errors="surrogateescape") != key:
        return False
    if types is None:
        return True
    # A question has the type of its agent there, a delayed message that of the message.
    inbox = (stream or b"").decode(errors="replace").removeprefix("inbox:")
    return (inbox if stream else (agent_type or b"").decode(errors="replace")) in types


async def _look_into(transport: RedisTransport, stream: str, key: str, found: Forgotten) -> None:
    kind, _, name = stream.partition(":")
    async for entry, flat in _entries(transport, stream):
        fields = fields_of(flat)
        if fields.get("key", b"default").decode(errors="surrogateescape") != key:
            continue
        place = found.letters.setdefault(name, []) if kind == "dead" else found.entries.setdefault(stream, [])
        place.append(entry)
        found.messages.add((fields.get("id") or f"{stream}:{entry}".encode()).decode(errors="replace"))


async def _entries(transport: RedisTransport, stream: str) -> AsyncIterator[tuple[str, Sequence[bytes]]]:
    start = "-"
    while True:
        page = await _command(transport, "XRANGE", stream, start, "+", "COUNT", PAGE)
        for entry, flat in page:
            yield entry.decode(), flat
        if len(page) < PAGE:
            return
        start = f"({page[-1][0].decode()}"


async def _command(transport: RedisTransport, command: str, suffix: str, *words: str | int) -> Any:
    name = transport.keys.of(suffix).encode("utf-8", "surrogateescape")
    return await transport.admin.command(command, name, *words)


async def forget(transport: RedisTransport, key: str, types: Collection[str] | None = None) -> Forgotten:
    """Delete all that `find` finds.

    Args:
        transport: Where.
        key: The key.
        types: Only of agents of these types; None: of all.

    Returns:
        What was deleted.

    Raises:
        KeyBusyError: A handler of it does not end.
        BrokerError: The server does not answer: give the same call again. Until then the agents stay paused.
    """
    agents = [name for name in await _agent_types(transport) if types is None or name in types]
    paused = [name for name in agents if await transport.order("pause", "key", f"{name}/{key}", BY, "")]
    try:
        await _until_at_rest(transport, agents, key)
    except (KeyBusyError, asyncio.CancelledError):  # nothing was deleted
        await _resume(transport, paused, key)
        raise
    found = await find(transport, key, types)
    await _Deletion(transport, key, agents, found).run()
    # Also those that an interrupted call has left paused.
    await _resume(transport, {*paused, *await _left_paused(transport, key)}, key)
    await _forget_events(transport, key)
    if types is None:
        await _forget_handled(transport, key)
        await _forget_ids(transport, key)
    return found


async def _resume(transport: RedisTransport, agents: Iterable[str], key: str) -> None:
    for name in agents:
        await transport.order("resume", "key", f"{name}/{key}", BY)


async def _agent_types(transport: RedisTransport) -> list[str]:
    return [name.decode(errors="replace") for name in (await pages(transport, "HSCAN", "types"))[::2]]


async def _left_paused(transport: RedisTransport, key: str) -> list[str]:
    flat = await pages(transport, "HSCAN", "paused")
    texts = [word.decode(errors="replace") for word in flat]
    return [
        target.removeprefix("key ").partition("/")[0]
        for target, said in zip(texts[::2], texts[1::2], strict=True)
        if target.startswith("key ") and target.partition("/")[2] == key and said.endswith(f" {BY}")
    ]


async def _until_at_rest(transport: RedisTransport, agents: Iterable[str], key: str) -> None:
    deadline = time.monotonic() + PATIENCE
    for agent_type in agents:
        while await _command(transport, "HGET", f"busy:{agent_type}", key):
            if time.monotonic() > deadline:
                raise KeyBusyError(f"{agent_type}/{key}", PATIENCE)
            await asyncio.sleep(LOOK_EVERY)


class _Deletion:
    """The deletion of what was found, of agents that are paused."""

    def __init__(self, transport: RedisTransport, key: str, agents: Sequence[str], found: Forgotten) -> None:
        self._transport = transport
        self._key = key
        self._agents = agents
        self._found = found

    async def run(self) -> None:
        # Killed behind the messages, what they led to would not be found again, and some of it has no lifetime.
        await self._records()
        await self._questions()
        await self._blobs()
        await self._timers()
        await self._letters()
        await self._entries()
        for agent_type in self._agents:
            await self._mend(agent_type)
        found = self._found
        names = [*found.logs, *found.states, *found.usage, *found.requests, f"inputs:{self._key}"]
        for part in _parts(names):
            await self._unlink(part)

    async def _unlink(self, names: Iterable[str]) -> None:
        of = self._transport.keys.of
        full = [of(name).encode("utf-8", "surrogateescape") for name in names]
        if full:
            await self._transport.admin.command("UNLINK", *full)

    async def _letters(self) -> None:
        for agent_type, ids in self._found.letters.items():
            await discard(self._transport, agent_type, ids)

    async def _entries(self) -> None:
        """What a group was given of them is acknowledged; what waits behind an agent is mended afterwards."""
        for stream, ids in self._found.entries.items():
            groups = await _groups(self._transport, stream)
            for part in _parts(ids):
                for group in groups:
                    await _command(self._transport, "XACK", stream, group, *part)
                await _command(self._transport, "XDEL", stream, *part)

    async def _records(self) -> None:
        """What handlers recorded for these messages, and what came to them while they waited."""
        names = [
            f"{kind}:{agent_type}:{message}"
            for kind in ("once", "nested")
            for agent_type in self._agents
            for message in self._found.messages
        ]
        for part in _parts(names):
            await self._unlink(part)

    async def _questions(self) -> None:
        lists = ["inputs", f"inputs:{self._key}"]
        lists += [name async for name in _names(self._transport) if name.startswith("asking:")]
        for part in _parts(self._found.questions):
            for name in lists:
                await _command(self._transport, "ZREM", name, *part)
            await self._unlink(f"input:{one}" for one in part)

    async def _timers(self) -> None:
        members = [f"m|{name}" for name in self._found.delayed]
        members += [f"k|{agent_type}|{self._key}" for agent_type in self._agents]
        for part in _parts(members):
            await _command(self._transport, "ZREM", "timers", *part)
        for part in _parts(self._found.delayed):
            await self._unlink(f"timer:{name}" for name in part)

    async def _mend(self, agent_type: str) -> None:
        """What is said to wait behind the agent is not there any more: the books are set right, a part in each call."""
        await _command(self._transport, "HDEL", f"suspended:{agent_type}", self._key)
        await _command(self._transport, "HDEL", "urgent", f"{agent_type} {self._key}")
        suspicions = [word for kind in ("parked", "key") for word in (kind, agent_type, self._key, "")]
        while b"mended" in await self._transport.admin.run("repair", ("mend", *suspicions)):
            pass
        await self._early(agent_type)

    async def _early(self, agent_type: str) -> None:
        gone = self._found.references
        for member in (await pages(self._transport, "ZSCAN", f"early:{agent_type}"))[::2]:
            if member.decode(errors="replace").partition("|")[2] in gone:
                await _command(
                    self._transport, "ZREM", f"early:{agent_type}", member.decode(errors="replace")
                )

    async def _blobs(self) -> None:
        """Large bodies that no other place needs go now, and not when the server next looks at them."""
        gone = self._found.references | {f"timer:{name}" for name in self._found.delayed}
        async for name in _names(self._transport):
            if not name.startswith("blob:"):
                continue
            places = {
                place.decode(errors="replace") for place in await _command(self._transport, "HKEYS", name)
            } - {"body"}
            if places & gone:
                await _command(self._transport, "HDEL", name, *(places & gone))
                if places <= gone:
                    await self._unlink([name])
                    await _command(self._transport, "ZREM", "blobs", name)


async def _forget_events(transport: RedisTransport, key: str) -> None:
    """What the namespace's diary and its orders say of these agents, the pause for this included."""
    for stream in ("events", "control"):
        ids = [
            entry
            async for entry, flat in _entries(transport, stream)
            if any(_mentions(value.decode(errors="surrogateescape"), key) for value in flat[1::2])
        ]
        for part in _parts(ids):
            await _command(transport, "XDEL", stream, *part)


async def _forget_handled(transport: RedisTransport, key: str) -> None:
    """Messages of others that name the key and are handled by all who read them: they are kept for looking at only."""
    pattern = _named(key)
    async for stream in _names(transport):
        if stream.startswith(("topic:", "inbox:")):
            entries = _entries(transport, stream)
            naming = [entry async for entry, flat in entries if pattern.search(b"\0".join(flat))]
            for part in _parts([entry for entry in naming if await _is_handled(transport, stream, entry)]):
                await _command(transport, "XDEL", stream, *part)


async def _is_handled(transport: RedisTransport, stream: str, entry: str) -> bool:
    groups = await _groups(transport, stream)
    for group, position in groups.items():
        if _order(position) < _order(entry):
            return False
        if await _command(transport, "XPENDING", stream, group, entry, entry, 1):
            return False
    return bool(groups)


async def _groups(transport: RedisTransport, stream: str) -> dict[str, str]:
    """How far each group of a stream is, as the id of the last entry that it was given."""
    name = transport.keys.of(stream).encode("utf-8", "surrogateescape")
    found = [fields_of(flat) for flat in await transport.admin.command("XINFO", "GROUPS", name)]
    return {one["name"].decode(errors="replace"): one["last-delivered-id"].decode() for one in found}


def _order(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split("-"))


async def _forget_ids(transport: RedisTransport, key: str) -> None:
    """Idempotency ids that the runtime makes of an agent's address, such as that of a run's start."""
    members = (await pages(transport, "ZSCAN", "dedupe"))[::2]
    texts = [member.decode(errors="surrogateescape") for member in members]
    for part in _parts([text for text in texts if f"/{key}:" in f"{text}:"]):
        await transport.admin.command(
            "ZREM", transport.keys.of("dedupe"), *(text.encode("utf-8", "surrogateescape") for text in part)
        )


def _named(text: str) -> re.Pattern[bytes]:
    """A text as it is, and as JSON with escaped characters; not as a part of a longer word or number."""
    forms = {text.encode("utf-8", "surrogateescape"), json.dumps(text)[1:-1].encode()}
    before = rb"(?<!\w)" if text[:1].isalnum() else b""
    after = rb"(?!\w)" if text[-1:].isalnum() else b""
    return re.compile(before + b"(?:" + b"|".join(map(re.escape, sorted(forms))) + b")" + after)


def _mentions(text: str, key: str) -> bool:
    """Whether a value of the diary names an agent with the key: `<key>`, `<type>/<key>`, `<type> <key>`."""
    return text == key or text.endswith((f"/{key}", f" {key}"))


def _parts(items: Sequence[str]) -> list[Sequence[str]]:
    return [items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE)]


async def named_in(transport: RedisTransport, text: str) -> dict[str, int]:
    """The Redis keys of the namespace that hold a text anywhere, in their names or values, each with how often.

    It reads the whole namespace, a part in each call. What is JSON is looked through as it is and with escaped characters.
    A text that is a part of a longer word or number is another one. Replies to processes, which last for a minute, are left
    out.

    Args:
        transport: Where.
        text: What is looked for, such as a name.
    """
    pattern = _named(text)
    found: dict[str, int] = {}
    async for name in _names(transport):
        if name.startswith("reply:"):
            continue
        count = len(pattern.findall(name.encode("utf-8", "surrogateescape")))
        async for value in _values(transport, name):
            count += len(pattern.findall(value))
        if count:
            found[name] = count
    return found


async def _values(transport: RedisTransport, name: str) -> AsyncIterator[bytes]:
    kind = await _command(transport, "TYPE", name)
    match kind.decode() if isinstance(kind, bytes) else str(kind):
        case "string":
            yield await _command(transport, "GET", name) or b""
        case "stream":
            async for _, flat in _entries(transport, name):
                yield b"\0".join(flat)
        case "list":
            for start in range(0, await _command(transport, "LLEN", name), PAGE):
                yield b"\0".join(await _command(transport, "LRANGE", name, start, start + PAGE - 1))
        case "hash" | "set" | "zset" as scanned:
            command = {"hash": "HSCAN", "set": "SSCAN", "zset": "ZSCAN"}[scanned]
            key = transport.keys.of(name).encode("utf-8", "surrogateescape")
            async for page in scan(transport.admin, command, key):
                yield b"\0".join(page)
        case _:
            pass
