from __future__ import annotations

import asyncio
import gc
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import Any

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope, Posting
from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
    UndeliverableError,
)
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Argument, Endpoint
from callboard.broker.redis.client.publisher import (
    FULL,
    HEADED,
    LARGEST_BATCH,
    PLAIN,
    Publisher,
    message_values,
)
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.redis.keys import Keys
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess

FIRST_VALUE, WIDTHS = 5, {PLAIN: 3, HEADED: 5, FULL: 8}


def note(number: object, stream: str = "topic:visits", **rest: Any) -> Posting:
    key, body = rest.pop("key", "k"), rest.pop("body", b"{}")
    return Posting(Envelope(f"m{number}", "Note", key, None, 0, body), stream, **rest)


def _ids(arguments: Sequence[Any]) -> list[str]:
    """The ids of the messages in a call of publish.lua."""
    ids: list[str] = []
    at = FIRST_VALUE
    while len(ids) < arguments[3]:
        form, count = arguments[at], arguments[at + 3]
        width = WIDTHS[form] + (arguments[at + 1] == "")  # of several streams: each message has its own
        behind = at + 4 + count * width
        ids += arguments[at + 4 : behind : width]
        at = behind
    return ids


class WatchedLink(Link):
    """A link that shows what is sent and loses answers when it is told to.

    Attributes:
        batches: number of a batch and ids of its messages, for every call.
        losses: for the next calls, whether the call is carried out although its answer is lost; None: nothing is lost.
        answering: while it is not set, calls wait before they are sent.
        at_once: calls that were begun without a task.
    """

    def __init__(self, url: str, settings: BrokerSettings) -> None:
        super().__init__(Endpoint.parse(url), Keys(str(settings.namespace)), settings)
        self.batches: list[tuple[int, list[str]]] = []
        self.losses: deque[bool | None] = deque()
        self.answering = asyncio.Event()
        self.answering.set()
        self.at_once = 0

    def begin(self, name: str, arguments: Sequence[Argument]) -> asyncio.Future[Any] | None:
        self.at_once += 1
        return asyncio.ensure_future(self.run(name, arguments)) if self.is_open else None

    async def run(
        self,
        name: str,
        arguments: Sequence[Argument],
        timeout: float | None = None,
        begun: Awaitable[Any] | None = None,
    ) -> Any:
        if begun is not None:
            return await super().run(name, arguments, timeout, begun)
        self.batches.append((int(arguments[1]), _ids(arguments)))
        await self.answering.wait()
        loss = self.losses.popleft() if self.losses else None
        if loss is False:
            raise ConnectionLostError("redis://test", "cut before")
        answer = await super().run(name, arguments, timeout)
        if loss:
            raise ConnectionLostError("redis://test", "cut after")
        return answer


