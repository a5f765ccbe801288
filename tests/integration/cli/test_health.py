"""`callboard worker --health-file` and `callboard health`."""

from __future__ import annotations

import os
import signal

from tests.helpers.servers import ServerProcess

from .commands import ShopFolder, wait_for


def test_health_follows_the_worker_and_its_server(shop: ShopFolder, server: ServerProcess) -> None:
    shop.environ |= {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.2"}
    assert "there is no" in shop.run("health", "well").stdout
    with shop.started("worker", "shop:app", "--health-file", "well") as worker:
        worker.shows("works as")
        wait_for((shop.folder / "well").exists)
        shop.out("publish", "shop:app", "jobs", "Job", "name=block", "seconds=3")
        assert "the worker works" in shop.out("health", "well", "--within", "2s")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: shop.run("health", "well", "--within", "1").returncode == 1)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        wait_for(lambda: shop.run("health", "well", "--within", "2").returncode == 0)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert not (shop.folder / "well").exists()


def test_wrong_use_of_health(shop: ShopFolder) -> None:
    nothing = shop.run("health")
    assert (nothing.returncode, "name the health file" in nothing.stderr) == (2, True)
    wrong = shop.run("health", "well", "--within", "soon")
    assert (wrong.returncode, "write 90s, 1h30m" in wrong.stderr) == (2, True)
    nowhere = shop.run("worker", "shop:app", "--health-file", "no/such/folder")
    assert (nowhere.returncode, "there is no folder no/such" in nowhere.stderr) == (2, True)
