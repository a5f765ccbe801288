"""`callboard ask` that is interrupted."""

from __future__ import annotations

import json
import os
import signal

from tests.helpers.servers import ServerProcess

from .commands import ShopFolder, wait_for


def running_in(shop: ShopFolder) -> int:
    """Agents that run."""
    return int(json.loads(shop.out("status", "shop:app", "--json"))["totals"]["running"])


def test_ctrl_c_cancels_the_request(shop: ShopFolder) -> None:
    with shop.started("worker", "shop:app") as worker:
        worker.shows("works as")
        with shop.started("ask", "shop:app", "clerk/a", "Ask", "say=wait") as asking:
            wait_for(lambda: running_in(shop) == 1)
            asking.signal(signal.SIGINT)
            assert asking.ends(10) == 130
            assert asking.text.splitlines() == [
                "callboard: cancelling the request; once more ends at once",
                "callboard: the request was cancelled",
            ]
        wait_for(lambda: running_in(shop) == 0, within=5)


def test_a_second_ctrl_c_ends_at_once(shop: ShopFolder, server: ServerProcess) -> None:
    with shop.started("worker", "shop:app") as worker:
        worker.shows("works as")
        with shop.started("ask", "shop:app", "clerk/a", "Ask", "say=wait") as asking:
            wait_for(lambda: running_in(shop) == 1)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                asking.signal(signal.SIGINT)
                asking.shows("once more ends at once")
                asking.signal(signal.SIGINT)
                assert asking.ends(2) == 130
            finally:
                os.kill(server.pid, signal.SIGCONT)
