"""The suite itself: a short plan as part of every run, the whole one once, and what its command line does."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scripts.chaos_suite import history
from scripts.chaos_suite.bank.run import run_bank
from scripts.chaos_suite.faults import Fault, all_faults
from scripts.chaos_suite.faults.client_kill import ClientKill
from scripts.chaos_suite.faults.crash_commands import CrashCommands
from scripts.chaos_suite.faults.hostile_keys import HostileKeys, offered
from scripts.chaos_suite.faults.kill_publisher import KillPublisher
from scripts.chaos_suite.faults.kill_server import KillServerAlways
from scripts.chaos_suite.faults.kill_worker import KillWorker
from scripts.chaos_suite.faults.memory_killed import MemoryKilled
from scripts.chaos_suite.faults.saving import Saving
from scripts.chaos_suite.faults.stop_worker import StopWorker
from scripts.chaos_suite.plan import SETTINGS, ActPlan, Step
from scripts.chaos_suite.progress import Lines
from scripts.chaos_suite.runner import run_act
from scripts.chaos_suite.setting import Setting
from tests.helpers.eventually import eventually
from tests.helpers.processes import ROOT, Process, has_ended, python
from tests.helpers.servers import Kind, kinds

SHORT = (
    Step((KillWorker(times=1),)),
    Step((StopWorker(leases=1.5), KillPublisher(times=1))),
    Step((KillServerAlways(), ClientKill(times=1))),
)


@pytest.mark.parametrize(
    "kind", [kinds()[0], *(pytest.param(kind, marks=pytest.mark.full) for kind in kinds()[1:])]
)
async def test_the_promise_holds_under_a_short_fixed_plan(tmp_path: Path, kind: Kind) -> None:
    plan = ActPlan("short", Setting(workers=2, proxied=True), SHORT, "7 short")
    result = await run_act(plan, tmp_path, Lines(), kind)
    assert list(result.violations) == []
    assert result.committed > 0
    assert result.acknowledged <= result.committed
    events = history.read(tmp_path / "short-7" / "history.jsonl")
    assert {event.op for event in events} == {"publish", "commit"}
    assert events == sorted(events, key=lambda event: event.time)
    assert sum(event.op == "commit" and event.type == "ok" for event in events) == result.committed


@pytest.mark.slow
@pytest.mark.parametrize("fault", [HostileKeys(), MemoryKilled(), Saving()], ids=lambda fault: fault.name)
async def test_what_stands_on_the_bus(tmp_path: Path, fault: Fault) -> None:
    plan = ActPlan("above", SETTINGS["above"], (Step((fault,)),), "7 above")
    result = await run_act(plan, tmp_path, Lines())
    assert list(result.violations) == []


async def test_what_commands_say_after_a_crash(tmp_path: Path) -> None:
    plan = ActPlan("server", Setting(workers=1, publishers=1), (Step((CrashCommands(),)),), "7 server")
    result = await run_act(plan, tmp_path, Lines())
    assert list(result.violations) == []
    assert result.committed > 0


@pytest.mark.parametrize(
    ("printed", "pasted"),
    [
        ("do:  callboard resume --namespace desk 'a; b'", ["callboard resume --namespace desk 'a; b'"]),
        ("see `callboard dead list`, then go on", ["callboard dead list"]),
        (
            "`callboard resume '`x`'` lets",
            ["callboard resume '", "callboard resume '`x", "callboard resume '`x`'"],
        ),
        ("callboard: clerk was killed, /usr/bin/callboard up is gone", []),
    ],
)
def test_what_a_person_would_copy(printed: str, pasted: list[str]) -> None:
    assert list(offered(printed)) == pasted


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(("--only", "kill-worker"), id="one"),
        pytest.param((), id="all", marks=pytest.mark.full),
    ],
)
def test_the_suite_from_the_command_line(tmp_path: Path, faults: tuple[str, ...]) -> None:
    """All faults, alone and mixed. How long things took is printed and not judged: this machine may be slow."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.chaos_suite", "--seed", "1", "--keep", str(tmp_path), *faults],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "redelivery after kill -9 of a worker" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("forgets", [False, True], ids=["durable", "tails lost"])
async def test_the_books_of_the_bank_are_right(tmp_path: Path, forgets: bool) -> None:
    result, told = await run_bank(tmp_path, 7, 8.0, forgets=forgets)
    assert list(result.violations) == [], told
    assert result.acknowledged > 0
    assert result.committed > result.acknowledged, "coins were passed on"


# The command line


def _chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = python("-m", "scripts.chaos_suite", *arguments)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_list_shows_every_fault() -> None:
    done = _chaos("--list")
    assert done.returncode == 0
    for name, cls in all_faults().items():
        assert f"| {name} " in done.stdout
        assert cls.summary in done.stdout


def test_help_teaches() -> None:
    done = _chaos("--help")
    assert done.returncode == 0
    for option in (
        "--soak",
        "--bank",
        "--seed",
        "--only",
        "--list",
        "--keep",
        "--strict",
        "--server",
        "Exit codes",
    ):
        assert option in done.stdout


def test_a_fault_that_does_not_exist_is_named_together_with_those_that_do() -> None:
    done = _chaos("--only", "meteor")
    assert done.returncode == 2
    assert "meteor" in done.stderr
    assert "kill-worker" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    command = python("-m", "scripts.chaos_suite", "--only", "pause-8s", "--seed", "1")
    process = Process(command, {"TMPDIR": str(tmp_path)})
    try:
        await process.says("network: pause-8s", within=60)
        descendants = psutil.Process(process.pid).children(recursive=True)
        assert len(descendants) >= 6, "a server, three workers, two publishers"
        process.signal(number)
        assert await process.ended(within=20) == 130
        await eventually(lambda: all(has_ended(one) for one in descendants))
        assert list(tmp_path.iterdir()) == []
        assert "Traceback" not in process.output()
    finally:
        process.close()
