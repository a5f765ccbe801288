"""One process's way to the server: publishing, requests, subscriptions, states, and lanes for workers.

`callboard:throwaway` is the only Redis key outside of a namespace: a zset, namespace -> until when it is certainly in use,
server ms. A process that lives says so every hour, for a day.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from callboard.broker.envelope import NO_FENCE, Fence
from callboard.broker.errors import (
    BrokerError,
    CommandError,
    FencedError,
    SettingsError,
    is_refused_right,
)
from callboard.broker.redis.keys import CONTROL, Keys, user_in_names
from callboard.broker.settings import DEFAULT_NAMESPACE, BrokerSettings

from .connection import Link, Revive, ServerClock, StreamFollower, scan, steady_ms
from .endpoint import Argument, Endpoint
from .heartbeat import HangPolicy, Heartbeat, Keeper, Pulse, can_keep
from .lane import WorkerLane, as_words
from .publisher import Publisher, RunWriter
from .questions import InputStore
from .requests import NestedRequests, Requests
from .sentinels import watch_of
from .states import ClaimStore, StateStore, StoredState

logger = logging.getLogger("callboard.broker")

SHARDS = 1
ORDER_VALUES = 2  # what to do, and to what
DELETED_AT_ONCE = 500  # keys in one UNLINK


class Declared(NamedTuple):
    """A subscription as the server keeps it. `kind` is "topic" or "prefix"; `start` is "", "0", "$" or an entry id."""

    agent_type: str
    kind: str
    name: str
    start: str = ""


class RedisTransport:
    """Connects when first used; `close` leaves no connection and no task behind."""

    def __init__(self, url: str, settings: BrokerSettings, revive: Revive | None = None) -> None:
        self._revive = revive
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self.endpoint = Endpoint.parse(url)
        if self.endpoint.scheme == "memory":
            from .memory import server_of

            # Says here what is not installed, and not from the depths of the first call.
            server_of(self.endpoint)
        self._watch = watch_of(self.endpoint, settings)
        self.keys = Keys(settings.namespace or DEFAULT_NAMESPACE)
        self.settings = settings
        # It begins with the user, so that a user's rights can be confined to the replies to its own processes; and no user
        # who may read those guesses the rest.
        user = user_in_names(self.endpoint.username)
        self.process = f"{user}:{socket.gethostname()}:{os.getpid()}:{os.urandom(8).hex()}"
        self.admin = self.link("admin")
        self.inputs = InputStore(self.admin)
        self.claims = ClaimStore(self.link("claims"))
        self.nested = NestedRequests(self.link("nested"), self.process)
        self.clock = ServerClock()
        # The server's time, as far as this process knows it: it does once it has declared something.
        self.now_ms = self.clock.now_ms
        self.publisher = Publisher(self.link("publisher"), self._warn_of_full_topic, self.clock)
        self.runs = RunWriter(self.link("runs"))
        self.requests = Requests(self.process, self.publisher, self.nested, self.link("replies"))
        self._warned: set[str] = set()

    def link(self, purpose: str) -> Link:
        """A connection of its own."""
        name = f"callboard-{purpose}"
        made = Link(
            self.endpoint, self.keys, self.settings, name, self._revive, self._doubt_others, self._watch
        )
        self._links.add(made)
        return made

    def _doubt_others(self, lost: Link, has_moved: bool) -> None:
        """A network that dropped one connection without a word has dropped those that were idle, too.

        Each of them would cost a `socket_timeout` of its own, when it is used next. And where the server of one is the
        primary no more, nothing comes any more on one that waits for something to come.
        """
        for link in list(self._links):
            if link is lost:
                continue
            if has_moved:
                link.break_off("its server is the primary no more")
            else:
                link.doubt()

    # Declaring

    async def declare(
        self,
        types: Mapping[str, Mapping[str, Any]],
        subscriptions: Iterable[Declared],
        accepts: Mapping[str, int] | None = None,
    ) -> None:
        """Makes agent types and subscriptions known, all at once. Safe to repeat.

        Args:
            types: what others need to know of each type.
            subscriptions: who hears what.
            accepts: the messages that this process knows, with their versions.

        Raises:
            SettingsError: the namespace was made with another number of shards.
        """
        arguments: list[Argument] = [SHARDS, len(types)]
        for name, type_settings in types.items():
            arguments += (name, json.dumps(dict(type_settings)))
        listed = list(subscriptions)
        arguments.append(len(listed))
        for subscription in listed:
            arguments += subscription
        arguments.append(as_words(accepts or {}))
        asked = steady_ms()
        status, told = await self._declare_with(arguments)
        while status == b"MORE":
            status, told = await self._declare_with(arguments)
        if status == b"OK":
            # guard: who only asks knows the server's time before its first deadline
            self.clock.observe(int(told), asked)
        else:
            raise SettingsError(
                f"the namespace {self.keys.namespace!r} has {int(told)} shards and this process is set to "
                f"{SHARDS}: use the same setting everywhere, or another namespace"
            )

    async def _declare_with(self, arguments: Sequence[Argument]) -> Any:
        try:
            return await self.admin.despite_losses(lambda: self.admin.run("declare", arguments))
        except CommandError as error:
            if error.is_undeployed or not is_refused_right(str(error)):
                raise
            raise CommandError(str(error), self.keys.namespace) from error

    async def unsubscribe(self, subscription: Declared, others: Iterable[Declared] = ()) -> bool:
        """Ends a subscription; False when there was none.

        Args:
            subscription: the one to end.
            others: subscriptions that stay; a topic that one of the same agent type takes goes on.
        """
        agent_type, kind, name, _ = subscription
        staying = [other for other in others if other.agent_type == agent_type]
        if kind == "topic":
            return _is_taken(name, staying) or bool(await self.admin.run("unsubscribe", subscription[:3]))
        found = bool(await self.admin.run("unsubscribe", subscription[:3]))
        # The type is not added to new topics any more; the topics that exist still have it as their subscriber.
        for topic in await self.admin.command("HKEYS", self.keys.of("topics")):
            text = topic.decode(errors="replace")
            if text.startswith(name) and not _is_taken(text, staying):
                await self.admin.run("unsubscribe", (agent_type, "topic", text))
        return found

    # Publishing

    @property
    def in_flight(self) -> int:
        """Messages on their way to the server and requests without a reply."""
        return self.publisher.in_flight + len(self.requests)

    def _warn_of_full_topic(self, topic: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            logger.warning(
                "the topic %r has no subscriber: only its newest %d messages are kept",
                topic,
                self.settings.max_unclaimed,
            )

    # Working

    def lane(self) -> WorkerLane:
        """A line for one worker."""
        return WorkerLane(self.link("worker"), self.link("bell"))

    def heartbeat(
        self,
        pulse: Callable[[], Pulse],
        on_fenced: Callable[[str], None],
        keeper: Keeper | None = None,
    ) -> Heartbeat:
        """The heartbeat of one worker; not started yet."""
        made = Heartbeat(self.endpoint, self.keys, self.settings, pulse, on_fenced, keeper)
        if self._watch is not None:
            self._watch.follow(made)
        return made

    def keeper(self, watch: HangPolicy) -> Keeper | None:
        """Extends the lease of one worker while it is silent; not started yet. None where there can't be one."""
        if not can_keep(self.endpoint, self.settings):
            return None
        return Keeper(self.endpoint, self.keys, self.settings, watch)

    def follow_control(self, on_order: Callable[[str, str], None]) -> StreamFollower:
        """Hears what workers are told at once: an order and what it is about. Not started yet."""

        def take(values: Sequence[bytes]) -> None:
            if len(values) >= ORDER_VALUES:
                on_order(values[0].decode(errors="replace"), values[1].decode(errors="replace"))

        return StreamFollower(self.link("control"), CONTROL, take, is_own=False)

    async def order(self, *arguments: Argument, fence: Fence | None = None) -> bool:
        """Gives an order that goes before queued work, see control.lua; whether it changed something.

        Args:
            arguments: of the order.
            fence: of a handler that pauses or lets go on; None: it comes from outside.

        Raises:
            FencedError: another worker has the handler's message; nothing was changed.
        """
        answer = await self.admin.run("control", (*arguments, *(fence or ())))
        if answer == b"FENCED" and fence is not None:
            raise FencedError(fence.worker)
        return bool(answer)

    async def idle(self) -> tuple[int, int, int, bytes]:
        """The work left in the namespace: unread streams, held keys, due timers; and a mark of the last message."""
        unread, pending, due, mark, place = await self.admin.run("idle", ("",))
        connection = self.admin.opened
        while place and not unread:
            # The mark stays that of the first look: a message that came since is seen by a caller that looks twice.
            unread, pending, due, _, place = await self.admin.run("idle", (place,))
            # The place has the cursor of a scan: see `scan`.
            # guard: a look for what is left begins anew on another connection
            if self.admin.opened != connection:
                return await self.idle()
        return unread, pending, due, mark

    # States of persistent agents

    async def load_state(self, agent_type: str, key: str) -> StoredState:
        """The stored state of a persistent agent; see StateStore.load."""
        return await StateStore(self.admin).load(agent_type, key)

    async def await_state(self, agent_type: str, key: str) -> StoredState:
        """The same, however long the server is gone: a message is not to blame for that.

        Raises:
            StateDamagedError: as StateStore.load.
            ServerUnavailableError: the transport was closed meanwhile.
        """
        # guard: a server that is away while a state is read costs no attempt
        return await self.admin.patiently(lambda: self.load_state(agent_type, key))

    async def save_state(
        self, agent_type: str, key: str, data: bytes, logs: Mapping[str, Sequence[bytes]] | None = None
    ) -> int:
        """Replaces the state of a persistent agent; see StateStore.replace."""
        return await StateStore(self.admin).replace(agent_type, key, data, logs or {})

    # Results of ctx.once

    async def recorded(
        self, fence: Fence | None, agent_type: str, message_id: str, name: str
    ) -> bytes | None:
        """The result of a step that another run of the handler recorded; None when none did. Waits for the server.

        Raises:
            FencedError: another worker has the message.
        """
        arguments = (*(fence or NO_FENCE), agent_type, message_id, name)
        answer = await self.admin.patiently(lambda: self.admin.run("recall", arguments))
        found: bytes | None = self._unless_fenced(answer, fence)
        return found

    async def record(
        self, fence: Fence | None, agent_type: str, message_id: str, name: str, result: bytes
    ) -> bytes:
        """Keeps a result until the message is committed, at most for the dedupe window. Waits for the server.

        Returns:
            The result that is kept: another one when another worker was first.

        Raises:
            FencedError: another worker has the message; nothing was kept.
        """
        window = int(self.settings.dedupe_window * 1000)
        arguments = (*(fence or NO_FENCE), agent_type, message_id, name, result, window)
        # guard: an effect is not made again because the server was away when it was to be recorded
        answer = await self.admin.patiently(lambda: self.admin.run("record", arguments))
        kept: bytes = self._unless_fenced(answer, fence)
        return kept

    @staticmethod
    def _unless_fenced(answer: list[Any], fence: Fence | None) -> Any:
        if answer[0] == b"FENCED" and fence is not None:
            raise FencedError(fence.worker)
        return answer[1]

    async def stored_keys(self, agent_type: str) -> list[str]:
        """The keys of the persistent agents of a type."""
        return await self.names_after(self.keys.of(f"state:{agent_type}:"))

    async def names_after(self, prefix: str, kind: str = "") -> list[str]:
        """The rest of each Redis key that begins with `prefix`; with `kind` only of those of this type."""
        found = await self._keys_after(prefix, kind)
        return [name.decode(errors="replace")[len(prefix) :] for name in found]

    async def _keys_after(self, prefix: str, kind: str = "") -> list[bytes]:
        """The Redis keys that begin with `prefix`, each once; one that was added by hand may not be UTF-8."""
        pages = scan(self.admin, "SCAN", pattern=literally(prefix) + "*", of_type=kind)
        return list(dict.fromkeys([name async for names in pages for name in names]))

    async def delete_namespace(self) -> None:
        """Removes every key of the namespace."""
        await self.delete_keys(self.keys.prefix)

    async def delete_keys(self, prefix: str) -> None:
        """Removes every Redis key that begins with this, a part of them with each command."""
        names = await self._keys_after(prefix)
        for start in range(0, len(names), DELETED_AT_ONCE):
            await self.admin.command("UNLINK", *names[start : start + DELETED_AT_ONCE])

    async def close(
        self, delete_namespace: bool = False, last: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Sends what is still to be sent, then closes every connection.

        Args:
            delete_namespace: remove every key of the namespace before.
            last: called when nothing is sent any more, and the server can still be asked.
        """
        await self.publisher.close()
        await self.runs.close()
        await self.requests.close()
        try:
            if delete_namespace:
                await self.delete_namespace()
            if last is not None:
                await last()
        finally:
            self.claims.close()
            self.nested.close()
            self.admin.close()
            if self._watch is not None:
                await self._watch.end()


def _is_taken(topic: str, subscriptions: Iterable[Declared]) -> bool:
    return any(
        topic == name if kind == "topic" else topic.startswith(name) for _, kind, name, _ in subscriptions
    )


def literally(text: str) -> str:
    """The text as a glob pattern of its own."""
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in text)


LONGEST_PREFIX = 200  # characters, as in lua/shared/topics.lua


async def subscribers_of(link: Link, topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """The agent types that get what is published to topic types, also to those that nothing was published to yet.

    Args:
        link: the connection to the server.
        topics: one or more, which are asked about together.

    Raises:
        ServerUnavailableError: the server can't be reached.
        CommandError: this user of the server may not know.
    """
    found = await _read(link, "topics", topics)
    new = [topic for topic in topics if found[topic] is None]
    prefixes = {topic[:length] for topic in new for length in range(min(len(topic), LONGEST_PREFIX) + 1)}
    types = await _read(link, "prefixes", sorted(prefixes)) if new else {}
    return {
        topic: _known(line) if line is not None else _prefixed(topic, types) for topic, line in found.items()
    }


async def _read(link: Link, name: str, fields: Sequence[str]) -> dict[str, bytes | None]:
    values = await link.command("HMGET", link.keys.of(name), *fields)
    return dict(zip(fields, values, strict=True))


def _prefixed(topic: str, types: Mapping[str, bytes | None]) -> frozenset[str]:
    lines = (types[topic[:length]] for length in range(min(len(topic), LONGEST_PREFIX) + 1))
    return frozenset().union(*(_known(line) for line in lines if line))


def _known(line: bytes) -> frozenset[str]:
    return frozenset(line.decode(errors="replace").split())


REGISTER: Final = "callboard:throwaway"
NAME: Final = re.compile(r"run-\d+-[0-9a-f]+\Z")
KEPT: Final = 86_400_000  # ms without a word of its process
EVERY: Final = 3_600.0  # seconds between two words
AT_ONCE: Final = 5  # namespaces that one process removes: its start is not to take long


class ThrowAway:
    """The throw-away namespace of a transport, from `begin` to `end`."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._telling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Removes what dead processes left, and says that this namespace is in use. Comes before the first key of it."""
        try:
            await self._remove_left()
            await self._tell()
        except CommandError as error:
            # A user who may only use its own namespaces: what it leaves behind is for its administrator to delete.
            logger.debug("throw-away namespaces can't be looked after: %s", error)
            return
        self._telling = asyncio.create_task(self._tell_always(), name="callboard-throwaway")

    async def stop(self) -> None:
        """Says nothing any more. What there is of the namespace is for a later process to remove."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})

    async def end(self) -> None:
        """Deletes the namespace, then its entry in the register: a kill between leaves nothing that can't be found."""
        await self.stop()
        await self._transport.delete_namespace()
        if self._telling is None:  # there is no entry
            return
        with contextlib.suppress(BrokerError):  # the server is gone: a later process finds the entry
            await self._transport.admin.command("ZREM", REGISTER, self._transport.keys.namespace)

    async def _now(self) -> int:
        seconds, micros = await self._transport.admin.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _tell(self) -> None:
        until = await self._now() + KEPT
        await self._transport.admin.command("ZADD", REGISTER, until, self._transport.keys.namespace)

    async def _tell_always(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self._tell()
            except BrokerError as error:
                logger.debug("it could not be said that the namespace is in use: %s", error)

    async def _remove_left(self) -> None:
        command = self._transport.admin.command
        left = await command("ZRANGEBYSCORE", REGISTER, "-inf", await self._now(), "LIMIT", 0, AT_ONCE)
        for raw in left:
            name = raw.decode(errors="replace")
            # Of several processes one removes it; what a person added to the register is left alone.
            # guard: only a throw-away namespace is removed
            if NAME.match(name):
                await self._transport.delete_keys(Keys(name).prefix)
            await command("ZREM", REGISTER, raw)
