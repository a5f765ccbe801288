from __future__ import annotations

import asyncio
import gc
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from broker import BrokerSettings
from broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
    UndeliverableError,
)
from broker.redis.endpoint import Endpoint
from broker.redis.keys import Keys
from broker.redis.link import Link
from broker.redis.publisher import LARGEST_BATCH, Posting, Publisher
from broker.redis.transport import Declared, RedisTransport
from broker.redis.wire import Argument
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess

FIRST_VALUE, WIDTH = 7, 10


def note(number: object, stream: str = "topic:visits", **rest: Any) -> Posting:
    key, body = rest.pop("key", "k"), rest.pop("body", b"{}")
    return Posting(stream, rest.pop("due", 0), (f"m{number}", "Note", key, "", b"", body), **rest)


class WatchedLink(Link):
    """A link that shows what is sent and loses answers when it is told to.

    Attributes:
        batches: number of a batch and ids of its messages, for every call.
        losses: for the next calls, whether the call is carried out although its answer is lost; None: nothing is lost.
        answering: while it is not set, calls wait before they are sent.
    """

    def __init__(self, url: str, settings: BrokerSettings) -> None:
        super().__init__(Endpoint.parse(url), Keys(settings.namespace), settings)
        self.batches: list[tuple[int, list[str]]] = []
        self.losses: deque[bool | None] = deque()
        self.answering = asyncio.Event()
        self.answering.set()

    async def run(self, name: str, arguments: Sequence[Argument], timeout: float | None = None) -> Any:
        ids = [str(value) for value in arguments[FIRST_VALUE + 4 :: WIDTH]]
        self.batches.append((int(arguments[1]), ids))
        await self.answering.wait()
        loss = self.losses.popleft() if self.losses else None
        if loss is False:
            raise ConnectionLostError("redis://test", "cut before")
        answer = await super().run(name, arguments, timeout)
        if loss:
            raise ConnectionLostError("redis://test", "cut after")
        return answer


