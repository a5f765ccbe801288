"""What is known of one agent."""

from __future__ import annotations

import json
from collections.abc import Sequence

from callboard.broker.errors import CommandError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import dead as dead_suffix

from .entries import fields_of
from .inspect import attempts_at, overview, timers, waiting
from .load import Load, load_of, look_at_parked
from .states import sizes_of
from .views import AgentTypeView, AgentView, HeldEntry, MessageView, Overview, ParkedEntry, Pause, Timer

MOST_TIMERS = 10_000  # timers of a namespace that are looked at
MOST_LETTERS = 10_000  # dead letters of a type that are looked at
SHOWN = 20  # letters and delayed messages of one agent
LETTERS_AT_ONCE = 50  # each may be as large as the largest message


async def agent(transport: RedisTransport, agent_type: str, key: str, *, state: bool = False) -> AgentView:
    """What is known of one agent; of one that nothing was ever heard of, nothing but its name.

    Args:
        transport: where.
        agent_type: its type.
        key: its key.
        state: also its state itself.
    """
    view = await overview(transport)
    about = next((one for one in view.types if one.type == agent_type), None)
    load = await load_of(transport, view, agent_type) if about else Load()
    await look_at_parked(transport, agent_type, key, load)
    parked = await waiting(transport, agent_type, key, n=1)
    current = load.running.get(key) or next(iter(load.held.get(key, ())), None)
    first = await _first(transport, agent_type, current, parked.entries)
    sizes = await sizes_of(transport, agent_type, key)
    return AgentView(
        type=agent_type,
        key=key,
        at=view.at,
        holder=parked.holder,
        running=await _message(transport, current, view.at) if current else None,
        begun=key in load.running,
        waiting=load.waiting[key],
        oldest=load.since(key),
        resumes=parked.resumes,
        suspended=await _is_suspended(transport, agent_type, key),
        attempts=first.attempts if first else 0,
        deaths=first.deaths if first else 0,
        reason=first.reason if first else "",
        delayed=await _delayed(transport, about, key),
        letters=await _letters(transport, agent_type, key),
        paused=_pauses(view, about, f"{agent_type}/{key}"),
        reentrant=await _is_reentrant(transport, agent_type),
        state_version=sizes.version if sizes else 0,
        state_bytes=sizes.data if sizes else 0,
        logs={name: (log.items, log.bytes) for name, log in sizes.logs.items()} if sizes else {},
        state_writer=await _writer(transport, agent_type, key),
        state=await state_of(transport, agent_type, key) if state else None,
    )


async def state_of(transport: RedisTransport, agent_type: str, key: str) -> str | None:
    """The stored state of an agent as JSON, without its logs; None: none is stored."""
    data = await transport.admin.command("HGET", transport.keys.of(f"state:{agent_type}:{key}"), "d")
    return data.decode(errors="replace") if data else None


async def _is_suspended(transport: RedisTransport, agent_type: str, key: str) -> bool:
    return bool(await transport.admin.command("HEXISTS", transport.keys.of(f"suspended:{agent_type}"), key))


async def _writer(transport: RedisTransport, agent_type: str, key: str) -> str:
    """The worker that wrote a stored state last."""
    writer = await transport.admin.command("HGET", transport.keys.of(f"state:{agent_type}:{key}"), "w")
    return (writer or b"").decode(errors="replace")


async def _first(
    transport: RedisTransport, agent_type: str, current: HeldEntry | None, parked: Sequence[ParkedEntry]
) -> ParkedEntry | None:
    """The first message of an agent with its attempts: the one in a worker, else the first that is parked."""
    if current is None:
        return parked[0] if parked else None
    (found,) = await attempts_at(transport, agent_type, [f"{current.stream} {current.entry}".encode()])
    return found


async def _message(transport: RedisTransport, held: HeldEntry, now: int) -> MessageView:
    name = transport.keys.of(held.stream)
    found = await transport.admin.command("XRANGE", name, held.entry, held.entry)
    fields = fields_of(found[0][1]) if found else {}
    return MessageView(
        stream=held.stream,
        entry=held.entry,
        id=fields.get("id", b"").decode(errors="replace"),
        type=fields.get("type", b"").decode(errors="replace"),
        since=await _since(transport, held, now),
    )


async def _since(transport: RedisTransport, held: HeldEntry, now: int) -> int | None:
    """When the worker was given the entry; a reset has no group that would say."""
    if held.stream.startswith("urgent:"):
        return None
    name = transport.keys.of(held.stream)
    try:
        found = await transport.admin.command("XPENDING", name, held.type, held.entry, held.entry, 1)
    except CommandError as error:
        if not str(error).startswith("NOGROUP"):  # it was deleted by hand, and is made again
            raise
        return None
    # What was published after `now` was read has not waited yet.
    return max(now - int(found[0][2]), int(held.entry.partition("-")[0])) if found else None


async def _delayed(transport: RedisTransport, about: AgentTypeView | None, key: str) -> tuple[Timer, ...]:
    """The messages for an agent that are due later, the nearest first."""
    streams = about.streams if about else ()
    found = await timers(transport, MOST_TIMERS)
    return tuple(one for one in found if one.agent == key and one.stream in streams)[:SHOWN]


async def _letters(transport: RedisTransport, agent_type: str, key: str) -> tuple[str, ...]:
    """The names of an agent's dead letters, the newest first."""
    name, end, seen = transport.keys.of(dead_suffix(agent_type)), "+", 0
    found: list[str] = []
    while seen < MOST_LETTERS and len(found) < SHOWN:
        raws = await transport.admin.command("XREVRANGE", name, end, "-", "COUNT", LETTERS_AT_ONCE)
        for letter, flat in raws:
            if fields_of(flat).get("key", b"").decode(errors="replace") == key:
                found.append(f"{agent_type}/{letter.decode()}")
        if len(raws) < LETTERS_AT_ONCE:
            break
        end, seen = "(" + raws[-1][0].decode(), seen + len(raws)
    return tuple(found[:SHOWN])


def _pauses(view: Overview, about: AgentTypeView | None, agent: str) -> tuple[Pause, ...]:
    """What keeps an agent from being started."""
    topics = {suffix.removeprefix("topic:") for suffix in (about.streams if about else ())}
    names = {"type": {agent.partition("/")[0]}, "key": {agent}, "topic": topics}
    return tuple(pause for pause in view.paused if pause.name in names.get(pause.kind, ()))


async def _is_reentrant(transport: RedisTransport, agent_type: str) -> bool:
    line = await transport.admin.command("HGET", transport.keys.of("types"), agent_type)
    try:
        settings = json.loads(line or b"{}")
    except ValueError:
        return False
    return isinstance(settings, dict) and settings.get("reentrant") is True
