"""`callboard worker --metrics-port` and `callboard metrics`, as Prometheus and probes see them."""

from __future__ import annotations

import os
import re
import signal
import urllib.error
import urllib.request

from tests.helpers.servers import ServerProcess

from .commands import Running, ShopFolder, wait_for


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def address(process: Running) -> str:
    """Where a process gives out metrics, as it says."""
    process.shows("/metrics")
    (url,) = re.findall(r"(http://[\d.:]+)/metrics", process.text)
    return str(url)


def test_a_worker_gives_out_what_it_did_and_whether_the_server_hears_it(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.environ |= {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.2"}
    with shop.started("worker", "shop:app", "--metrics-port", "0") as worker:
        url = address(worker)
        worker.shows("works as")
        shop.out("publish", "shop:app", "jobs", "Job", "name=quick")
        done = 'handled_total{namespace="shop",outcome="committed",type="clerk"} 1.0'
        wait_for(lambda: done in get(f"{url}/metrics")[1])
        wait_for(lambda: get(f"{url}/readyz")[0] == 200)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: get(f"{url}/readyz")[0] == 503)
            assert get(f"{url}/healthz")[0] == 200
        finally:
            os.kill(server.pid, signal.SIGCONT)
        wait_for(lambda: get(f"{url}/readyz")[0] == 200)
        taken = shop.run("worker", "shop:app", "--metrics-port", url.rpartition(":")[2])
        assert (taken.returncode, "choose another port" in taken.stderr) == (1, True)
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


def test_a_namespace_is_printed_or_served(shop: ShopFolder, server: ServerProcess) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=quick")
    waits = 'callboard_waiting{namespace="shop",type="clerk"} 1.0'
    assert waits in shop.out("metrics", "shop:app")
    with shop.started("metrics", "shop:app", "--port", "0") as exporter:
        url = address(exporter)
        assert waits in get(f"{url}/metrics")[1]
        assert get(f"{url}/readyz")[0] == 200
        exporter.signal(signal.SIGTERM)
        assert exporter.ends() == 0
    wrong = shop.run("metrics", "shop:app", "--port", "http")
    assert (wrong.returncode, "write a port" in wrong.stderr) == (2, True)
