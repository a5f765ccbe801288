"""Renaming an agent type, and removing one: many short calls, interrupted anywhere, and gone through again.

While it lasts no process may declare the type or join with it (`lua/shared/changing.lua`): what it has in hand rests.
What is published meanwhile is kept for it, under the old name at first and under the new one in the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from callboard.broker.errors import BrokerError
from callboard.broker.ids import AgentType
from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.transport import RedisTransport, literally
from callboard.broker.redis.keys import dead, inbox
from callboard.foundation.texts import shell_line

from .agent_types import type_records
from .deadletters import letters_after
from .entries import fields_of
from .inspect import pages, types_with_worker

AT_ONCE: Final = 100  # names in one call

Waiting: TypeAlias = Literal["refuse", "discard", "dead"]
"""What becomes of the messages that wait for a type that is removed."""


class TypeChangeError(BrokerError, ValueError):
    """An agent type can't be renamed or removed now; nothing was changed."""

    template = "the agent type {agent_type!r} can't be {what}: {problem}"

    agent_type: str
    what: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """What a rename did.

    Attributes:
        resumed: whether it went on with one that was interrupted.
        again: whether the type had been renamed so before.
        forwarded: messages that others had sent to the old name since an earlier rename, and that went on to the new one.
    """

    resumed: bool = False
    again: bool = False
    forwarded: int = 0


async def change_under_way(transport: RedisTransport) -> str | None:
    """The command that goes on with a change of a type which is under way, or was interrupted; None: there is none."""
    line = await transport.admin.command("HGET", transport.keys.of("config"), "changing")
    kind, *names = (line or b"").decode(errors="replace").split()[:3] or [""]
    of = ("--namespace", transport.keys.namespace)
    if kind == "rename":
        return shell_line("callboard", "types", "rename", *names, *of)
    return shell_line("callboard", "types", "remove", *names[:1], "--yes", *of) if kind else None


