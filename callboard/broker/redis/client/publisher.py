"""Publishing of messages and of events of runs: what comes while one call is under way goes out with the next."""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from callboard.broker.envelope import NO_FENCE, Posting, encode
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    FencedError,
    NotReplicatedError,
    OverloadedError,
    ServerUnavailableError,
    UndeliverableError,
)
from callboard.broker.outcome import RunWrite
from callboard.broker.redis.arguments import MESSAGE_FORMS, index_of
from callboard.broker.retry import Backoff
from callboard.broker.settings import BrokerSettings
from callboard.broker.telemetry import LISTENERS, Published, emit

from .connection import Link, ServerClock, steady_ms
from .endpoint import Argument
from .lane import LOOKED_AT, are_apart, write_values

LARGEST_BATCH = 500  # messages in one call
LARGEST_BYTES = 4 * 1024 * 1024  # of bodies in one call
FENCES = index_of("publish", "fences")
PLAIN, HEADED, FULL = MESSAGE_FORMS.values()

T = TypeVar("T")
R = TypeVar("R")
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
            UndeliverableError (unknown agent type), OverloadedError (the server's memory is full, or the
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
        """The call that is under way, if there is one."""
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
                    send = self._send if begun is None else partial(self._send, begun=begun)
                    await send_or_fail(batch, send, self._fail, self._link)
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
        except Exception as error:  # noqa: BLE001 - its sender gets it
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
        arguments, call = begun or (self._arguments(batch), None)
        confirm = self._wait_for_replica if self._link.settings.durability == "replica" else None
        answer, asked = await send_batch(self._link, "publish", arguments, self._producer, call, confirm)
        self._arrived(batch, answer, asked)

    def _arrived(self, batch: Batch, answer: list[bytes], asked: float) -> None:
        self._settle(batch, answer)
        if answer[1]:
            self._on_full_topic(answer[1].decode())
        self._clock.observe(int(answer[0]), asked)

    def _settle(self, batch: Sequence[tuple[Posting, asyncio.Future[bool]]], answer: list[bytes]) -> None:
        if len(answer) == 2 and not self._waiting_room.is_used and not LISTENERS:
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

    def _fail(self, batch: Batch, error: Exception) -> None:
        fail(batch, error)
        self._make_way(batch)

    def _make_way(
        self,
        batch: Sequence[tuple[Posting, asyncio.Future[bool]]],
        full: Sequence[tuple[Posting, asyncio.Future[bool]]] = (),
    ) -> None:
        """Messages that found no room wait; those that wait behind one that ended may follow."""
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
    """The limits, which are the same from batch to batch, as one text: see lua/publish/limits.lua."""
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
        if LISTENERS:
            _tell(posting)
    elif status == b"duplicate":
        future.set_result(False)
    else:
        future.set_exception(_error(posting, status))
        future.exception()  # seen: a message may be sent without waiting for it


def _error(posting: Posting, status: bytes) -> Exception:
    if status == b"undeliverable":
        return UndeliverableError(posting.stream.partition(":")[2])
    if status == b"full":
        return OverloadedError(stream=posting.stream)
    if status == b"fenced" and posting.fence is not None:
        return FencedError(posting.fence.worker)
    reason = "its key holds something else, or the last possible id was used"
    return CommandError(f"nothing can be added to {posting.stream}: {reason}")


def _tell(posting: Posting) -> None:
    envelope = posting.envelope
    emit(Published, envelope.id, envelope.type, posting.stream, envelope.key)


# Messages that wait for room

FIRST_WAIT, LONGEST_WAIT = 0.01, 0.25  # seconds until the server is asked again whether there is room
Place: TypeAlias = tuple[str, str]  # stream and agent key
PostedItem: TypeAlias = tuple[Posting, asyncio.Future[bool]]


class Guest(NamedTuple):
    """One message that waits. `until`: loop time, seconds."""

    posting: Posting
    future: asyncio.Future[bool]
    until: float


class Queue:
    """The messages that wait for one place: the first is tried again and again, the others follow once it is let in.

    Were the others tried at the same time, one of them might find room that the first had not found a moment before,
    and overtake it.
    """

    def __init__(self) -> None:
        self.guests: deque[Guest] = deque()
        self.tried: Guest | None = None
        self.backoff = Backoff(FIRST_WAIT, LONGEST_WAIT)
        self.timer: asyncio.TimerHandle | None = None


def place_of(posting: Posting) -> Place:
    """Messages of one place keep their order."""
    return posting.stream, posting.envelope.key


class WaitingRoom:
    """The messages of one process that wait for room.

    Args:
        send: hands messages in once more, before everything that was handed in later.
        patience: seconds that a message waits.
    """

    def __init__(self, send: Callable[[list[PostedItem]], None], patience: float) -> None:
        self._send = send
        self._patience = patience
        self._queues: dict[Place, Queue] = {}

    def __len__(self) -> int:
        return sum(len(queue.guests) for queue in self._queues.values())

    @property
    def is_used(self) -> bool:
        """Whether anything waits, or is tried again."""
        return bool(self._queues)

    @property
    def futures(self) -> list[asyncio.Future[bool]]:
        """The futures of all messages that wait or are tried again."""
        guests = [guest for queue in self._queues.values() for guest in queue.guests]
        guests += [queue.tried for queue in self._queues.values() if queue.tried is not None]
        return [guest.future for guest in guests]

    def takes(self, posting: Posting, future: asyncio.Future[bool]) -> bool:
        """Whether the message has to wait behind others; then it does."""
        queue = self._queues.get(place_of(posting))
        if queue is None or (queue.tried is not None and queue.tried.future is future):
            return False
        queue.guests.append(self._guest(posting, future))
        return True

    def _guest(self, posting: Posting, future: asyncio.Future[bool]) -> Guest:
        return Guest(posting, future, asyncio.get_running_loop().time() + self._patience)

    def refused(self, items: Iterable[PostedItem]) -> None:
        """The server has no room for these, given in the order in which they were sent."""
        by_place: dict[Place, list[PostedItem]] = {}
        for item in items:
            by_place.setdefault(place_of(item[0]), []).append(item)
        for place, group in by_place.items():
            queue = self._queues.setdefault(place, Queue())
            tried, queue.tried = queue.tried, None
            back = [tried] if tried is not None else [self._guest(*item) for item in group]
            queue.guests.extendleft(reversed(back))
            self._look_again(place, queue)

    def ended(self, posting: Posting) -> None:
        """A message was let in, or failed for another reason: what waits behind it may follow."""
        place = place_of(posting)
        queue = self._queues.get(place)
        if queue is not None and queue.tried is not None and queue.tried.posting is posting:
            # Removed first: the messages sent below must not be taken for new ones and wait behind themselves.
            del self._queues[place]
            self._send([(guest.posting, guest.future) for guest in queue.guests if not guest.future.done()])

    def _look_again(self, place: Place, queue: Queue) -> None:
        if queue.timer is None:
            loop = asyncio.get_running_loop()
            queue.timer = loop.call_later(
                queue.backoff.pause() * (0.5 + random.random()), self._try, place, queue
            )

    def _try(self, place: Place, queue: Queue) -> None:
        queue.timer = None
        now = asyncio.get_running_loop().time()
        while queue.guests:
            guest = queue.guests.popleft()
            if guest.future.done():
                continue
            if now < guest.until:
                queue.tried = guest
                self._send([(guest.posting, guest.future)])
                return
            guest.future.set_exception(OverloadedError(stream=guest.posting.stream, seconds=self._patience))
            guest.future.exception()  # seen: for a message that was sent without waiting, asyncio would complain
        del self._queues[place]

    def close(self, error: Exception) -> None:
        """Fails every message that waits."""
        queues = list(self._queues.values())
        self._queues.clear()
        for queue in queues:
            if queue.timer is not None:
                queue.timer.cancel()
            for guest in queue.guests:
                if not guest.future.done():
                    guest.future.set_exception(error)
                    guest.future.exception()


# A batch, sent once whatever breaks

FIRST_PAUSE: Final = 0.01  # seconds before a batch is sent again that was refused or lost
LONGEST_PAUSE: Final = 0.5
OVERTAKEN: Final = "OVERTAKEN"  # is in the server's error of a batch below the last one that it knows


class Producer:
    """Numbers the batches of one publisher.

    Attributes:
        name: no other process has it, nor another publisher of this one.
    """

    def __init__(self) -> None:
        self._rename()

    def _rename(self) -> None:
        self.name = f"{os.getpid():x}{os.urandom(6).hex()}"
        self._number = 0

    def next(self) -> tuple[str, int]:
        """The name, and the number of the next batch."""
        self._number += 1
        return self.name, self._number

    def overtaken(self, arguments: list[Argument], is_first: bool) -> None:
        """Goes on under another name: a person has written over what the server knows of the batches of this one.

        Args:
            arguments: of the batch, which gets its new name and number.
            is_first: it was not sent before, so that it was not carried out.

        Raises:
            CommandError: it may have been carried out.
        """
        known = f"sent:{self.name}"
        self._rename()
        # guard: what may have been carried out is not sent under another name
        if not is_first:
            reason = f"`{known}` was changed by hand, which says what was carried out"
            raise CommandError(f"what was sent may have arrived or not: {reason}; look, and send it again")
        arguments[:2] = self.next()


async def send_batch(
    link: Link,
    function: str,
    arguments: list[Argument],
    producer: Producer,
    begun: Awaitable[Any] | None = None,
    confirm: Callable[[], Awaitable[None]] | None = None,
) -> tuple[list[Any], float]:
    """Calls a function whose first arguments are the producer's name and number; again, as long as no server answers.

    Args:
        link: the connection.
        function: its name.
        arguments: of the call.
        producer: numbers the calls.
        begun: the first call, where it was sent already.
        confirm: called when it is answered; where that finds no server, both are done again.

    Returns:
        The answer, and when it was asked for, by `steady_ms`.

    Raises:
        ConnectionLostError, ServerUnavailableError: no answer within `socket_timeout`, or the link was closed.
        CommandError: the server refused it; or it can't be known any more whether it was carried out.
    """
    deadline = asyncio.get_running_loop().time() + link.settings.socket_timeout
    backoff, is_first = Backoff(FIRST_PAUSE, LONGEST_PAUSE), True
    while True:
        asked = steady_ms()
        try:
            answer = await link.run(function, arguments, begun=begun)
            if confirm is not None:
                await confirm()
            return answer, asked
        except CommandError as error:
            if OVERTAKEN not in str(error):
                raise
            producer.overtaken(arguments, is_first)
            begun = None
        except (ConnectionLostError, ServerUnavailableError):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or link.is_closed:
                raise
            is_first, begun = False, None
            await asyncio.sleep(backoff.pause())
            # guard: a batch that is sent again keeps its number
            await link.reconnect(left)


async def send_or_fail(
    batch: list[tuple[T, asyncio.Future[R]]],
    send: Callable[[list[tuple[T, asyncio.Future[R]]]], Coroutine[Any, Any, None]],
    fail: Callable[[list[tuple[T, asyncio.Future[R]]], Exception], None],
    link: Link,
) -> None:
    """Sends a batch, one by one where something in it can't be written; what could not be sent fails with the reason.

    Args:
        batch: what is sent, each with the future that its sender may wait for.
        send: sends a batch, and sets the futures.
        fail: tells the senders that it was not sent.
        link: names the server, when sending is cancelled.
    """
    try:
        await send(batch)
    except asyncio.CancelledError:
        fail(batch, ConnectionLostError(link.endpoint.shown, "the publisher was closed"))
        raise
    except EncodeError as error:  # nothing of the batch has left
        if len(batch) == 1:
            fail(batch, error)
            return
        for item in batch:
            await send_or_fail([item], send, fail, link)
    except Exception as error:  # noqa: BLE001 - whatever it is, the senders get it
        fail(batch, error)


def fail(batch: Sequence[tuple[T, asyncio.Future[R]]], error: Exception) -> None:
    """Tells the senders of a batch that it failed, where they have not been told anything yet."""
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen: its sender need not wait, and asyncio would complain


# Events of runs

LARGEST_WRITE: Final = 1000  # events in one call

WrittenItem = tuple[RunWrite, asyncio.Future[int]]


class RunWriter:
    """Sends writes in order, in batches, each batch once even when its answer was lost."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._producer = Producer()
        self._queue: deque[WrittenItem] = deque()
        self._task: asyncio.Task[None] | None = None

    def write(self, write: RunWrite) -> asyncio.Future[int]:
        """Hands in one write.

        Returns:
            A future: the number of its first event, 0 when it has none. It fails with FencedError (another worker has the
            message of the handler that writes), CommandError (nothing can be added to the stream), OverloadedError (the
            server's memory is full), EncodeError (a value can't be written) or ServerUnavailableError (no server within
            `socket_timeout`; it may or may not have been written).
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((write, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="callboard-run-writer")
        return future

    async def _run(self) -> None:
        while self._queue:
            await send_or_fail(self._take(), self._send, fail, self._link)

    def _take(self) -> list[WrittenItem]:
        batch: list[WrittenItem] = []
        events, size = 0, 0
        while self._queue:
            write = self._queue[0][0]
            events, size = events + len(write.events), size + write.size
            if batch and (events > LARGEST_WRITE or size > LARGEST_BYTES):
                break
            batch.append(self._queue.popleft())
        return batch

    async def _send(self, batch: Sequence[WrittenItem]) -> None:
        arguments: list[Argument] = [*self._producer.next(), len(batch)]
        for write, _ in batch:
            arguments += write.fence or NO_FENCE
            arguments += write_values(write)
        answer, _ = await send_batch(self._link, "write", arguments, self._producer)
        for (write, future), word in zip(batch, answer, strict=True):
            _end_write(write, future, word)

    async def close(self) -> None:
        """Sends what was handed in, and ends the connection."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})
        self._link.close()


def _end_write(write: RunWrite, future: asyncio.Future[int], word: bytes) -> None:
    if future.done():
        return
    if word == b"fenced" and write.fence is not None:
        fail([(write, future)], FencedError(write.fence.worker))
    elif word == b"unwritable":
        reason = "its key holds something else, or an entry with an id that no event's can follow"
        fail([(write, future)], CommandError(f"nothing can be added to run:{write.run}: {reason}"))
    else:
        future.set_result(0 if word == b"none" else int(word.partition(b"-")[2]))
