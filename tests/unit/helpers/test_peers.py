from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from urllib.parse import urlsplit

import pytest

from tests.helpers.peers import peer, silent


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_comes_at_the_end_is_closed(turns: int) -> None:
    with socket.socket() as client:
        client.setblocking(False)

        async def connect_last() -> None:
            async with peer(silent) as server:
                url = urlsplit(server.url)
                client.connect_ex((url.hostname, url.port))
                for _ in range(turns):
                    await asyncio.sleep(0)

        asyncio.run(connect_last())
        gc.collect()  # what is left open is a warning, and so an error of this test
        client.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
