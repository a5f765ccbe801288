"""The agent types of a namespace: what each subscribes to, what waits for it, and which of them nobody runs any more.

The server is told of every type that an app declares, and of no app: another app of the namespace may declare what the one
in hand lacks. That no worker runs it, and since when none has joined with it, is all that can be known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from callboard.broker.redis.client.transport import RedisTransport
from callboard.foundation.texts import shell_line

from .entries import fields_of
from .inspect import overview, pages, types_with_worker
from .views import AgentTypeView, Overview

EVENTS_AT_ONCE: Final = 1000  # of the last 10,000 or so that a namespace keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRecord:
    """One agent type that the namespace knows.

    Attributes:
        type: its name.
        subscriptions: ids of its subscriptions, such as `topic:visits->counter`, topics first; a topic that
            a prefix brings has one as well.
        waiting: messages that wait for it, see AgentTypeView; None: unknown.
        suspended: agents whose handler waits for an answer.
        dead: dead letters that are there.
        workers: workers alive that run it.
        joined: when a worker last joined with it, server ms; None: not among the events that the namespace keeps.
        declared: whether the app in hand declares it; None: there is none in hand.
    """

    type: str
    subscriptions: tuple[str, ...]
    waiting: int | None
    suspended: int
    dead: int
    workers: int
    joined: int | None
    declared: bool | None

    @property
    def is_left(self) -> bool:
        """Whether the app in hand lacks it and no worker runs it: it was renamed or deleted, or is of another app."""
        return self.declared is False and not self.workers


async def type_records(
    transport: RedisTransport, declared: Collection[str] | None, view: Overview | None = None
) -> tuple[TypeRecord, ...]:
    """All agent types of the namespace, by name.

    Args:
        transport: where.
        declared: the agent types of the app in hand; None: there is none in hand.
        view: the namespace as it was looked at a moment ago; None: it is looked at here.
    """
    view = view or await overview(transport)
    subscriptions = await _subscriptions(transport, view)
    joined = await _joined(transport, {one.type for one in view.types if not one.workers})
    return tuple(_record(one, subscriptions, joined, declared) for one in view.types)


def _record(
    one: AgentTypeView,
    subscriptions: Mapping[str, list[str]],
    joined: Mapping[str, int],
    declared: Collection[str] | None,
) -> TypeRecord:
    return TypeRecord(
        type=one.type,
        subscriptions=tuple(
            sorted(subscriptions.get(one.type, ()), key=lambda name: (name.startswith("prefix:"), name))
        ),
        waiting=one.waiting,
        suspended=one.suspended,
        dead=one.dead,
        workers=one.workers,
        joined=joined.get(one.type),
        declared=None if declared is None else one.type in declared,
    )


async def _subscriptions(transport: RedisTransport, view: Overview) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for topic in view.topics:
        for agent_type in topic.subscribers:
            found.setdefault(agent_type, []).append(f"topic:{topic.type}->{agent_type}")
    for prefix, types in fields_of(await pages(transport, "HSCAN", "prefixes")).items():
        for agent_type in types.decode(errors="replace").split():
            found.setdefault(agent_type, []).append(f"prefix:{prefix}->{agent_type}")
    return found


async def _joined(transport: RedisTransport, types: Collection[str]) -> dict[str, int]:
    """When a worker last joined with each of these types, as far as the events go back."""
    missing, found, end = set(types), dict[str, int](), "+"
    while missing:
        page = await transport.admin.command(
            "XREVRANGE", transport.keys.of("events"), end, "-", "COUNT", EVENTS_AT_ONCE
        )
        for entry, flat in page:
            fields = fields_of(flat)
            if fields.get("event") == b"joined":
                for name in missing & set(fields.get("what", b"").decode(errors="replace").split()):
                    found[name] = int(entry.partition(b"-")[0])
        missing -= set(found)
        if len(page) < EVENTS_AT_ONCE:
            break
        end = "(" + page[-1][0].decode()
    return found


async def left_types(transport: RedisTransport, declared: Collection[str]) -> tuple[TypeRecord, ...]:
    """The types that an app lacks and no worker runs. Where there is none, which is usual, it takes two short looks."""
    known = {name.decode(errors="replace") for name in (await pages(transport, "HSCAN", "types"))[::2]}
    if not known - set(declared) - await types_with_worker(transport):
        return ()
    return tuple(one for one in await type_records(transport, declared) if one.is_left)


def advice_on(one: TypeRecord, namespace: str) -> str:
    """What to do with a type that is left, with the commands."""
    of = ("--namespace", namespace)
    remove = shell_line("callboard", "types", "remove", one.type, *of)
    rename = f"{shell_line('callboard', 'types', 'rename', one.type)} NEW {shell_line(*of)}"
    return f"if no other app has it: {remove}; if it has another name now: {rename}"