class Press:
    """A publisher and the namespace it publishes to."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.settings = BrokerSettings(namespace=f"press-{os.urandom(4).hex()}", **settings)
        self.transport = RedisTransport(url, self.settings)
        self.link = WatchedLink(url, self.settings)
        self.full_topics: list[str] = []
        self.publisher = Publisher(self.link, self.full_topics.append)

    async def declare(self) -> None:
        await self.transport.declare({"counter": {}}, [Declared("counter", "topic", "visits")])

    async def post(self, *postings: Posting) -> list[bool | BaseException]:
        """What became of each."""
        return await asyncio.gather(*(self.publisher.post(one) for one in postings), return_exceptions=True)

    async def ids(self, stream: str = "topic:visits") -> list[str]:
        """Ids of the messages in a stream, in order."""
        found = await self.transport.admin.command("XRANGE", self.transport.keys.of(stream), "-", "+")
        return [fields[1].decode() for _, fields in found]

    async def close(self) -> None:
        await self.publisher.close()
        await self.transport.close(delete_namespace=True)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


@pytest.fixture
async def press(server: ServerProcess) -> AsyncIterator[Press]:
    made = Press(server.url, socket_timeout=2.0)
    await made.declare()
    yield made
    await made.close()


# Batches


async def test_messages_are_added_in_the_order_in_which_they_were_handed_in(press: Press) -> None:
    assert await press.post(*(note(n) for n in range(50))) == [True] * 50
    assert await press.ids() == [f"m{n}" for n in range(50)]


async def test_what_is_handed_in_at_once_leaves_in_one_call(press: Press) -> None:
    await press.post(*(note(n) for n in range(LARGEST_BATCH + 10)))
    assert [(number, len(ids)) for number, ids in press.link.batches] == [(1, LARGEST_BATCH), (2, 10)]
    assert len(await press.ids()) == LARGEST_BATCH + 10


async def test_what_is_handed_in_during_a_call_leaves_with_the_next(press: Press) -> None:
    press.link.answering.clear()
    first = press.publisher.post(note("first"))
    await eventually(lambda: press.link.batches)
    others = [press.publisher.post(note(n)) for n in range(3)]
    press.link.answering.set()
    assert await asyncio.gather(first, *others) == [True] * 4
    assert press.link.batches == [(1, ["mfirst"]), (2, ["m0", "m1", "m2"])]


async def test_a_batch_of_large_bodies_is_smaller(press: Press) -> None:
    await press.post(*(note(n, body=bytes(1_500_000)) for n in range(5)))
    assert [len(ids) for _, ids in press.link.batches] == [3, 2]


async def test_in_flight_counts_from_the_moment_of_handing_in(press: Press) -> None:
    assert press.publisher.in_flight == 0
    futures = [press.publisher.post(note(n)) for n in range(3)]
    assert press.publisher.in_flight == 3, "before anything has run"
    press.link.answering.clear()
    await eventually(lambda: press.link.batches)
    futures.append(press.publisher.post(note("late")))
    assert press.publisher.in_flight == 4
    press.link.answering.set()
    await asyncio.gather(*futures)
    await press.publisher.flush()
    assert press.publisher.in_flight == 0


async def test_a_message_may_be_due_later(press: Press) -> None:
    await press.post(note("later", due=3_600_000), note("now"))
    assert await press.ids() == ["mnow"]
    assert (await press.transport.idle())[2] == 0, "not due yet"
    assert await press.transport.admin.command("ZCARD", press.transport.keys.of("timers")) == 1


async def test_a_message_with_an_idempotency_id_is_added_once(press: Press) -> None:
    assert await press.post(note(1, once="x"), note(2, once="x"), note(3, once="y")) == [True, False, True]
    assert await press.post(note(4, once="x")) == [False]
    assert await press.ids() == ["m1", "m3"]


async def test_a_topic_that_nobody_takes_is_reported_when_it_is_full(server: ServerProcess) -> None:
    press = Press(server.url, max_unclaimed=10)
    assert await press.post(*(note(n, "topic:unread") for n in range(200))) == [True] * 200
    assert press.full_topics == ["unread"]
    await press.close()


# Answers that are lost


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_batch_whose_answer_was_lost_is_added_once(press: Press, carried_out: bool) -> None:
    press.link.losses.extend([carried_out, carried_out, None])
    assert await press.post(note(1), note(2)) == [True, True]
    assert press.link.batches == [(1, ["m1", "m2"])] * 3, "the same number every time"
    assert await press.post(note(3)) == [True]
    assert await press.ids() == ["m1", "m2", "m3"]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_lost_answer_hides_nothing_that_went_wrong(press: Press, carried_out: bool) -> None:
    await press.post(note(0, once="x"))
    press.link.losses.append(carried_out)
    done = await press.post(note(1), note(2, "inbox:nobody"), note(3, once="x"), note(4))
    assert (done[0], done[2], done[3]) == (True, False, True)
    assert isinstance(done[1], UndeliverableError)
    assert await press.ids() == ["m0", "m1", "m4"]


async def test_a_batch_that_comes_late_is_not_added(press: Press) -> None:
    press.link.losses.append(True)
    await press.post(note(1))
    await press.post(note(2))
    producer = press.publisher._producer
    late: list[Argument] = [
        producer,
        1,
        86_400_000,
        100,
        0,
        0,
        1,
        "topic:visits",
        0,
        "",
        "",
        "m1",
        "Note",
        "k",
        "",
        b"",
        b"{}",
    ]
    await press.transport.admin.run("publish", late)
    assert await press.ids() == ["m1", "m2"]


async def test_connections_that_are_killed_again_and_again_double_nothing(press: Press) -> None:
    async def kill() -> None:
        while True:
            clients = (await press.transport.admin.command("CLIENT", "LIST")).split(b"\n")
            for client in clients:
                if b" cmd=fcall" in client:
                    number = client.split(b" ", 1)[0].removeprefix(b"id=")
                    await press.transport.admin.command("CLIENT", "KILL", "ID", number, "SKIPME", "yes")
            await asyncio.sleep(0)

    killing = asyncio.create_task(kill())
    done = [await press.post(*(note(f"{turn}-{n}") for n in range(5))) for turn in range(60)]
    killing.cancel()
    assert done == [[True] * 5] * 60
    assert await press.ids() == [f"m{turn}-{n}" for turn in range(60) for n in range(5)]


# Failures


async def test_what_cannot_be_delivered_fails_alone(press: Press) -> None:
    done = await press.post(note(1, "inbox:counter"), note(2, "inbox:nobody"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], UndeliverableError)
    assert done[1].recipient == "nobody"


async def test_what_cannot_be_written_fails_alone(press: Press) -> None:
    done = await press.post(note(1), note(2, key="half \ud800"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], EncodeError)
    assert await press.ids() == ["m1", "m3"]


async def test_a_full_server_is_told_as_such_and_publishing_goes_on_later(press: Press) -> None:
    await press.post(note(1))
    await press.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    (error,) = await press.post(note(2))
    await press.transport.admin.command("CONFIG", "SET", "maxmemory", "0")
    assert isinstance(error, OverloadedError)
    assert await press.post(note(3)) == [True]
    assert await press.ids() == ["m1", "m3"]


async def test_without_a_server_it_fails_after_the_socket_timeout_and_works_when_there_is_one() -> None:
    with ServerProcess() as server:
        press = Press(server.url, socket_timeout=0.2, connect_timeout=0.2)
        await press.post(note(1))
        server.kill()
        (error,) = await press.post(note(2))
        assert isinstance(error, ServerUnavailableError)
        waiting = press.publisher.post(note(3))
        server.start()
        assert await waiting is True
        await press.close()


async def test_a_message_that_is_sent_without_waiting_may_fail_in_silence(press: Press) -> None:
    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    press.publisher.post(note(1, "inbox:nobody"))
    press.publisher.post(note(2, key="half \ud800"))
    await press.publisher.flush()
    gc.collect()
    assert heard == []


async def test_a_caller_that_gave_up_changes_nothing_for_the_others(press: Press) -> None:
    futures = [press.publisher.post(note(n)) for n in range(3)]
    futures[1].cancel()
    assert await futures[0]
    assert await futures[2]
    assert await press.ids() == ["m0", "m1", "m2"], "it was on its way"


async def test_an_answer_that_makes_no_sense_fails_the_batch_and_the_next_one_works(press: Press) -> None:
    run = press.link.run

    async def nonsense(name: str, arguments: Sequence[Argument], timeout: float | None = None) -> Any:
        press.link.run = run  # type: ignore[method-assign]
        return [b"1", b"", b"not a number", b"duplicate"]

    press.link.run = nonsense  # type: ignore[method-assign]
    (error,) = await press.post(note(1))
    assert isinstance(error, ValueError)
    assert await press.post(note(2)) == [True]


async def spoil(press: Press, kind: str, stream: str = "topic:bad") -> None:
    """Makes a stream that takes nothing."""
    key = press.transport.keys.of(stream)
    if kind == "of another kind":
        await press.transport.admin.command("SET", key, "no stream")
    else:
        await press.transport.admin.command("XADD", key, f"{2**64 - 1}-{2**64 - 1}", "by", "hand")


@pytest.mark.parametrize("kind", ["of another kind", "with its last id used"])
async def test_a_stream_that_takes_nothing_fails_its_own_messages_only(press: Press, kind: str) -> None:
    await spoil(press, kind)
    done = await press.post(note(1), note(2, "topic:bad", once="x"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], CommandError)
    assert "nothing can be added to topic:bad" in str(done[1])
    assert await press.ids() == ["m1", "m3"]
    assert await press.post(note(4, once="x")) == [True], "the idempotency id was not used up"


# Closing


async def test_flushing_waits_until_everything_is_sent(press: Press) -> None:
    await press.publisher.flush()
    for number in range(700):
        press.publisher.post(note(number))
    await press.publisher.flush()
    assert press.publisher.in_flight == 0
    assert len(await press.ids()) == 700


async def test_closing_sends_what_was_handed_in(press: Press) -> None:
    waiting = press.publisher.post(note(1))
    await press.publisher.close()
    assert waiting.result() is True
    assert not press.link.is_open


async def test_handing_in_after_closing_fails_at_once(press: Press) -> None:
    await press.publisher.close()
    with pytest.raises(ConnectionLostError, match="the link was closed"):
        await asyncio.wait_for(press.publisher.post(note(1)), 1)


async def test_a_publisher_whose_task_is_cancelled_leaves_nobody_waiting(press: Press) -> None:
    press.link.answering.clear()
    waiting = press.publisher.post(note(1))
    await eventually(lambda: press.link.batches)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "callboard-publisher"]
    task.cancel()
    with pytest.raises(ConnectionLostError, match="the publisher was closed"):
        await waiting
    press.link.answering.set()
    assert await press.post(note(2)) == [True]
