"""Requests under way: their replies, their cancelling, and agents that can be asked while they wait.

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
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from callboard.broker import AgentId, BrokerSettings, MessageRegistry
from callboard.broker.envelope import (
    Claim,
    Delivery,
    Envelope,
    Posting,
    Route,
    decode,
    is_set_aside,
    reply,
    reply_claim,
)
from callboard.broker.errors import DecodeError, FencedError
from callboard.broker.limits import Limits
from callboard.broker.redis import keys
from callboard.broker.redis.client.requests import NestedPlace
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.remote_errors import encode_error
from callboard.core.cancellation import CancellationToken
from callboard.core.state import go_back, snapshot

from .agents import LiveAgent
from .errors import DeadlockError
from .execution import Execution, Executions

logger = logging.getLogger("callboard.actors")

REMEMBERED: Final = 60_000  # ms beyond its deadline for which a request stays cancelled
PATIENCE: Final = 1.0  # seconds that a cancelled caller waits until the server knows of it


class RequestTokens:
    """The tokens by the ids of the requests."""

    def __init__(self, transport: RedisTransport) -> None:
        self._transport = transport
        self._tokens: dict[str, list[CancellationToken]] = {}
        self._orders: set[asyncio.Future[bool]] = set()

    def of(self, request_id: str) -> CancellationToken | None:
        """The token of a request; of one that was sent more than once, the first."""
        tokens = self._tokens.get(request_id)
        return tokens[0] if tokens else None

    def add(self, request_id: str, token: CancellationToken) -> None:
        """A request is sent with this token."""
        self._tokens.setdefault(request_id, []).append(token)

    def remove(self, request_id: str, token: CancellationToken) -> None:
        """Ends the wait for that request."""
        tokens = self._tokens[request_id]
        tokens.remove(token)
        if not tokens:
            del self._tokens[request_id]

    async def cancel_there(self, request_id: str, deadline: int) -> None:
        """Once the caller learns that its request is cancelled, nothing of it is committed any more.

        When the server can't be told, the request may still be carried out, as after a timeout.

        Args:
            request_id: The request.
            deadline: Until when its caller would have waited, server ms.
        """
        order = asyncio.ensure_future(self._transport.order("cancel", request_id, deadline + REMEMBERED))
        self._orders.add(order)
        order.add_done_callback(self._told)
        await asyncio.wait({order}, timeout=PATIENCE)

    def _told(self, order: asyncio.Future[bool]) -> None:
        self._orders.discard(order)
        if not order.cancelled() and (error := order.exception()) is not None:
            logger.warning("the server could not be told that a request is cancelled: %s", error)


MOST_CANCELLED = 1000  # cancelled requests that are remembered until they come to their turn


class CancellableRequest:
    """A request that is being handled and may be cancelled from another process."""

    def __init__(self, execution: Execution) -> None:
        self.message_id = execution.envelope.id
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._token = execution.context.cancellation_token
        self._is_cancelled = False
        self._has_ended = False

    def cancel(self) -> None:
        """Its handler gets CancelledError; its token, and what the handler passed it on to, is cancelled first."""
        # The task outlives its handler: it goes on to the outcome. An order that comes then must not cancel it, or the
        # worker would take it for one that it ends itself, and the delivery would have no outcome.
        if not self._is_cancelled and not self._has_ended:
            self._is_cancelled = True
            try:
                self._token.cancel()
            finally:
                self._task.cancel("cancelled by its sender")

    def ends(self) -> bool:
        """The handler is over, so that its task goes on; whether it was cancelled."""
        if not self._has_ended and self._is_cancelled:
            # Otherwise `is_being_cancelled` would take the rest of the task for one that its worker ends.
            self._task.uncancel()
        self._has_ended = True
        return self._is_cancelled


class CancellableRequests:
    """Those of one worker: what is being handled, and what was cancelled before its handler began."""

    def __init__(self) -> None:
        # Several of one id: a handler that goes on although its worker lost the lease, and the one that runs in its place.
        self._running: dict[str, list[CancellableRequest]] = {}
        self._cancelled: deque[str] = deque(maxlen=MOST_CANCELLED)

    def cancel(self, message_id: str) -> None:
        """Ends the handler of a request, or keeps it from beginning."""
        requests = self._running.get(message_id)
        if requests is None:
            # The order came by the stream `control`, ahead of the request, which still waits in its inbox or mailbox.
            self._cancelled.append(message_id)
            return
        for request in tuple(requests):
            request.cancel()

    def is_cancelled(self, message_id: str) -> bool:
        """Whether it was cancelled before its handler began."""
        return message_id in self._cancelled

    def begin(self, execution: Execution) -> CancellableRequest:
        """The request whose handler begins in this task."""
        request = CancellableRequest(execution)
        self._running.setdefault(request.message_id, []).append(request)
        return request

    def end(self, request: CancellableRequest) -> None:
        """It is not handled any more."""
        requests = self._running[request.message_id]
        requests.remove(request)
        if not requests:
            del self._running[request.message_id]
        request.ends()


def is_being_cancelled() -> bool:
    """Whether this task is told to end; a handler may also raise CancelledError because what it awaited was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_ended(delivery: Delivery) -> bool:
    """Whether the worker cancelled the handler; else the handler has cancelled its own task."""
    return delivery.mailbox is None or delivery.mailbox.ended


