from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.redis.client import connection as follower_module
from callboard.broker.redis.client.connection import Link, StreamFollower, just_below
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.keys import Keys
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess


class FollowerFixture:
    """A reader of replies, and a second connection that writes them."""

    def __init__(self, url: str) -> None:
        settings = BrokerSettings(namespace=f"replies-{os.urandom(4).hex()}")
        self.endpoint, self.names, self.settings = (
            Endpoint.parse(url),
            Keys(str(settings.namespace)),
            settings,
        )
        self.link = self._link()
        self.other = self._link()
        self.key = self.names.of("reply:me")
        self.taken: list[str] = []
        self.reader = StreamFollower(self.link, "reply:me", self._take, is_own=True)

    def _link(self) -> Link:
        return Link(self.endpoint, self.names, self.settings)

    def _take(self, values: Sequence[bytes]) -> None:
        if values[0] == b"bad":
            raise ValueError("no such reply")
        self.taken.append(values[0].decode())

    async def write(self, *names: object) -> None:
        for name in names:
            await self.other.command("XADD", self.key, "*", "id", str(name), "type", "T")

    async def takes(self, *names: object) -> None:
        """Waits until exactly these were taken, in order."""
        wanted = [str(name) for name in names]
        await eventually(lambda: self.taken == wanted, what=lambda: self.taken)

    async def is_reading(self) -> bool:
        return b"cmd=xread" in await self.other.command("CLIENT", "LIST")

    async def close(self) -> None:
        await self.reader.close()
        self.other.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


@pytest.fixture
async def fixture(server: ServerProcess) -> AsyncIterator[FollowerFixture]:
    made = FollowerFixture(server.url)
    yield made
    await made.close()


