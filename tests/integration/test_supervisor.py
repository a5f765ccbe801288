"""The supervisor with real processes that are not workers: what it starts, restarts, drains and kills."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import psutil
import pytest

from callboard.broker.errors import ServerUnavailableError
from callboard.process.starting import WATCHED_PIPE
from callboard.process.supervisor import Child, Ending, ProcessPlan, RestartPolicy, Supervisor
from callboard.process.worker import RECYCLED, UNFIT, WorkerProcessError
from tests.helpers.eventually import eventually
from tests.helpers.processes import has_ended

IDLE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("up", flush=True)
signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
ORPHAN = "import os, sys; print('up', flush=True); os.read(int(sys.argv[1]), 1); print('orphan', flush=True)"
QUICK = RestartPolicy(limit=2, base=0.01, cap=0.02, healthy_after=30)


class Recorder:
    """Listens to a supervisor and releases for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.notices: list[str] = []
        self.released: list[tuple[str, bool]] = []
        self.failure: Exception | None = None

    def output(self, child: Child, line: str) -> None:
        self.lines.append(f"{child.plan.name} {line}")

    def notice(self, text: str) -> None:
        self.notices.append(text)

    async def release(self, workers: str, crashed: bool) -> None:
        self.released.append((workers, crashed))
        if self.failure is not None:
            raise self.failure


def plan(code: str, name: str = "one") -> ProcessPlan:
    return ProcessPlan(name=name, types=("type",), command=(sys.executable, "-c", code, WATCHED_PIPE))


def supervisor(
    recorder: Recorder, plans: Sequence[ProcessPlan], grace: float = 10, patience: float = 60
) -> Supervisor:
    return Supervisor(
        plans, listener=recorder, release=recorder.release, grace=grace, policy=QUICK, patience=patience
    )


@asynccontextmanager
async def running(one: Supervisor, ready: Callable[[], object]) -> AsyncIterator[asyncio.Task[Ending]]:
    """Runs it beside the test, from the moment at which `ready()` is true."""
    task = asyncio.create_task(one.run())
    try:
        await eventually(ready)
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert all(not child.pid for child in one.children)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_processes_run_until_stop_and_drain() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE, "a"), plan(IDLE, "b")])
    async with running(one, lambda: len(recorder.lines) == 2) as task:
        assert one.running == 2
        pids = [child.pid for child in one.children]
        one.stop()
        assert await task is Ending.DRAINED
    assert sorted(recorder.lines) == ["a up", "b up"]
    assert recorder.released == []
    assert not any(is_alive(pid) for pid in pids)


async def test_a_killed_process_is_released_and_started_again() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE)])
    async with running(one, lambda: recorder.lines) as task:
        first, workers = one.children[0].pid, one.children[0].workers
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: len(recorder.lines) == 2)
        assert recorder.released == [(workers, True)]
        assert recorder.notices == ["one was killed by SIGKILL, starts again in 0.01 s"]
        assert one.children[0].pid not in (0, first)
        one.stop()
        assert await task is Ending.DRAINED


async def test_a_process_that_recycles_itself_is_started_at_once_and_has_not_died() -> None:
    recorder = Recorder()
    code = f"print('up', flush=True); raise SystemExit({RECYCLED})"
    one = supervisor(recorder, [plan(code)])
    async with running(one, lambda: len(recorder.lines) >= 5) as task:
        assert (one.children[0].deaths, one.children[0].restarts) == (0, 0)
        assert recorder.released == []
        assert set(recorder.notices) == {"one has recycled itself, starts again"}
        one.stop()
        assert await task is Ending.DRAINED


async def test_a_process_that_dies_too_often_ends_all() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE, "good"), plan("raise SystemExit(3)", "bad")])
    with pytest.raises(WorkerProcessError) as caught:
        await asyncio.wait_for(one.run(), 20)
    assert (
        str(caught.value)
        == "bad ended with exit code 3 after it was restarted 2 times: giving up, its output says why"
    )
    assert one.running == 0


async def test_a_process_that_would_end_so_again_is_not_started_again() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE, "good"), plan(f"raise SystemExit({UNFIT})", "bad")])
    with pytest.raises(WorkerProcessError, match="bad can't work here, its output says why"):
        await asyncio.wait_for(one.run(), 20)
    assert one.running == 0
    assert not [notice for notice in recorder.notices if "starts again" in notice]


async def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.process.supervisor.KILL_MARGIN", 0.1)
    recorder = Recorder()
    one = supervisor(recorder, [plan(STUBBORN)], grace=0.1)
    async with running(one, lambda: recorder.lines) as task:
        workers = one.children[0].workers
        one.stop()
        assert await asyncio.wait_for(task, 10) is Ending.DRAINED
    assert recorder.released == [(workers, True)]
    assert recorder.notices == ["the grace period is over: killing what still runs"]


async def test_the_second_stop_kills_at_once_and_counts_no_attempt() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(STUBBORN)], grace=60)
    async with running(one, lambda: recorder.lines) as task:
        workers = one.children[0].workers
        one.stop()
        one.stop()
        assert await asyncio.wait_for(task, 10) is Ending.KILLED
    assert recorder.released == [(workers, False)]


