"""Agents that can be asked while they wait: requests of a chain that come back to a reentrant agent.

A asks B, and B asks A something before it answers. Through A's inbox that request would wait for A, which waits for B.
Instead it is sent to the activation of A that waits (nest.lua), runs inside it on the same object, and what it changes
and publishes is committed with the message that A handles. Its reply leaves at once, because B waits for it, and B may
commit before A does. So that this holds together when A's process dies in between, the requests that came are kept with
A's message: another run of it, which gets B's recorded reply, first runs them again. Orleans and Dapr, from which the
idea is, have no commit and keep nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import NamedTuple

from callboard.broker.delivery import Delivery
from callboard.broker.encoding.limits import Limits
from callboard.broker.envelope import Envelope, Posting, decode
from callboard.broker.errors import DecodeError, FencedError
from callboard.broker.redis.client.nested import Place
from callboard.broker.redis.client.transport import RedisTransport
from callboard.state import go_back, snapshot

from .cancelling import is_being_cancelled
from .execution import Execution, Executions
from .registration import LiveAgent
from .replies import error_reply_to, reply_to

logger = logging.getLogger("callboard.actors")

LOOK_AGAIN = 1.0  # seconds after which it looks by itself; a notice may go to a process that died
START = "0-0"


class Journal:
    """The nested requests that came for one message, by the request of its agent that they came for."""

    def __init__(self, transport: RedisTransport, place: Place) -> None:
        self._nested = transport.nested
        self._limits = Limits.of(transport.settings)
        self._place = place
        self._agent = f"{place.agent_type}/{place.key}"
        self._last = START
        self._by_request: dict[str, list[tuple[str, Envelope]]] = {}
        self._reading = asyncio.Lock()

    async def take(self, request_id: str) -> list[tuple[str, Envelope]]:
        """The nested requests that came for a request of ours since the last call, each with the entry that keeps it."""
        # One at a time: a handler may wait for two replies at once, each with a task that takes. Both would read behind the
        # same `_last` and file every request twice, and it would run twice.
        async with self._reading:
            while found := await self._nested.read(self._place, self._last):
                for entry, values in found:
                    self._last = entry
                    self._file(entry, values)
        return self._by_request.pop(request_id, [])

    def _file(self, entry: str, values: list[bytes]) -> None:
        try:
            envelope = decode(values, self._limits)
        except DecodeError as error:
            logger.warning("a nested request of %s can't be read: %s", self._agent, error)
            return
        route = (envelope.routes or {}).get(self._agent)
        if route is not None:
            self._by_request.setdefault(route[1], []).append((entry, envelope))


class Outer(NamedTuple):
    """The message that an agent handles while requests come in, and what is needed to handle those.

    Attributes:
        live: the agent.
        is_persistent: it has a State.
        place: where such requests are kept.
        journal: those that are kept there.
        delivery: the message as its worker got it.
        executions: reads messages and runs handlers.
    """

    live: LiveAgent
    is_persistent: bool
    place: Place
    journal: Journal
    delivery: Delivery
    executions: Executions

    @property
    def transport(self) -> RedisTransport:
        """The connection."""
        return self.executions.transport


class Reentry:
    """Lets requests into one activation, one after the other."""

    def __init__(self, outer: Outer, execution: Execution) -> None:
        self.outer = outer
        self._execution = execution
        self._turn = asyncio.Lock()
        self._servings: set[Serving] = set()
        self._replies: dict[str, Posting] = {}

    @property
    def message_id(self) -> str:
        """The message that all of it is committed with."""
        return self.outer.place.message_id

    def serve(self, request_id: str) -> Serving:
        """Takes what comes in while the activation waits for the reply to a request of its own.

        Args:
            request_id: of that request.
        """
        serving = Serving(self, request_id)
        self._servings.add(serving)
        return serving

    def ended(self, serving: Serving) -> None:
        self._servings.discard(serving)

    async def close(self) -> None:
        """The handler has ended: nothing can come in any more, and what runs is undone."""
        for serving in tuple(self._servings):
            await serving.end()

    async def handle(self, entry: str, envelope: Envelope, is_repeated: bool) -> None:
        """Runs one request.

        Args:
            entry: where it is kept.
            envelope: the request.
            is_repeated: it was answered in an earlier run of the outer message: only what it does is needed.

        Raises:
            FencedError: another worker runs the agent by now.
            Exception: a repeated one failed, which had not failed before.
        """
        outer = self.outer
        # One at a time: a request that fails restores the state from before it, and would undo what another changed
        # meanwhile.
        async with self._turn:
            # A server that lost a tail has forgotten that it came, and it is sent again to an activation that knows.
            # guard: an activation runs a nested request once
            if envelope.id in self._replies:
                await self._answer(entry, "ok", None if is_repeated else self._replies[envelope.id])
                return
            nested = outer.executions.begin_nested(outer.live.agent_id, envelope, outer.delivery)
            try:
                reply = await self._run(nested)
            except (asyncio.CancelledError, KeyboardInterrupt):
                raise
            except BaseException as error:
                if is_repeated:
                    raise
                await self._answer(entry, "failed", error_reply_to(envelope, error))
                return
            # Without a suspension since the handler returned: all of it is in the outer commit, or nothing.
            self._execution.outgoing.extend(nested.outgoing)
            self._execution.events.extend(nested.events)
            self._replies[envelope.id] = reply
            if not is_repeated:
                await self._answer(entry, "ok", reply)

    async def _run(self, nested: Execution) -> Posting:
        outer = self.outer
        executions = outer.executions
        before = snapshot(outer.live.agent) if outer.is_persistent else None
        door = Reentry(outer, nested)
        nested.door = door
        try:
            message = await executions.read(nested.envelope)
            result = await nested.run(outer.live.agent.on_message, message)
            return reply_to(
                nested.envelope, nested.agent_id, result, executions.registry, executions.settings
            )
        except BaseException as error:
            if before is not None:
                go_back(outer.live.agent, before)
            if isinstance(error, asyncio.CancelledError) and not is_being_cancelled():
                raise RuntimeError("the handler of a nested request raised CancelledError") from error
            raise
        finally:
            await door.close()

    async def _answer(self, entry: str, ending: str, reply: Posting | None) -> None:
        if reply is not None:
            await self.outer.transport.nested.answer(self.outer.place, entry, ending, reply)


class Serving:
    """A task that reads the nested requests that come while one request of ours is under way, and has them run in order."""

    def __init__(self, reentry: Reentry, request_id: str) -> None:
        self._reentry = reentry
        self._request_id = request_id
        self._nested = reentry.outer.transport.nested
        self._came = self._nested.listen(request_id)
        self._caught_up = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="callboard-reentry")

    async def catch_up(self) -> None:
        """Waits until everything that came in earlier runs of the outer message has been run again.

        Raises:
            Exception: some of it failed now.
        """
        caught_up = asyncio.ensure_future(self._caught_up.wait())
        try:
            await asyncio.wait({caught_up, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            caught_up.cancel()
        if self._task.done():
            await self._task

    async def end(self) -> None:
        """Takes nothing more; a request that runs is cancelled, and what it changed is undone."""
        self._nested.ignore(self._request_id, self._came)
        self._reentry.ended(self)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):  # catch_up() has told of its failure
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            await self._serve()
        except FencedError:
            # The handler that waits hears of it when it sends the next message, or when it is cancelled.
            if not self._caught_up.is_set():
                raise

    async def _serve(self) -> None:
        while True:
            # Cleared before it reads: a request that comes while it reads sets the event again, and the wait below ends at
            # once. Cleared after it, the event of that request would be lost until LOOK_AGAIN.
            self._came.clear()
            for entry, envelope in await self._reentry.outer.journal.take(self._request_id):
                await self._take(entry, envelope)
            self._caught_up.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self._came.wait()

    async def _take(self, entry: str, envelope: Envelope) -> None:
        outer = self._reentry.outer
        ending = await outer.transport.nested.ending(outer.place, entry)
        is_late = envelope.deadline is not None and outer.transport.now_ms() > envelope.deadline
        if ending == "failed" or (not ending and is_late):
            return
        await self._reentry.handle(entry, envelope, is_repeated=bool(ending))
