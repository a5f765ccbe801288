"""`callboard up`: supervised workers on a real server, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import psutil
import pytest

from tests.helpers.processes import has_ended
from tests.helpers.servers import ServerProcess

from .commands import Running, ShopFolder, wait_for, workers_in


def up(running: Running, *names: str) -> None:
    """Waits until these processes work."""
    for name in names:
        running.shows(f"{name} | works as")


def test_every_type_has_its_processes_and_work_is_shown(shop: ShopFolder) -> None:
    with shop.started("up", "shop:app", "--processes", "clerk=2") as running:
        up(running, "clerk.1", "clerk.2", "guard")
        assert len(workers_in(shop.folder)) == 3
        shop.out("publish", "shop:app", "jobs", "Job", "name=one")
        running.shows("| ends one")
        running.shows("clerk 2/2 up, 0 waiting, 0 running, 1 done, 0 dead now")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert workers_in(shop.folder) == []


def test_all_types_run_together_in_as_many_processes_as_wanted(shop: ShopFolder) -> None:
    with shop.started("up", "shop:app", "--together", "2") as running:
        up(running, "all.1", "all.2")
        assert len(workers_in(shop.folder)) == 2
        shop.out("publish", "shop:app", "jobs", "Job", "name=one")
        running.shows("| ends one")
        running.shows("clerk 2/2 up, 0 waiting, 0 running, 1 done, 0 dead now")
        running.shows("guard 2/2 up, 0 waiting")
        os.kill(pid_of(running, "all.1"), signal.SIGKILL)
        running.shows("all.1 was killed by SIGKILL, starts again")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert workers_in(shop.folder) == []


def test_processes_of_one_type_and_of_all_are_not_asked_for_at_once(shop: ShopFolder) -> None:
    done = shop.run("up", "shop:app", "--together", "2", "--processes", "clerk=3")
    assert done.returncode == 2
    assert (
        "--together 2 runs all agent types in the same processes: leave out clerk=3, or --together"
        in done.stderr
    )


def test_what_would_end_a_process_again_ends_all_at_once(shop: ShopFolder) -> None:
    done = shop.run("up", "shop:app", "--max-memory", "1MB")
    assert done.returncode == 78
    assert "before its first message and may take 1 MB: raise max_memory" in done.stderr
    assert "can't work here, its output says why; to start it again would not help" in done.stderr
    assert "starts again" not in done.stderr
    assert workers_in(shop.folder) == []


def test_ctrl_c_drains(shop: ShopFolder) -> None:
    with shop.started("up", "shop:app") as running:
        up(running, "clerk", "guard")
        shop.out("publish", "shop:app", "jobs", "Job", "name=long", "seconds=1.5")
        running.shows("begins long")
        running.signal(signal.SIGINT)
        assert running.ends() == 0
        assert "clerk | ends long" in running.text
        assert workers_in(shop.folder) == []


def test_the_second_ctrl_c_stops_at_once(shop: ShopFolder) -> None:
    with shop.started("up", "shop:app") as running:
        up(running, "clerk", "guard")
        shop.out("publish", "shop:app", "jobs", "Job", "name=endless", "seconds=60")
        running.shows("begins endless")
        running.signal(signal.SIGINT)
        running.shows("once more stops at once")
        running.signal(signal.SIGINT)
        assert running.ends(within=30) == 130
        assert workers_in(shop.folder) == []
    view = json.loads(shop.out("status", "shop:app", "--json"))
    assert view["workers"] == []
    assert view["totals"]["waiting"] == 1


def test_what_a_dead_process_held_is_taken_over_at_once(shop: ShopFolder) -> None:
    shop.environ["CALLBOARD_LEASE"] = "60"
    with shop.started("up", "shop:app") as running:
        up(running, "clerk")
        shop.out("publish", "shop:app", "jobs", "Job", "name=job", "seconds=5")
        running.shows("begins job")
        os.kill(pid_of(running, "clerk"), signal.SIGKILL)
        running.shows("clerk was killed by SIGKILL, starts again")
        running.shows("begins job", times=2, within=10)
        running.shows("ends job", within=10)
        running.signal(signal.SIGTERM)
        assert running.ends() == 0


def test_a_killed_supervisor_takes_its_workers_along(shop: ShopFolder) -> None:
    with shop.started("up", "shop:app") as running:
        up(running, "clerk", "guard")
        shop.out("publish", "shop:app", "jobs", "Job", "name=long", "seconds=1")
        running.shows("begins long")
        running.signal(signal.SIGKILL)
        wait_for(lambda: workers_in(shop.folder) == [])
    types = json.loads(shop.out("status", "shop:app", "--json"))["types"]
    assert {one["type"]: one["done"] for one in types} == {"clerk": 1, "guard": 0}


def test_a_process_that_always_dies_ends_everything(shop: ShopFolder) -> None:
    app = (shop.folder / "shop.py").read_text(encoding="utf-8")
    dies = "import os, sys\nif 'worker' in sys.argv and 'guard' in sys.argv:\n    os._exit(9)\n"
    (shop.folder / "shop.py").write_text(dies + app, encoding="utf-8")
    with shop.started("up", "shop:app", "--restarts", "1") as running:
        assert running.ends() == 1
        assert "guard ended with exit code 9 after it was restarted once: giving up" in running.text
        assert "Traceback" not in running.text
        assert workers_in(shop.folder) == []


def test_a_frozen_process_is_replaced_and_later_work_is_handled(shop: ShopFolder) -> None:
    shop.environ |= {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.2"}
    with shop.started("up", "shop:app") as running:
        up(running, "clerk", "guard")
        running.shows("clerk 1/1 up")
        frozen = psutil.Process(pid_of(running, "clerk"))
        family = [frozen, *frozen.children()]
        assert len(family) == 2, "with its keeper"
        frozen.suspend()
        running.shows(f"clerk: process {frozen.pid} lives, but its worker has lost its lease")
        running.shows(f"clerk: process {frozen.pid} did not come back, killing it")
        running.shows("clerk | works as", times=2)
        shop.out("publish", "shop:app", "jobs", "Job", "name=later")
        running.shows("ends later")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert "guard: process" not in running.text
    wait_for(lambda: all(has_ended(one) for one in family))


def pid_of(running: Running, name: str) -> int:
    found = re.findall(rf"{re.escape(name)} \| works as [^:]+:(\d+):\w+:", running.text)
    return int(found[-1])


@pytest.mark.slow
def test_after_the_server_stood_still_nobody_is_taken_for_frozen(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.environ |= {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.4"}
    with shop.started("up", "shop:app") as running:
        up(running, "clerk", "guard")
        running.shows("clerk 1/1 up")
        for _ in range(3):
            os.kill(server.pid, signal.SIGSTOP)
            try:
                time.sleep(
                    2
                )  # the fault itself: longer than a lease, shorter than the patience for an answer
            finally:
                os.kill(server.pid, signal.SIGCONT)
            shop.out("status", "shop:app")
        shop.out("publish", "shop:app", "jobs", "Job", "name=later")
        running.shows("ends later")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert "has lost its lease" not in running.text


def test_a_changed_file_starts_the_processes_anew_and_a_broken_one_does_not(shop: ShopFolder) -> None:
    app = shop.folder / "shop.py"
    text = app.read_text(encoding="utf-8")
    with shop.started("up", "shop:app", "--reload") as running:
        up(running, "clerk", "guard")
        shop.out("publish", "shop:app", "jobs", "Job", "name=long", "seconds=2")
        running.shows("begins long")
        app.write_text(text + "\nthis is no Python\n", encoding="utf-8")
        running.shows(
            "shop.py changed, and what ran goes on: the module 'shop' can't be imported: SyntaxError"
        )
        # Of another length: Python takes its bytecode for that of a file which has the same length and the same second.
        app.write_text(text.replace("begins", "sets about"), encoding="utf-8")
        running.shows("shop.py changed: starting the processes anew")
        running.shows("clerk | works as", times=2)
        assert "clerk | ends long" in running.text, "it could finish"
        shop.out("publish", "shop:app", "jobs", "Job", "name=other")
        running.shows("sets about other")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert "clerk ended" not in running.text, "nothing died"
        assert workers_in(shop.folder) == []