class PublisherFixture:
    """A publisher and the namespace it publishes to."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.settings = BrokerSettings(namespace=f"publisher-{os.urandom(4).hex()}", **settings)
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
async def fixture(server: ServerProcess) -> AsyncIterator[PublisherFixture]:
    made = PublisherFixture(server.url, socket_timeout=2.0)
    await made.declare()
    yield made
    await made.close()


# Batches


async def test_messages_are_added_in_the_order_in_which_they_were_handed_in(
    fixture: PublisherFixture,
) -> None:
    assert await fixture.post(*(note(n) for n in range(50))) == [True] * 50
    assert await fixture.ids() == [f"m{n}" for n in range(50)]


async def test_what_is_handed_in_at_once_leaves_in_one_call(fixture: PublisherFixture) -> None:
    await fixture.post(*(note(n) for n in range(LARGEST_BATCH + 10)))
    assert [(number, len(ids)) for number, ids in fixture.link.batches] == [(1, LARGEST_BATCH), (2, 10)]
    assert len(await fixture.ids()) == LARGEST_BATCH + 10


async def test_what_is_handed_in_during_a_call_leaves_with_the_next(fixture: PublisherFixture) -> None:
    fixture.link.answering.clear()
    first = fixture.publisher.post(note("first"))
    await eventually(lambda: fixture.link.batches)
    others = [fixture.publisher.post(note(n)) for n in range(3)]
    fixture.link.answering.set()
    assert await asyncio.gather(first, *others) == [True] * 4
    assert fixture.link.batches == [(1, ["mfirst"]), (2, ["m0", "m1", "m2"])]


async def test_a_batch_of_large_bodies_is_smaller(fixture: PublisherFixture) -> None:
    await fixture.post(*(note(n, body=bytes(1_500_000)) for n in range(5)))
    assert [len(ids) for _, ids in fixture.link.batches] == [3, 2]


async def test_in_flight_counts_from_the_moment_of_handing_in(fixture: PublisherFixture) -> None:
    assert fixture.publisher.in_flight == 0
    futures = [fixture.publisher.post(note(n)) for n in range(3)]
    assert fixture.publisher.in_flight == 3, "before anything has run"
    fixture.link.answering.clear()
    await eventually(lambda: fixture.link.batches)
    futures.append(fixture.publisher.post(note("late")))
    assert fixture.publisher.in_flight == 4
    fixture.link.answering.set()
    await asyncio.gather(*futures)
    await fixture.publisher.flush()
    assert fixture.publisher.in_flight == 0


def test_messages_of_one_stream_say_it_once() -> None:
    values = message_values([note(1), note(2)])
    assert values == [PLAIN, "topic:visits", "Note", 2, "m1", "k", b"{}", "m2", "k", b"{}"]


def test_messages_that_go_from_stream_to_stream_are_a_run_in_which_each_names_its_own() -> None:
    values = message_values([note(1, "topic:a"), note(2, "topic:b"), note(3, "topic:c", due=5)])
    assert values[:4] == [PLAIN, "", "Note", 2]
    assert (values[7], values[11]) == ("topic:a", "topic:b")
    assert values[12:16] == [FULL, "", "Note", 1]
    assert values[16] == "m3"
    assert values[24:] == ["topic:c"]


# A message that comes alone


async def _alone(fixture: PublisherFixture) -> None:
    """So that the next one is taken to come alone as well."""
    assert await fixture.post(note("first")) == [True]
    assert fixture.link.at_once == 0


async def test_what_comes_alone_again_is_sent_at_once(fixture: PublisherFixture) -> None:
    await _alone(fixture)
    arrival = fixture.publisher.post(note(1))
    assert (fixture.link.at_once, fixture.publisher.in_flight) == (1, 1)
    later = [fixture.publisher.post(note(number)) for number in range(2, 5)]
    assert await asyncio.gather(arrival, *later) == [True] * 4
    assert [ids for _, ids in fixture.link.batches] == [["mfirst"], ["m1"], ["m2", "m3", "m4"]]
    await fixture.post(note(5))
    assert fixture.link.at_once == 1, "the one before it came with others"


@pytest.mark.parametrize("is_carried_out", [True, False])
async def test_what_was_sent_at_once_and_lost_is_added_once(
    fixture: PublisherFixture, is_carried_out: bool
) -> None:
    await _alone(fixture)
    fixture.link.losses.append(is_carried_out)
    posted = [fixture.publisher.post(note(name)) for name in ("lost", "later")]
    assert fixture.link.at_once == 1
    assert await asyncio.gather(*posted) == [True, True]
    assert await fixture.ids() == ["mfirst", "mlost", "mlater"]
    assert [number for number, _ in fixture.link.batches] == [1, 2, 2, 3]


async def test_what_was_sent_at_once_and_can_not_be_written_fails(fixture: PublisherFixture) -> None:
    await _alone(fixture)
    (error,) = await fixture.post(note(1, key="\ud800"))
    assert isinstance(error, EncodeError)
    assert await fixture.post(note(2)) == [True]


@pytest.mark.parametrize("ends", [True, False])
async def test_what_was_sent_at_once_is_waited_for(fixture: PublisherFixture, ends: bool) -> None:
    await _alone(fixture)
    arrival = fixture.publisher.post(note(1))
    assert fixture.link.at_once == 1
    await (fixture.publisher.close() if ends else fixture.publisher.flush())
    assert arrival.done()
    assert arrival.result()


async def test_a_message_may_be_due_later(fixture: PublisherFixture) -> None:
    await fixture.post(note("later", due=3_600_000), note("now"))
    assert await fixture.ids() == ["mnow"]
    assert (await fixture.transport.idle())[2] == 0, "not due yet"
    assert await fixture.transport.admin.command("ZCARD", fixture.transport.keys.of("timers")) == 1


async def test_a_message_with_an_idempotency_id_is_added_once(fixture: PublisherFixture) -> None:
    assert await fixture.post(
        note(1, idempotency_id="x"), note(2, idempotency_id="x"), note(3, idempotency_id="y")
    ) == [True, False, True]
    assert await fixture.post(note(4, idempotency_id="x")) == [False]
    assert await fixture.ids() == ["m1", "m3"]


async def test_a_topic_that_nobody_takes_is_reported_when_it_is_full(server: ServerProcess) -> None:
    fixture = PublisherFixture(server.url, max_unclaimed=10)
    assert await fixture.post(*(note(n, "topic:unread") for n in range(200))) == [True] * 200
    assert fixture.full_topics == ["unread"]
    await fixture.close()


# Answers that are lost


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_batch_whose_answer_was_lost_is_added_once(
    fixture: PublisherFixture, carried_out: bool
) -> None:
    fixture.link.losses.extend([carried_out, carried_out, None])
    assert await fixture.post(note(1), note(2)) == [True, True]
    assert fixture.link.batches == [(1, ["m1", "m2"])] * 3, "the same number every time"
    assert await fixture.post(note(3)) == [True]
    assert await fixture.ids() == ["m1", "m2", "m3"]


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_lost_answer_hides_nothing_that_went_wrong(
    fixture: PublisherFixture, carried_out: bool
) -> None:
    await fixture.post(note(0, idempotency_id="x"))
    fixture.link.losses.append(carried_out)
    done = await fixture.post(note(1), note(2, "inbox:nobody"), note(3, idempotency_id="x"), note(4))
    assert (done[0], done[2], done[3]) == (True, False, True)
    assert isinstance(done[1], UndeliverableError)
    assert await fixture.ids() == ["m0", "m1", "m4"]


async def test_a_batch_that_comes_late_is_not_added(fixture: PublisherFixture) -> None:
    fixture.link.losses.append(True)
    await fixture.post(note(1))
    await fixture.post(note(2))
    late: list[Argument] = [
        fixture.publisher._producer.name,
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
    with pytest.raises(CommandError, match="OVERTAKEN"):
        await fixture.transport.admin.run("publish", late)
    assert await fixture.ids() == ["m1", "m2"]


async def test_connections_that_are_killed_again_and_again_double_nothing(fixture: PublisherFixture) -> None:
    async def kill() -> None:
        while True:
            clients = (await fixture.transport.admin.command("CLIENT", "LIST")).split(b"\n")
            for client in clients:
                if b" cmd=fcall" in client:
                    number = client.split(b" ", 1)[0].removeprefix(b"id=")
                    await fixture.transport.admin.command("CLIENT", "KILL", "ID", number, "SKIPME", "yes")
            await asyncio.sleep(0)

    killing = asyncio.create_task(kill())
    done = [await fixture.post(*(note(f"{turn}-{n}") for n in range(5))) for turn in range(60)]
    killing.cancel()
    assert done == [[True] * 5] * 60
    assert await fixture.ids() == [f"m{turn}-{n}" for turn in range(60) for n in range(5)]


# Failures


async def test_what_cannot_be_delivered_fails_alone(fixture: PublisherFixture) -> None:
    done = await fixture.post(note(1, "inbox:counter"), note(2, "inbox:nobody"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], UndeliverableError)
    assert done[1].recipient == "nobody"


async def test_what_cannot_be_written_fails_alone(fixture: PublisherFixture) -> None:
    done = await fixture.post(note(1), note(2, key="half \ud800"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], EncodeError)
    assert await fixture.ids() == ["m1", "m3"]


async def test_a_full_server_is_told_as_such_and_publishing_goes_on_later(fixture: PublisherFixture) -> None:
    await fixture.post(note(1))
    await fixture.transport.admin.command("CONFIG", "SET", "maxmemory", "1")
    (error,) = await fixture.post(note(2))
    await fixture.transport.admin.command("CONFIG", "SET", "maxmemory", "0")
    assert isinstance(error, OverloadedError)
    assert await fixture.post(note(3)) == [True]
    assert await fixture.ids() == ["m1", "m3"]


async def test_without_a_server_it_fails_after_the_socket_timeout_and_works_when_there_is_one() -> None:
    with ServerProcess() as server:
        fixture = PublisherFixture(server.url, socket_timeout=0.2, connect_timeout=0.2)
        await fixture.post(note(1))
        server.kill()
        (error,) = await fixture.post(note(2))
        assert isinstance(error, ServerUnavailableError)
        waiting = fixture.publisher.post(note(3))
        server.start()
        assert await waiting is True
        await fixture.close()


async def test_a_message_that_is_sent_without_waiting_may_fail_in_silence(fixture: PublisherFixture) -> None:
    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    fixture.publisher.post(note(1, "inbox:nobody"))
    fixture.publisher.post(note(2, key="half \ud800"))
    await fixture.publisher.flush()
    gc.collect()
    assert heard == []


async def test_a_caller_that_gave_up_changes_nothing_for_the_others(fixture: PublisherFixture) -> None:
    futures = [fixture.publisher.post(note(n)) for n in range(3)]
    futures[1].cancel()
    assert await futures[0]
    assert await futures[2]
    assert await fixture.ids() == ["m0", "m1", "m2"], "it was on its way"


async def test_an_answer_that_makes_no_sense_fails_the_batch_and_the_next_one_works(
    fixture: PublisherFixture,
) -> None:
    run = fixture.link.run

    async def nonsense(
        name: str,
        arguments: Sequence[Argument],
        timeout: float | None = None,
        begun: Awaitable[Any] | None = None,
    ) -> Any:
        fixture.link.run = run  # type: ignore[method-assign]
        return [b"1", b"", b"not a number", b"duplicate"]

    fixture.link.run = nonsense  # type: ignore[method-assign]
    (error,) = await fixture.post(note(1))
    assert isinstance(error, ValueError)
    assert await fixture.post(note(2)) == [True]


async def spoil(fixture: PublisherFixture, kind: str, stream: str = "topic:bad") -> None:
    """Makes a stream that takes nothing."""
    key = fixture.transport.keys.of(stream)
    if kind == "of another kind":
        await fixture.transport.admin.command("SET", key, "no stream")
    else:
        await fixture.transport.admin.command("XADD", key, f"{2**64 - 1}-{2**64 - 1}", "by", "hand")


@pytest.mark.parametrize("kind", ["of another kind", "with its last id used"])
async def test_a_stream_that_takes_nothing_fails_its_own_messages_only(
    fixture: PublisherFixture, kind: str
) -> None:
    await spoil(fixture, kind)
    done = await fixture.post(note(1), note(2, "topic:bad", idempotency_id="x"), note(3))
    assert (done[0], done[2]) == (True, True)
    assert isinstance(done[1], CommandError)
    assert "nothing can be added to topic:bad" in str(done[1])
    assert await fixture.ids() == ["m1", "m3"]
    assert await fixture.post(note(4, idempotency_id="x")) == [True], "the idempotency id was not used up"


# Closing


async def test_flushing_waits_until_everything_is_sent(fixture: PublisherFixture) -> None:
    await fixture.publisher.flush()
    for number in range(700):
        fixture.publisher.post(note(number))
    await fixture.publisher.flush()
    assert fixture.publisher.in_flight == 0
    assert len(await fixture.ids()) == 700


async def test_closing_sends_what_was_handed_in(fixture: PublisherFixture) -> None:
    waiting = fixture.publisher.post(note(1))
    await fixture.publisher.close()
    assert waiting.result() is True
    assert not fixture.link.is_open


async def test_handing_in_after_closing_fails_at_once(fixture: PublisherFixture) -> None:
    await fixture.publisher.close()
    with pytest.raises(ConnectionLostError, match="the link was closed"):
        await asyncio.wait_for(fixture.publisher.post(note(1)), 1)


async def test_a_publisher_whose_task_is_cancelled_leaves_nobody_waiting(fixture: PublisherFixture) -> None:
    fixture.link.answering.clear()
    waiting = fixture.publisher.post(note(1))
    await eventually(lambda: fixture.link.batches)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "callboard-publisher"]
    task.cancel()
    with pytest.raises(ConnectionLostError, match="the publisher was closed"):
        await waiting
    fixture.link.answering.set()
    assert await fixture.post(note(2)) == [True]