async def test_replies_are_taken_in_order(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await fixture.write(*range(20))
    await fixture.takes(*range(20))


async def test_what_came_before_the_reader_began_is_taken(fixture: FollowerFixture) -> None:
    await fixture.write(1, 2)
    fixture.reader.start()
    await fixture.takes(1, 2)


async def test_starting_twice_reads_once(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    fixture.reader.start()
    await fixture.write(1)
    await fixture.takes(1)
    assert len([task for task in asyncio.all_tasks() if task.get_name() == "callboard-follower"]) == 1


async def test_a_broken_connection_misses_nothing(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await fixture.write("before")
    await fixture.takes("before")
    for number in range(5):
        await eventually(fixture.is_reading)
        fixture.link.break_off("a test")
        await fixture.write(number)
    await fixture.takes("before", *range(5))


async def test_a_killed_client_misses_nothing(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await eventually(fixture.is_reading)
    await fixture.other.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await fixture.write(1)
    await fixture.takes(1)


async def test_it_goes_on_after_a_restart_of_the_server() -> None:
    with ServerProcess() as server:
        fixture = FollowerFixture(server.url)
        fixture.reader.start()
        await fixture.write("before")
        await fixture.takes("before")
        server.kill()
        await eventually(lambda: not fixture.other.is_open)
        server.start()
        await fixture.other.reconnect(5)
        await fixture.write("after")
        await fixture.takes("before", "after")
        await fixture.close()


async def test_it_goes_on_after_its_stream_was_deleted(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await fixture.write("before")
    await fixture.takes("before")
    ((last, _),) = await fixture.other.command("XRANGE", fixture.key, "-", "+")
    await fixture.other.command("DEL", fixture.key)

    async def is_later() -> bool:
        seconds, micros = await fixture.other.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 > int(last.split(b"-")[0])

    await eventually(is_later, what="ids of a stream that was deleted begin anew within a millisecond")
    await fixture.write("after")
    await fixture.takes("before", "after")


async def test_the_stream_is_trimmed(fixture: FollowerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "TRIM_AFTER", 50)
    await fixture.other.command("CONFIG", "SET", "stream-node-max-entries", "10")
    fixture.reader.start()
    for start in range(0, 300, 50):
        await fixture.write(*range(start, start + 50))
        await fixture.takes(*range(start + 50))

    async def is_short() -> bool:
        return int(await fixture.other.command("XLEN", fixture.key)) <= 70

    await eventually(is_short)
    await fixture.other.command("CONFIG", "SET", "stream-node-max-entries", "100")


async def test_a_reply_that_cannot_be_taken_does_not_end_the_reading(
    fixture: FollowerFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower_module, "AFTER_FAILURE", 0.01)
    fixture.reader.start()
    await fixture.write("bad", 1)
    await fixture.takes(1)
    assert "reply:me can't be read, trying again" in caplog.text


async def test_a_key_of_another_kind_does_not_end_the_reading(
    fixture: FollowerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "AFTER_FAILURE", 0.01)
    await fixture.other.command("SET", fixture.key, "no stream")
    fixture.reader.start()
    await eventually(lambda: fixture.link.is_open)
    await fixture.other.command("DEL", fixture.key)
    await fixture.write(1)
    await fixture.takes(1)


async def test_closing_removes_the_stream(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await fixture.write(1)
    await fixture.takes(1)
    await fixture.reader.close()
    assert await fixture.other.command("EXISTS", fixture.key) == 0
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "callboard-follower"]
    assert not fixture.link.is_open


async def test_closing_a_reader_that_never_began(fixture: FollowerFixture) -> None:
    await fixture.reader.close()
    assert not fixture.link.is_open


async def test_closing_without_a_server_does_not_hang() -> None:
    with ServerProcess() as server:
        fixture = FollowerFixture(server.url)
        fixture.reader.start()
        await eventually(fixture.is_reading)
        server.kill()
        await asyncio.wait_for(fixture.close(), 5)


async def test_a_reader_whose_link_is_closed_ends(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await eventually(fixture.is_reading)
    fixture.link.close()
    await eventually(lambda: not [t for t in asyncio.all_tasks() if t.get_name() == "callboard-follower"])


async def test_a_stream_that_was_lost_and_goes_on_with_lower_ids_is_read(
    fixture: FollowerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the server that took over, or that was set back, is behind the ids of before."""
    monkeypatch.setattr(follower_module, "BLOCK", 0.05)
    fixture.reader = StreamFollower(fixture.link, "reply:me", fixture._take, is_own=True)
    ahead = "9000000000000-5"
    fixture.reader.start()
    await fixture.other.command("XADD", fixture.key, ahead, "id", "before", "type", "T")
    await fixture.takes("before")
    await fixture.other.command("DEL", fixture.key)
    await fixture.write("after")
    await fixture.takes("before", "after")


async def test_a_tail_that_was_lost_with_the_connection_is_noticed_at_once(fixture: FollowerFixture) -> None:
    fixture.reader.start()
    await fixture.write("kept")
    await fixture.other.command("XADD", fixture.key, "9000000000000-0", "id", "lost", "type", "T")
    await fixture.takes("kept", "lost")
    await eventually(fixture.is_reading)
    await fixture.other.command("XDEL", fixture.key, "9000000000000-0")
    kept = await _last_kept(fixture)
    # Valkey lets the last id go back only when it has forgotten that a higher one was deleted, and Redis does not mind.
    await fixture.other.command(
        "XSETID", fixture.key, "9000000000000-0", "ENTRIESADDED", 1, "MAXDELETEDID", kept
    )
    await fixture.other.command("XSETID", fixture.key, kept)
    fixture.link.break_off("a failover")
    await fixture.write("new")
    await fixture.takes("kept", "lost", "kept", "new")


async def _last_kept(fixture: FollowerFixture) -> bytes:
    ((entry, _),) = await fixture.other.command("XREVRANGE", fixture.key, "+", "-", "COUNT", 1)
    return bytes(entry)


@pytest.mark.parametrize(
    ("entry", "below"),
    [(b"5-1", b"5-0"), (b"5-0", b"4-18446744073709551615"), (b"0-0", b"0-0")],
)
def test_the_id_just_below_another_one(entry: bytes, below: bytes) -> None:
    assert just_below(entry) == below
