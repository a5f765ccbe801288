"""Workers that `callboard up` makes by forks: what they share, what is each one's own, and what holds when one is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from callboard.process.starting import can_fork
from tests.helpers.processes import has_ended

from .commands import Running, ShopFolder, processes_in, wait_for, workers_in

pytestmark = pytest.mark.skipif(not can_fork(), reason="forks need Linux and descriptors of processes")

OWN = """
import random, sys, uuid
print("draws", uuid.uuid4(), flush=True)
print("jsonschema was there" if "jsonschema" in sys.modules else "jsonschema is new", flush=True)
print("random", random.random(), flush=True)
import jsonschema
"""
THREE = ("up", "shop:app", "--processes", "clerk=2")
NAMES = ("clerk.1", "clerk.2", "guard")
ALONE = "each process loads everything for itself"


def works(running: Running, times: int = 1) -> None:
    for name in NAMES:
        running.shows(f"{name} | works as", times)


def server_in(folder: Path) -> int:
    [pid] = processes_in(folder, "callboard fork-server")
    return pid


def begin_with(shop: ShopFolder, code: str) -> None:
    """Let the app's module begin with something."""
    file = shop.folder / "shop.py"
    file.write_text(code + file.read_text("utf-8"), encoding="utf-8")


def drains(running: Running, shop: ShopFolder) -> None:
    running.signal(signal.SIGINT)
    assert running.ends() == 0
    assert processes_in(shop.folder) == []


def test_packages_are_shared_and_modules_of_the_app_are_each_workers_own(shop: ShopFolder) -> None:
    begin_with(shop, OWN)
    with shop.started(*THREE) as running:
        works(running)
        server = server_in(shop.folder)
        assert {psutil.Process(pid).ppid() for pid in workers_in(shop.folder)} == {server}
        lines = running.text.splitlines()
        for word in ("draws", "random"):
            assert len({line.partition(word)[2] for line in lines if f"| {word} " in line}) == 3
        assert running.text.count("| jsonschema was there") == 3
        drains(running, shop)


def test_without_forks_each_is_a_program(shop: ShopFolder) -> None:
    with shop.started(*THREE, "--no-fork") as running:
        works(running)
        parents = {psutil.Process(pid).ppid() for pid in workers_in(shop.folder)}
        assert parents == {running.process.pid}
        drains(running, shop)


def test_how_a_worker_ended_is_known(shop: ShopFolder) -> None:
    with shop.started(*THREE) as running:
        works(running)
        [first, *_] = [
            pid for pid in workers_in(shop.folder) if "guard" in " ".join(psutil.Process(pid).cmdline())
        ]
        os.kill(first, signal.SIGKILL)
        running.shows("guard was killed by SIGKILL, starts again")
        running.shows("guard | works as", 2)
        shop.out("publish", "shop:app", "jobs", "Job", "name=exit", "--id", "one")
        running.shows("ended with exit code 7, starts again")
        drains(running, shop)


def test_workers_outlive_the_server_and_their_end_is_seen(shop: ShopFolder) -> None:
    with shop.started(*THREE) as running:
        works(running)
        workers = workers_in(shop.folder)
        os.kill(server_in(shop.folder), signal.SIGKILL)
        shop.out("publish", "shop:app", "jobs", "Job", "name=one")
        running.shows("| ends one")
        assert sorted(workers_in(shop.folder)) == sorted(workers)
        os.kill(workers[0], signal.SIGKILL)
        running.shows(ALONE)
        wait_for(lambda: sum(running.text.count(f"{name} | works as") for name in NAMES) == 4)
        drains(running, shop)


def test_the_end_of_a_worker_is_seen_although_the_server_is_stopped(shop: ShopFolder) -> None:
    with shop.started(*THREE) as running:
        works(running)
        os.kill(server_in(shop.folder), signal.SIGSTOP)
        os.kill(workers_in(shop.folder)[0], signal.SIGKILL)
        running.shows("ended with exit code 255, starts again")
        drains(running, shop)


def test_nothing_is_left_when_the_supervisor_is_killed(shop: ShopFolder) -> None:
    with shop.started(*THREE) as running:
        works(running)
        started = [psutil.Process(pid) for pid in (*workers_in(shop.folder), server_in(shop.folder))]
        running.signal(signal.SIGKILL)
        wait_for(lambda: all(map(has_ended, started)))


@pytest.mark.parametrize(
    "code",
    [
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
        "import os\nos.environ['SOME_PACKAGE_HOME'] = f'/tmp/{os.getpid()}'\n",
        "import socket\nKEPT = socket.socket()\n",
    ],
    ids=["thread", "variable", "socket"],
)
def test_an_app_that_does_more_than_load_shares_no_package(shop: ShopFolder, code: str) -> None:
    begin_with(shop, OWN + code)
    with shop.started(*THREE) as running:
        works(running)
        assert running.text.count("| jsonschema is new") == 3
        assert server_in(shop.folder)
        drains(running, shop)


def test_ctrl_c_does_not_wait_for_an_app_that_takes_long_to_load(shop: ShopFolder) -> None:
    with shop.started(*THREE, "--grace", "1") as running:
        works(running)
        drains(running, shop)
    # The command itself imports the app, too: only what it starts finds the file.
    begin_with(shop, "import pathlib, sys, time\nif 'up' not in sys.argv:\n    time.sleep(600)\n")
    with shop.started(*THREE, "--grace", "1") as running:
        wait_for(lambda: processes_in(shop.folder, "callboard fork-server"))
        running.signal(signal.SIGINT)
        running.ends()
        assert processes_in(shop.folder) == []


def test_an_app_that_can_not_be_imported_any_more_says_so_itself(shop: ShopFolder) -> None:
    begin_with(shop, "import sys\nif 'up' not in sys.argv:\n    import nothing_of_the_kind\n")
    with shop.started(*THREE, "--restarts", "0") as running:
        assert running.ends() != 0
        assert "nothing_of_the_kind" in running.text
        assert ALONE not in running.text
