"""`callboard server`, and commands that use the embedded server."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .commands import ShopFolder, processes_in, wait_for, workers_in


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ShopFolder]:
    """A folder without a server; what is started in it is stopped."""
    shop = ShopFolder(tmp_path, None)
    yield shop
    shop.run("server", "stop")


def without_redis_cli(shop: ShopFolder) -> None:
    """Leaves a PATH on which servers are found, and redis-cli is not."""
    programs = shop.folder / "programs"
    programs.mkdir()
    found = shutil.which("redis-server")
    if found is not None:
        (programs / "redis-server").symlink_to(found)
    shop.environ["PATH"] = str(programs)


def test_start_status_stop(own: ShopFolder) -> None:
    assert own.run("server", "status").returncode == 3
    assert "it stays until" in own.out("server", "start")
    status = json.loads(own.out("server", "status", "--json"))
    assert status["url"].startswith("unix://")
    assert Path(f"/proc/{status['pid']}").exists() or sys.platform != "linux"
    assert own.out("server", "cli", "SET", "a", "1") == "OK\n"
    assert "stopped" in own.out("server", "stop")
    assert own.out("server", "stop").startswith("no server runs")
    assert own.out("server", "cli", "GET", "a") == "1\n"
    assert own.run("server", "status", "--json").stdout == "null\n"


def test_what_the_doctor_advises_reaches_the_embedded_server(own: ShopFolder) -> None:
    own.out("server", "start")
    report = json.loads(own.run("doctor", "--namespace", "shop", "--json").stdout)
    (do,) = (one["do"] for one in report["findings"] if "no limit" in one["what"])
    line = do.partition(";")[0]
    assert line == "callboard server cli CONFIG SET maxmemory BYTES"
    assert own.out(*shlex.split(line.replace("BYTES", "50mb"))[1:]) == "OK\n"
    assert own.out("server", "cli", "CONFIG", "GET", "maxmemory").split()[-1] == "52428800"


def test_the_small_client_prints_as_redis_cli_does(own: ShopFolder) -> None:
    without_redis_cli(own)
    own.out("server", "cli", "XADD", "s", "1-1", "a", 'x"y')
    expected = '1) 1) "1-1"\n   2) 1) "a"\n      2) "x\\"y"\n'
    assert own.out("server", "cli", "--no-raw", "XRANGE", "s", "-", "+") == expected
    assert own.out("server", "cli", "XRANGE", "s", "-", "+") == '1-1\na\nx"y\n'
    assert own.out("server", "cli", "LRANGE", "none", "0", "-1") == "\n"
    typed = own.out("server", "cli", stdin='XLEN s\n\n"\nPING\nGET none\nquit\nPING\n')
    assert typed == "(integer) 1\nInvalid argument(s)\nPONG\n(nil)\n"


def test_an_error_of_the_server_has_an_exit_code(own: ShopFolder) -> None:
    without_redis_cli(own)
    done = own.run("server", "cli", "NOSUCH")
    assert done.returncode == 1
    assert done.stdout.startswith("(error) ERR unknown command")


def test_several_commands_share_the_server_and_the_last_one_ends_it(own: ShopFolder) -> None:
    with own.started("up", "shop:app") as running:
        running.shows("clerk | works as")
        own.out("publish", "shop:app", "jobs", "Job", "name=one")
        running.shows("| ends one")
        assert own.run("server", "status").returncode == 0
        running.signal(signal.SIGINT)
        assert running.ends() == 0
    assert own.run("server", "status").returncode == 3
    assert own.run("status", "shop:app").returncode == 3
    own.out("server", "start")
    types = json.loads(own.out("status", "shop:app", "--json"))["types"]
    assert {one["type"]: one["done"] for one in types} == {"clerk": 1, "guard": 0}


def test_workers_keep_the_server_until_they_have_drained(own: ShopFolder) -> None:
    with own.started("up", "shop:app") as running:
        running.shows("clerk | works as")
        own.out("publish", "shop:app", "jobs", "Job", "name=long", "seconds=1.5")
        running.shows("begins long")
        running.signal(signal.SIGKILL)
        wait_for(lambda: workers_in(own.folder) == [])
        wait_for(lambda: own.run("server", "status").returncode == 3)
    own.out("server", "start")
    types = json.loads(own.out("status", "shop:app", "--json"))["types"]
    assert {one["type"]: one["done"] for one in types} == {"clerk": 1, "guard": 0}


def test_a_server_that_was_killed_is_started_again(own: ShopFolder) -> None:
    with own.started("up", "shop:app") as running:
        running.shows("clerk | works as")
        own.out("publish", "shop:app", "jobs", "Job", "name=before")
        running.shows("| ends before")
        wait_for(lambda: "1 done" in own.out("status", "shop:app") or done_in(own) == 1)
        os.kill(json.loads(own.out("server", "status", "--json"))["pid"], signal.SIGKILL)
        wait_for(lambda: own.run("publish", "shop:app", "jobs", "Job", "name=after").returncode == 0)
        running.shows("| ends after")
        running.signal(signal.SIGTERM)
        assert running.ends() == 0


def done_in(shop: ShopFolder) -> int:
    types = json.loads(shop.out("status", "shop:app", "--json"))["types"]
    return sum(one["done"] for one in types)


def test_a_folder_that_cannot_be_written_is_one_sentence(own: ShopFolder) -> None:
    (own.folder / ".callboard").write_text("a file", encoding="utf-8")
    done = own.run("status", "shop:app")
    assert done.returncode in (1, 3)
    assert done.stderr.startswith("callboard: ")
    assert "Traceback" not in done.stderr
    (own.folder / ".callboard").unlink()
    assert processes_in(own.folder) == []