async def test_cancelling_leaves_no_process() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(STUBBORN)])
    async with running(one, lambda: recorder.lines) as task:
        pid = one.children[0].pid
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not is_alive(pid)


async def test_a_release_that_fails_does_not_stop_the_restart() -> None:
    recorder = Recorder()
    recorder.failure = ServerUnavailableError("redis://nowhere")
    one = supervisor(recorder, [plan(IDLE)])
    async with running(one, lambda: recorder.lines) as task:
        os.kill(one.children[0].pid, signal.SIGKILL)
        await eventually(lambda: len(recorder.lines) == 2)
        assert "is free when its lease ends" in recorder.notices[0]
        one.stop()
        await task


async def test_processes_read_end_of_file_when_the_supervisor_is_gone() -> None:
    code = f"""
import asyncio
from callboard.process.supervisor import WATCHED_PIPE
from callboard.process.supervisor import ProcessPlan, Supervisor
import sys
class Silent:
    def output(self, child, line): print(child.pid, line, flush=True)
    def notice(self, text): pass
async def release(workers, crashed): pass
command = (sys.executable, "-c", {ORPHAN!r}, WATCHED_PIPE)
plan = ProcessPlan(name="one", types=("type",), command=command)
asyncio.run(Supervisor([plan], listener=Silent(), release=release, grace=1).run())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    orphan = psutil.Process(int((await asyncio.wait_for(process.stdout.readline(), 20)).split()[0]))
    process.kill()
    await process.wait()
    await eventually(lambda: has_ended(orphan))


async def test_the_terminal_does_not_reach_the_processes() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(f"import os; print(os.getsid(0) == os.getpid(), flush=True)\n{IDLE}")])
    async with running(one, lambda: len(recorder.lines) == 2) as task:
        assert recorder.lines[0] == "one True"
        one.stop()
        await task


async def test_long_and_unfinished_output_arrives() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(f"import sys; sys.stdout.write('x' * 100_000 + '\\nrest')\n{IDLE}")])
    async with running(one, lambda: any(line.endswith("up") for line in recorder.lines)) as task:
        one.stop()
        await task
    assert "".join(line.removeprefix("one ") for line in recorder.lines) == "x" * 100_000 + "restup"


def observed(one: Supervisor, left: float) -> None:
    """What the server says: the leases of all processes go on for so many seconds."""
    leases = {f"{child.workers}1": 100_000 + int(left * 1000) for child in one.children}
    one.observe(leases, 100_000)


async def test_a_process_that_is_frozen_is_killed_and_replaced() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE)], patience=0.05)
    async with running(one, lambda: recorder.lines) as task:
        first, workers = one.children[0].pid, one.children[0].workers
        observed(one, left=-1)
        assert recorder.notices == [], "it has not joined: it may be slow to start"
        observed(one, left=5)
        os.kill(first, signal.SIGSTOP)

        def is_replaced() -> bool:
            if one.children[0].pid == first:
                observed(one, left=-1)
            return len(recorder.lines) == 2

        await eventually(is_replaced)
        assert recorder.released == [(workers, True)]
        assert recorder.notices == [
            (
                f"one: process {first} lives, but its worker has lost its lease: it is stopped, or hangs in a call; "
                "it is killed and replaced unless it comes back within 0.05 s"
            ),
            f"one: process {first} did not come back, killing it",
            "one was killed by SIGKILL, starts again in 0.01 s",
        ]
        observed(one, left=-1)
        assert len(recorder.notices) == 3, "the next one has not joined yet"
        one.stop()
        await task
    assert not is_alive(first)


async def test_after_the_server_was_away_nobody_is_killed_at_once() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(IDLE)], patience=0.0)
    async with running(one, lambda: recorder.lines) as task:
        observed(one, left=5)
        one.server_is_away()
        for _ in range(3):
            observed(one, left=-1)
        assert recorder.notices == []
        one.stop()
        await task
    assert recorder.released == []


async def test_a_process_that_drains_is_not_taken_for_frozen() -> None:
    recorder = Recorder()
    one = supervisor(recorder, [plan(STUBBORN)], patience=0.0)
    async with running(one, lambda: recorder.lines) as task:
        observed(one, left=5)
        one.stop()
        await eventually(lambda: one.children[0].state == "draining")
        for _ in range(3):
            observed(one, left=-1)
        assert recorder.notices == []
        one.stop()
        await task


async def test_a_process_gets_a_token_of_its_own_in_every_life() -> None:
    code = f"import os; print(os.getpid(), os.environ['CALLBOARD_PROCESS_TOKEN'], flush=True)\n{IDLE}"
    recorder = Recorder()
    one = supervisor(recorder, [plan(code)])
    async with running(one, lambda: len(recorder.lines) == 2) as task:
        os.kill(one.children[0].pid, signal.SIGKILL)
        await eventually(lambda: len(recorder.lines) == 4)
        names = [":".join(line.split()[1:]) for line in recorder.lines if not line.endswith("up")]
        assert one.children[0].workers.endswith(f":{names[1]}:")
        assert len({name.rpartition(":")[2] for name in names}) == 2
        one.stop()
        await task
