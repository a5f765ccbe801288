from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess

COMMANDS = {"HSCAN": "HSET", "SSCAN": "SADD", "ZSCAN": "ZADD"}
MANY = 3000


@pytest.fixture
async def running() -> AsyncIterator[tuple[ServerProcess, RedisTransport]]:
    with ServerProcess(persistent=True, options=("--appendfsync", "no")) as server:
        transport = RedisTransport(server.url, BrokerSettings())
        yield server, transport
        await transport.close()


async def _fill(transport: RedisTransport, command: str) -> set[bytes]:
    """Members for a scan with this command; what is looked for in each page is every value of it."""
    names = [f"m{number}" for number in range(MANY)]
    if command == "SCAN":
        await transport.admin.command("MSET", *[word for name in names for word in (name, 1)])
        return {name.encode() for name in names}
    pairs = [
        word
        for number, name in enumerate(names)
        for word in ((number, name) if command == "ZSCAN" else (name, "x"))
    ]
    await transport.admin.command(COMMANDS[command], "many", *(names if command == "SSCAN" else pairs))
    return {name.encode() for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["SCAN", *COMMANDS])
async def test_nothing_is_left_out_where_the_server_is_started_again_between_two_pages(
    running: tuple[ServerProcess, RedisTransport], command: str
) -> None:
    server, transport = running
    expected = await _fill(transport, command)
    where = () if command == "SCAN" else ("many",)
    found: set[bytes] = set()
    pages = 0
    async for part in scan(transport.admin, command, *where, page=300):
        found.update(part)
        pages += 1
        if pages == 3:
            server.kill()
            await eventually(lambda: not transport.admin.is_open)
            server.start()
    assert expected <= found


class Server:
    """Two server processes, one after the other, that have three members in different order; cursors count members."""

    def __init__(self, restarts_after: int) -> None:
        self.opened = 1
        self.calls: list[int] = []
        self._restarts_after = restarts_after

    async def command(self, *arguments: Any) -> tuple[bytes, Sequence[bytes]]:
        if len(self.calls) == self._restarts_after:
            self.opened = 2
        members = [b"a", b"b", b"c"] if self.opened == 1 else [b"c", b"b", b"a"]
        at = int(arguments[2])
        self.calls.append(at)
        return b"%d" % ((at + 1) % len(members)), [members[at]]


@pytest.mark.parametrize(
    ("restarts_after", "asked_for"),
    [(9, [0, 1, 2]), (1, [0, 1, 0, 1, 2]), (2, [0, 1, 2, 0, 1, 2])],
    ids=["never", "first page", "last page but one"],
)
async def test_a_scan_begins_anew_on_another_connection(restarts_after: int, asked_for: list[int]) -> None:
    link: Any = Server(restarts_after)
    found = [member async for page in scan(link, "SSCAN", "members") for member in page]
    assert (set(found), link.calls) == ({b"a", b"b", b"c"}, asked_for)