def reply_to(
    request: Envelope,
    sender: AgentId,
    result: object,
    registry: MessageRegistry,
    settings: BrokerSettings,
    limits: Limits | None = None,
) -> Posting:
    """The reply to a request.

    Args:
        request: what was asked.
        sender: the agent that answers.
        result: what its handler returned.
        registry: message classes.
        settings: what is set aside.
        limits: those of the settings, by a caller that has them at hand; looking them up takes 0.5 microseconds.

    Raises:
        EncodeError: the result can't be written.
        PayloadTooLargeError: it is too large.
    """
    kind = registry.entry_for(result)
    body = kind.encode(result, limits or Limits.of(settings))
    claim = _claim(request, body, settings) if len(body) > settings.max_payload else None
    held = body if claim is None else claim.pointer
    envelope = reply(request.id, kind.name, str(sender), held, kind.version, claim is not None)
    return _addressed(request, envelope, claim)


def _claim(request: Envelope, body: bytes, settings: BrokerSettings) -> Claim:
    """A requester that sent its request with claim_check takes the reply like this as well."""
    if request.claimed and not settings.claim_check:
        settings = replace(settings, claim_check=True)
    is_set_aside(len(body), None, settings)
    return reply_claim(request.id, body)


def error_reply_to(request: Envelope, error: BaseException) -> Posting | None:
    """The error as a reply; None when no process waits for one."""
    if request.kind != "request" or not request.reply_to:
        return None
    envelope = Envelope(request.id, "error", "", None, 0, encode_error(error), kind="reply", error=True)
    return _addressed(request, envelope)


def cancelled_reply_to(request: Envelope) -> Posting | None:
    """Nothing of the request is committed. A requester that sends it again is told so."""
    return error_reply_to(request, asyncio.CancelledError("cancelled"))


def _addressed(request: Envelope, envelope: Envelope, claim: Claim | None = None) -> Posting:
    recorded_as = request.id if request.recorded else ""
    stream = keys.reply(request.reply_to or "")
    return tuple.__new__(Posting, (envelope, stream, 0, recorded_as, "", claim, None))


DEEPEST_CHAIN: Final = 32  # requests within requests, where agents may be asked while they wait


def routes_behind(execution: Execution, ask: str) -> Mapping[str, Route] | None:
    """How the agents that a request reaches can ask back those that wait for it.

    Args:
        execution: The handler that asks.
        ask: Id of the request.
    """
    routes = execution.envelope.routes
    if execution.door is None:
        return routes
    return {**(routes or {}), str(execution.agent_id): (execution.door.message_id, ask)}


def way_back(recipient: str, chain: tuple[str, ...], routes: Mapping[str, Route] | None) -> Route:
    """Where a request goes whose recipient waits further up in its chain.

    Raises:
        DeadlockError: it lets nothing in while it waits.
        DeadlockError: the chain is too long already.
    """
    route = (routes or {}).get(recipient)
    if route is None:
        raise DeadlockError((*chain, recipient))
    if len(chain) >= DEEPEST_CHAIN:
        raise DeadlockError((*chain, recipient), DEEPEST_CHAIN)
    return route


LOOK_AGAIN = 1.0  # seconds after which it looks by itself; a notice may go to a process that died
START = "0-0"


class Journal:
    """The nested requests that came for one message, by the request of its agent that they came for."""

    def __init__(self, transport: RedisTransport, place: NestedPlace) -> None:
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
    place: NestedPlace
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