async def rename_type(transport: RedisTransport, old: str, new: str, *, begun: bool = False) -> Renamed:
    """Gives an agent type another name, with all that is kept for it.

    What comes of an interrupted one is safe, and waits: call it again with the same names. Of a type that was renamed
    before, it sends on what others have sent to the old name since.

    Args:
        transport: where.
        old: its name.
        new: the name that it gets.
        begun: also where handlers have begun that run again. What they send before their commit, and the keys of
            `ctx.idempotency_key`, are made from the type's name: they do such things once more.

    Raises:
        TypeChangeError: a worker has one of the names, the new name was used, or there is no such type.
        InvalidIdError: one of the names is not valid.
    """
    for name in (old, new):
        AgentType(name)
    change = _Change(transport, old, new, "rename")
    if old == new:
        raise TypeChangeError(old, "renamed", "that is its name already")
    if await change.is_done():
        return Renamed(again=True, forwarded=await change.forward())
    resumed = await change.start(begun=begun)
    if resumed != "after":
        await change.rename_what_rests()
    await change.rename_the_rest()
    return Renamed(resumed=bool(resumed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What is kept for an agent type that is to be removed.

    Attributes:
        is_known: whether there is anything of it.
        subscriptions: topics and prefixes that it subscribes to.
        waiting: messages that wait for it, those of handlers that wait for an answer included; None: unknown.
        states: agents with a stored state.
        dead: dead letters.
    """

    is_known: bool
    subscriptions: int
    waiting: int | None
    states: int
    dead: int

    def __str__(self) -> str:
        waiting = "an unknown number of" if self.waiting is None else self.waiting
        return (
            f"{self.subscriptions} subscriptions, {waiting} messages wait, {self.states} agents have a state, "
            f"{self.dead} dead letters"
        )


async def holdings_of(transport: RedisTransport, agent_type: str) -> Holdings:
    """What is kept for an agent type."""
    found = next((one for one in await type_records(transport, None) if one.type == agent_type), None)
    states = len(await transport.stored_keys(agent_type))
    letters = await transport.admin.command("XLEN", transport.keys.of(dead(agent_type)))
    if found is None:  # its removal was interrupted, or it was never declared
        streams = await transport.admin.command("SCARD", transport.keys.of(f"streams:{agent_type}"))
        going = await transport.admin.command("HGET", transport.keys.of("config"), "changing") or b""
        is_known = bool(streams) or going.split()[:2] == [b"remove", agent_type.encode()]
        return Holdings(is_known=is_known, subscriptions=streams, waiting=0, states=states, dead=letters)
    waiting = None if found.waiting is None else found.waiting + found.suspended
    return Holdings(
        is_known=True, subscriptions=len(found.subscriptions), waiting=waiting, states=states, dead=letters
    )


def waiting_of(text: str) -> Waiting | None:
    """What is to become of the messages that wait, as a person says it; None: that is none of the words."""
    known: dict[str, Waiting] = {word: word for word in get_args(Waiting)}
    return known.get(text)


async def remove_type(transport: RedisTransport, agent_type: str, waiting: Waiting = "discard") -> bool:
    """Removes an agent type: its subscriptions, states, logs, timers, and what waits for it.

    Delayed messages to it go in any case. A caller who waits for a reply of it gets a DeadLetterError. An interrupted one
    goes on when it is called again, with `waiting` as it was then.

    Args:
        transport: where.
        agent_type: its name.
        waiting: "dead": what waits becomes dead letters, which stay; else it goes, with the dead letters that are there.

    Returns:
        Whether it went on with one that was interrupted.

    Raises:
        TypeChangeError: a worker has it.
        InvalidIdError: no type can have such a name.
    """
    AgentType(agent_type)
    change = _Change(transport, agent_type, "-", "remove")
    fate = "dead" if waiting == "dead" else "discard"
    resumed = await change.start(fate)
    # As it began: whoever runs it again need not know.
    await change.remove(resumed or fate)
    return bool(resumed)


class _Change:
    """A type that is being renamed, or removed: then its new name is "-"."""

    _WHAT: ClassVar = {"rename": "renamed", "remove": "removed"}

    def __init__(self, transport: RedisTransport, old: str, new: str, kind: str) -> None:
        self._transport = transport
        self._old = old
        self._new = new
        self._kind = kind

    async def _call(self, action: str, *names: Argument, how: str = "") -> Any:
        return await self._transport.admin.run("retype", (action, self._old, self._new, how, *names))

    async def _command(self, name: str, suffix: str, *arguments: Any) -> Any:
        return await self._transport.admin.command(name, self._transport.keys.of(suffix), *arguments)

    def _refused(self, problem: str) -> TypeChangeError:
        return TypeChangeError(self._old, self._WHAT[self._kind], problem)

    async def is_done(self) -> bool:
        """Whether the type has the new name already, and the old one is free."""
        is_new = await self._command("HEXISTS", "types", self._new)
        is_old = await self._command("HEXISTS", "types", self._old)
        return bool(is_new) and not is_old and await self._command("HGET", "config", "changing") is None

    async def forward(self) -> int:
        """Sends on what others sent to the old name since it was renamed; returns how many messages that were."""
        sent = 0
        async for members in self._pages("ZSCAN", "timers"):
            sent += int(await self._call("stragglers", *members))
        while count := int(await self._call("stragglers")):
            sent += count
        return sent

    async def start(self, *fate: str, begun: bool = True) -> str:
        """Begins; returns how far an interrupted one is, "" for none.

        Args:
            *fate: of a type that is removed: what becomes of messages that wait.
            begun: whether messages that have begun are in nobody's way.

        Raises:
            TypeChangeError: something is in the way.
        """
        if self._kind == "rename" and not await self._command("HGET", "config", "changing"):
            await self._check_free()
            if not begun:
                await self._check_unbegun()
        status, told = await self._call("start", *fate, how=self._kind)
        what = told.decode(errors="replace")
        of = ("--namespace", self._transport.keys.namespace)
        if status in (b"OK", b"RESUMED"):
            return what if status == b"RESUMED" else ""
        if status == b"WORKER":
            mend = shell_line("callboard", "repair", "--yes", *of)
            raise self._refused(
                f"the worker {what} has it: stop that first, or, if it is dead, have it ended by {mend}"
            )
        if status == b"USED":
            raise self._used(what)
        if status == b"CHORE":
            raise self._refused(
                f"something is still being done ({what}): let any worker of the namespace run for a moment"
            )
        raise self._refused("there is no such type; `callboard types list` shows all")

    async def _check_free(self) -> None:
        for kind in ("state", "log"):
            async for names in self._keys(kind, self._new):
                raise self._used(names[0].decode(errors="replace"))

    async def _check_unbegun(self) -> None:
        """Ids of what a handler sends, and its idempotency keys, are made from its type: it would do again what it did."""
        if self._old in await types_with_worker(self._transport):
            return  # it is refused for this
        waiting = int(await self._command("HLEN", f"suspended:{self._old}"))
        tried = int(await self._command("HLEN", f"tries:{self._old}"))
        recorded = await self._recorded()
        if waiting or tried or recorded:
            raise self._refused(
                f"of its messages {waiting} wait for an answer, {tried} were tried before and {recorded} have recorded "
                "steps: under the new name their handlers would send again what they sent before their commit, and "
                "have other idempotency keys; let them end first, with a worker of the old name, or give --begun"
            )

    async def _recorded(self) -> int:
        """How many messages have recorded something, and are no dead letters."""
        found = set[bytes]()
        async for names in self._keys("once", self._old):
            found.update(name.split(b":", 2)[2] for name in names)
        if found:
            async for letter in letters_after(self._transport, self._old):
                found.discard(letter.message_id.encode())
        return len(found)

    def _used(self, by: str) -> TypeChangeError:
        advice = "choose another, or remove that type first"
        return self._refused(f"the name {self._new!r} was used, there is {by}: {advice}")

    # Renaming

    async def rename_what_rests(self) -> None:
        """Everything but what is one key, while both names are shut; then these keys."""
        await self._call("prefixes")
        for suffix in await self._streams():
            await self._exhaust("stream", suffix)
        async for names in self._keys("wait", self._old):
            await self._park([name.split(b":", 2)[2] for name in names])
        await self._exhaust("early")
        async for refs in self._pages("HSCAN", f"tries:{self._old}"):
            await self._call("tries", *refs)
        await self._each_reset()
        for kind in ("once", "nested", "state", "log"):
            async for names in self._keys(kind, self._old):
                await self._call("keys", *names)
        flat = await pages(self._transport, "HSCAN", f"cursor:{self._old}")
        for suffix, position in fields_of(flat).items():
            if suffix != inbox(self._old):
                await self._command("HSETNX", f"cursor:{self._new}", suffix, position)
        await self._call("flip")

    async def rename_the_rest(self) -> None:
        """What may come as long as the inbox has its old name."""
        await self._exhaust("stream", inbox(self._new))
        await self._each_timer()
        async for names in self._pages("ZSCAN", "blobs"):
            await self._call("places", *names)
        await self._call("end", how=self._kind)

    async def _park(self, keys: Sequence[bytes]) -> None:
        while keys:
            done = int(await self._call("parked", *keys))
            keys = keys[done:]

    # Removing

    async def remove(self, how: str) -> None:
        """All of it."""
        await self._call("prefixes")
        for suffix in (*await self._streams(), inbox(self._old)):
            await self._exhaust("stream", suffix, how=how)
        for kind in ("wait", "once", "nested", "state", "log"):
            await self._transport.delete_keys(self._transport.keys.of(f"{kind}:{self._old}:"))
        await self._each_reset()
        await self._each_timer()
        await self._call("end", how=how)

    # Both

    async def _each_reset(self) -> None:
        prefix = f"{self._old} ".encode()
        async for names in self._pages("HSCAN", "urgent"):
            keys = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
            if keys:
                await self._call("resets", *keys)

    async def _each_timer(self) -> None:
        async for members in self._pages("ZSCAN", "timers"):
            await self._call("timers", *members)

    async def _exhaust(self, action: str, *names: str, how: str = "") -> None:
        while await self._call(action, *names, how=how):
            pass

    async def _streams(self) -> list[str]:
        """The topics that it reads, or left and has something in hand of, as suffixes."""
        found = {
            name.decode(errors="replace")
            for name in await pages(self._transport, "SSCAN", f"streams:{self._old}")
        }
        for hash_name, begin in (("topics", "topic:"), ("leaving", "")):
            for name, types in fields_of(await pages(self._transport, "HSCAN", hash_name)).items():
                if self._old in types.decode(errors="replace").split():
                    found.add(begin + name)
        return sorted(found - {inbox(self._old)})

    async def _pages(self, command: str, suffix: str) -> AsyncIterator[list[bytes]]:
        """The members of a set, or the fields of a hash, as many as go into one call."""
        flat = await pages(self._transport, command, suffix)
        names = flat[::2]
        for start in range(0, len(names), AT_ONCE):
            yield names[start : start + AT_ONCE]

    async def _keys(self, kind: str, agent_type: str) -> AsyncIterator[list[bytes]]:
        """The suffixes of the keys of one kind and type, as many as go into one call."""
        prefix = self._transport.keys.prefix.encode()
        pattern = literally(self._transport.keys.of(f"{kind}:{agent_type}:")) + "*"
        async for names in scan(self._transport.admin, "SCAN", pattern=pattern):
            suffixes = [name.removeprefix(prefix) for name in names]
            for start in range(0, len(suffixes), AT_ONCE):
                yield suffixes[start : start + AT_ONCE]
