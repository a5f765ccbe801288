"""Publishing: what is handed in while one call is under way goes out together with the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from callboard.broker.envelope import Posting, encode
from callboard.broker.errors import (
    BacklogError,
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    NotReplicatedError,
    UndeliverableError,
)
from callboard.broker.settings import BrokerSettings
from callboard.broker.telemetry import Published, emit, is_watched

from .apart import LOOKED_AT, are_apart
from .batches import Producer, send_batch
from .clock import ServerClock, steady_ms
from .connection import Link
from .endpoint import Argument
from .waiting_room import WaitingRoom

LARGEST_BATCH = 500  # messages in one call
LARGEST_BYTES = 4 * 1024 * 1024  # of bodies in one call
FENCES = 4  # place of the number of fences among the arguments of publish.lua
PLAIN, HEADED, FULL = "p", "h", "f"  # forms of a message there

Batch: TypeAlias = list[tuple[Posting, asyncio.Future[bool]]]
Begun: TypeAlias = tuple[list[Argument], asyncio.Future[Any]]
"""The arguments of a call that was sent, and the call."""


class Publisher:
    """Sends postings in order, in batches, each batch once even when its answer was lost."""

    def __init__(
        self, link: Link, on_full_topic: Callable[[str], None], clock: ServerClock | None = None
    ) -> None:
        self._clock = clock or ServerClock()
        self._link = link
        self._on_full_topic = on_full_topic
        self._producer = Producer()
        self._queue: deque[tuple[Posting, asyncio.Future[bool]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[Any] | None = None
        self._comes_alone = False
        self._sending = 0
        self._limits = limits_of(link.settings)
        self._waiting_room = WaitingRoom(self._post_again, link.settings.publish_timeout)

    @property
    def in_flight(self) -> int:
        """Messages that were handed in and are not known to be in the server."""
        return len(self._queue) + self._sending + len(self._waiting_room)

    def post(self, posting: Posting, arrival: asyncio.Future[bool] | None = None) -> asyncio.Future[bool]:
        """Hands in one message; counts as in flight at once.

        Args:
            posting: the message.
            arrival: the future to return; default: a new one.

        Returns:
            A future: True when it was added, False when its idempotency id was seen before. It fails with
            UndeliverableError (unknown agent type), OverloadedError (the server's memory is full; BacklogError: the
            stream or the agent has too much to do), FencedError (another worker has the message of the handler that
            sends it), EncodeError (a value can't be written), CommandError (nothing can be added to the stream) or
            ServerUnavailableError (no server within `socket_timeout`; it may or may not have been added).
        """
        future = arrival
        if future is None:
            future = asyncio.get_running_loop().create_future()
        self._queue.append((posting, future))
        self._go_on()
        return future

    def _post_again(self, items: list[tuple[Posting, asyncio.Future[bool]]]) -> None:
        self._queue.extendleft(reversed(items))
        self._go_on()

    @property
    def _call(self) -> asyncio.Future[Any] | None:
        """What is under way, if something is."""
        if self._task is not None and not self._task.done():
            return self._task
        return self._begun

    def _go_on(self) -> None:
        if self._call is None and not (self._comes_alone and self._send_at_once()):
            self._task = asyncio.create_task(self._run(), name="callboard-publisher")

    async def _run(self, batch: Batch | None = None, begun: Begun | None = None) -> None:
        """Sends what waits; before that, this batch, whose call was sent already and has failed."""
        while batch or self._queue:
            batch = batch or self._take()
            self._sending = len(batch)
            try:
                if batch:
                    await self._send(batch, begun)
            finally:
                self._sending = 0
            self._comes_alone = len(batch) == 1 and not self._queue
            batch = begun = None

    # A message that comes alone after another that did: a task, and the round of the event loop until it runs, take longer
    # than all else that is done for it here.

    def _send_at_once(self) -> bool:
        """Sends the only message that waits, if nothing has to be waited for; returns whether it did."""
        if len(self._queue) > 1 or self._waiting_room.is_used or self._link.settings.durability == "replica":
            return False
        batch = [self._queue[0]]
        try:
            arguments = self._arguments(batch)
        except Exception:  # noqa: BLE001 - the task finds the same, and tells of it
            return False
        asked = steady_ms()
        self._begun = self._link.begin("publish", arguments)
        if self._begun is None:
            return False
        self._queue.clear()
        self._sending = 1
        self._begun.add_done_callback(partial(self._was_answered, batch, arguments, asked))
        return True

    def _was_answered(
        self, batch: Batch, arguments: list[Argument], asked: float, call: asyncio.Future[Any]
    ) -> None:
        self._begun = None
        if call.cancelled() or call.exception() is not None:
            # guard: a message that was sent at once and not answered is sent again
            self._task = asyncio.create_task(self._run(batch, (arguments, call)), name="callboard-publisher")
            return
        self._sending = 0
        try:
            self._arrived(batch, call.result(), asked)
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            self._fail(batch, error)
        if self._queue:
            self._comes_alone = False
            self._go_on()

    def _take(self) -> Batch:
        batch: Batch = []
        size, queue = 0, self._queue
        waiting_room = self._waiting_room if self._waiting_room.is_used else None
        while queue and len(batch) < LARGEST_BATCH and size < LARGEST_BYTES:
            item = queue.popleft()
            if waiting_room is not None and waiting_room.takes(*item):
                continue
            posting = item[0]
            size += len(posting.envelope.body)
            if posting.claim is not None:
                size += len(posting.claim.body)
            batch.append(item)
        return batch

    async def _send(self, batch: Batch, begun: Begun | None = None) -> None:
        try:
            arguments, call = begun or (self._arguments(batch), None)
            confirm = self._wait_for_replica if self._link.settings.durability == "replica" else None
            answer, asked = await send_batch(self._link, "publish", arguments, self._producer, call, confirm)
            self._arrived(batch, answer, asked)
        except asyncio.CancelledError:
            self._fail(batch, ConnectionLostError(self._link.endpoint.shown, "the publisher was closed"))
            raise
        except EncodeError as error:  # nothing of the batch has left
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for item in batch:
                await self._send([item])
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits for the batch gets it
            self._fail(batch, error)

    def _arrived(self, batch: Batch, answer: list[bytes], asked: float) -> None:
        self._clock.observe(int(answer[0]), asked)
        self._settle(batch, answer)
        if answer[1]:
            self._on_full_topic(answer[1].decode())

    def _settle(self, batch: Sequence[tuple[Posting, asyncio.Future[bool]]], answer: list[bytes]) -> None:
        if len(answer) == 2 and not self._waiting_room.is_used and not is_watched():
            for _, future in batch:  # nearly always: all were added
                if not future.done():
                    future.set_result(True)
            return
        exceptions = {int(answer[i]): answer[i + 1] for i in range(2, len(answer), 2)}
        waits = self._link.settings.when_full == "wait"
        full = []
        for index, (posting, future) in enumerate(batch):
            status = exceptions.get(index)
            if status == b"full" and waits:
                full.append((posting, future))
            elif not future.done():
                _end(posting, future, status)
        self._make_way(batch, full)

    def _fail(self, batch: Sequence[tuple[Posting, asyncio.Future[bool]]], error: Exception) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits gets it; nobody waits for a message that was sent without waiting
        self._make_way(batch)

    def _make_way(
        self,
        batch: Sequence[tuple[Posting, asyncio.Future[bool]]],
        full: Sequence[tuple[Posting, asyncio.Future[bool]]] = (),
    ) -> None:
        """What found no room waits; what waits behind something that ended may follow."""
        if self._waiting_room.is_used:
            for posting, future in batch:
                if future.done():
                    self._waiting_room.ended(posting)
        if full:
            self._waiting_room.refused(full)

    async def _wait_for_replica(self) -> None:
        """On the connection of the publish: WAIT counts what was written through it.

        Raises:
            NotReplicatedError: no replica confirmed in time.
            ConnectionLostError: that connection broke; another one may lead to a server that never had it.
        """
        # guard: a replica is waited for on the connection of the publish
        if not self._link.is_open:
            raise ConnectionLostError(self._link.endpoint.shown, "it broke before a replica had confirmed")
        seconds = self._link.settings.socket_timeout / 2
        confirmed = await self._link.command("WAIT", 1, int(seconds * 1000))
        if int(confirmed) < 1:
            raise NotReplicatedError(seconds)

    def _arguments(self, batch: Sequence[tuple[Posting, asyncio.Future[bool]]]) -> list[Argument]:
        arguments: list[Argument] = [*self._producer.next(), self._limits, len(batch), ""]
        fences: list[Argument] = []
        claims: list[Argument] = []
        postings = [posting for posting, _ in batch]
        for number, posting in enumerate(postings):
            if posting.fence is not None:
                # guard: what leaves a handler before its commit is fenced
                fences += (number, *posting.fence)
            if posting.claim is not None:
                claims += posting.claim
        if fences or claims:
            arguments[FENCES] = len(fences) // 3
        arguments += message_values(postings)
        arguments += fences
        arguments += claims
        return arguments

    async def flush(self) -> None:
        """Waits until everything that was handed in has been sent or has failed."""
        while self.in_flight:
            if (call := self._call) is not None:
                await asyncio.wait({call})
            else:
                await asyncio.wait(self._waiting_room.futures, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Sends what can be sent now; what waits for room is not sent."""
        while (call := self._call) is not None:
            await asyncio.wait({call})
        self._waiting_room.close(ConnectionLostError(self._link.endpoint.shown, "the publisher was closed"))
        self._link.close()


def limits_of(settings: BrokerSettings) -> str:
    """What is the same from batch to batch, as one text: see lua/publish/limits.lua."""
    window = int(settings.dedupe_window * 1000)
    return f"{window} {settings.max_unclaimed} {settings.max_backlog} {settings.max_backlog_per_key}"


def message_values(postings: Sequence[Posting]) -> list[Argument]:
    """Messages as publish.lua takes them: in runs of one form with the same stream and type, in order.

    Where they go from stream to stream, runs are of several streams, and each message names its own.
    """
    arguments: list[Argument] = []
    is_apart = are_apart([posting.stream for posting in postings[:LOOKED_AT]])
    now: tuple[str, str, str] = ("", "", "")
    run: list[Argument] = []
    count = 0
    for envelope, stream, due, idempotency_id, waiting, _, _ in postings:
        name, kind, key, sender, head, body = encode(envelope)
        is_simple = not (due or idempotency_id or waiting)
        form = (HEADED if head or sender else PLAIN) if is_simple else FULL
        its_run = (form, "" if is_apart else stream, kind)
        if now != its_run:
            if count:
                arguments += (*now, count, *run)
            now, run, count = its_run, [], 0
        count += 1
        if form is PLAIN:
            run += (name, key, body)
        elif form is HEADED:
            run += (name, key, sender, head, body)
        else:
            run += (name, key, sender, head, body, due, idempotency_id, waiting)
        if is_apart:
            run.append(stream)
    if count:
        arguments += (*now, count, *run)
    return arguments


def _end(posting: Posting, future: asyncio.Future[bool], status: bytes | None) -> None:
    if status is None:
        future.set_result(True)
        if is_watched():
            _tell(posting)
    elif status == b"duplicate":
        future.set_result(False)
    else:
        future.set_exception(_error(posting, status))
        future.exception()  # whoever waits gets it; nobody waits for a message that was sent without waiting


def _error(posting: Posting, status: bytes) -> Exception:
    if status == b"undeliverable":
        return UndeliverableError(posting.stream.partition(":")[2])
    if status == b"full":
        return BacklogError(stream=posting.stream)
    if status == b"fenced" and posting.fence is not None:
        return FencedError(posting.fence.worker)
    reason = "its key holds something else, or the last possible id was used"
    return CommandError(f"nothing can be added to {posting.stream}: {reason}")


def _tell(posting: Posting) -> None:
    envelope = posting.envelope
    emit(Published, envelope.id, envelope.type, posting.stream, envelope.key)
