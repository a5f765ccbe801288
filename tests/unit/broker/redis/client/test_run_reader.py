"""What a reader of a run asks for after its connection broke."""

from __future__ import annotations

from typing import Any, cast

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import ConnectionLostError, ServerUnavailableError
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.run_reader import RunReader
from callboard.broker.redis.client.wire import Beginning
from callboard.broker.redis.keys import Keys


class Line:
    """A connection that answers what it was given, one answer for each command."""

    def __init__(self, *answers: Any) -> None:
        self.keys = Keys("test")
        self.settings = BrokerSettings()
        self.is_closed = False
        self.asked: list[str] = []
        self.answers = list(answers)
        self.reconnects = 0

    async def command(
        self, *arguments: Any, timeout: float | None = None, beginning: Beginning | None = None
    ) -> Any:
        self.asked.append(str(arguments[0] if beginning is None else beginning.words[0]))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def reconnect(self, within: float) -> None:
        self.reconnects += 1

    def close(self) -> None:
        self.is_closed = True


def _reader(line: Line, after: int = 0) -> RunReader:
    return RunReader(cast("Link", line), "r1", after)


def _entry(number: int, at: int) -> list[Any]:
    fields = (b"at", b"%d" % at, b"type", b"Note", b"v", b"1", b"body", b"{}")
    return [b"0-%d" % number, list(fields)]


def _page(*entries: list[Any]) -> list[Any]:
    return [[b"run:r1", list(entries)]]


LOST = ConnectionLostError("here", "it broke")


async def test_after_a_lost_connection_it_looks_for_its_place() -> None:
    newest = [b"last-generated-id", b"0-2"]
    line = Line(_page(_entry(1, 5), _entry(2, 6)), LOST, newest, [_entry(2, 6)], _page(_entry(3, 7)))
    reader = _reader(line)
    assert [one.number for one in await reader.read(wait=True) or ()] == [1, 2]
    assert await reader.read(wait=True) == []
    assert line.reconnects == 1
    assert [one.number for one in await reader.read(wait=True) or ()] == [3]
    assert line.asked == ["XREAD", "XREAD", "XINFO", "XRANGE", "XREAD"]


async def test_a_number_that_was_given_again_is_read_again() -> None:
    newest = [b"last-generated-id", b"0-2"]
    again = [_entry(2, 9), _entry(1, 5)]
    line = Line(_page(_entry(1, 5), _entry(2, 6)), LOST, newest, again[:1], again, _page(_entry(2, 9)))
    reader = _reader(line)
    await reader.read(wait=True)
    await reader.read(wait=True)
    assert [(one.number, one.at) for one in await reader.read(wait=True) or ()] == [(2, 9)]


async def test_a_reading_to_the_end_tells_that_no_server_answers() -> None:
    line = Line(LOST)

    async def reconnect(within: float) -> None:
        raise ServerUnavailableError("here", "gone")

    line.reconnect = reconnect  # type: ignore[method-assign]
    with pytest.raises(ServerUnavailableError):
        await _reader(line).read(wait=False)


async def test_a_live_reading_waits_until_a_server_answers() -> None:
    line = Line(LOST, LOST)

    async def reconnect(within: float) -> None:
        raise ServerUnavailableError("here", "gone")

    line.reconnect = reconnect  # type: ignore[method-assign]
    reader = _reader(line)
    assert await reader.read(wait=True) == []
    assert await reader.read(wait=True) == []


async def test_one_that_was_closed_ends() -> None:
    line = Line(LOST)
    reader = _reader(line)
    reader.close()
    with pytest.raises(ConnectionLostError):
        await reader.read(wait=True)
