"""The embedded server with real processes: shared, killed, raced for, restarted; and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import redis

from callboard.broker.redis import embedded as server_files, guard
from callboard.broker.redis.embedded import EmbeddedServer, ServerHandle, ServerStartError, answers
from tests.helpers.eventually import eventually
from tests.helpers.servers import Kind, binary, free_port, kinds

# A user of its own process: acquires, says what it got, and releases when its input ends.
USER = """
import asyncio, sys
from pathlib import Path
from callboard.broker.redis.embedded import EmbeddedServer

async def main():
    async with await EmbeddedServer.acquire(Path(sys.argv[1]), binary=sys.argv[2]) as server:
        print(server.pid, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    """A state directory with a short path; at the end no process may know it."""
    folder = Path(tempfile.mkdtemp(prefix="cbs")).resolve()
    yield folder / "state"
    with contextlib.suppress(AssertionError):
        await _nothing_runs(folder)
    left = _processes(folder)
    for process in left:
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)
    assert left == []


@pytest.fixture(params=kinds())
def program(request: pytest.FixtureRequest) -> str:
    """Each server binary."""
    kind: Kind = request.param
    return str(binary(kind))


@pytest.fixture
def any_program() -> str:
    """A binary where one is enough: the one that is always there."""
    return str(binary("embedded"))


def _processes(folder: Path) -> list[psutil.Process]:
    """Servers and guards of a folder that still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # a folder may be too deep to be named
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(folder) in " ".join(process.cmdline()) or process.cwd().startswith(str(folder)):
                found.append(process)
    return found


async def _nothing_runs(directory: Path) -> None:
    await eventually(lambda: not _processes(directory), what=lambda: _processes(directory))


async def _kill_guard(directory: Path) -> int:
    process = _guard_of(directory)
    process.kill()
    await eventually(lambda: not _lock_is_taken(directory, guard.GUARD_LOCK))
    return process.pid


def _guard_of(directory: Path) -> psutil.Process:
    [process] = [found for found in _processes(directory) if guard.__file__ in found.cmdline()]
    return process


def _say(handle: ServerHandle, *words: str) -> bytes:
    """Send one command the way redis-cli would; the whole answer must fit one packet."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(handle.socket_path))
        client.sendall(" ".join(words).encode() + b"\r\n")
        return client.recv(65536)


def _user(directory: Path, program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(directory), program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _pid_from(user: subprocess.Popen[bytes]) -> int:
    assert user.stdout is not None
    return int(user.stdout.readline())


def _finish(*users: subprocess.Popen[bytes]) -> None:
    for user in users:
        user.communicate()


def _ports_of(pid: int) -> list[int]:
    return [place.laddr[1] for place in psutil.Process(pid).net_connections("inet")]


async def test_it_answers_on_its_socket_and_nowhere_else(directory: Path, program: str) -> None:
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        assert server.url == f"unix://{server.socket_path}"
        assert server.directory == directory
        assert answers(str(server.socket_path))
        assert _ports_of(server.pid) == []
    assert answers(str(server.socket_path)) is False
    await _nothing_runs(directory)


def _note_port(directory: Path, port: int) -> None:
    """In one step: the guard may be reading the record, to see whether the server is to stay."""
    folder = os.open(directory, os.O_RDONLY)
    try:
        guard.write_record(folder, {**(guard.read_record(folder) or {}), "port": str(port)})
    finally:
        os.close(folder)


async def test_a_server_that_an_earlier_version_left_running_loses_its_port(
    directory: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, now = free_port(), server_files.write_config

    def earlier(folder: Path, socket_file: Path) -> Path:
        path = now(folder, socket_file)
        path.write_text(path.read_text().replace("port 0", f"port {port}\nbind 127.0.0.1"))
        return path

    monkeypatch.setattr(server_files, "write_config", earlier)
    left = await EmbeddedServer.start_persistent(directory, binary=program)
    _note_port(directory, port)
    monkeypatch.undo()
    assert _ports_of(left.pid) == [port]
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        assert server.pid == left.pid
        await eventually(lambda: _ports_of(server.pid) == [])
        assert _say(server, "PING") == b"+PONG\r\n"
    found = await EmbeddedServer.status(directory)
    assert found is not None
    assert found.persistent
    assert await EmbeddedServer.stop(directory)
    await _nothing_runs(directory)


async def test_others_can_neither_read_nor_enter(directory: Path, any_program: str) -> None:
    async with await EmbeddedServer.acquire(directory, binary=any_program) as server:
        assert directory.stat().st_mode & 0o777 == 0o700
        assert server.socket_path.stat().st_mode & 0o777 == 0o700


async def test_handles_share_one_server(directory: Path, program: str) -> None:
    first = await EmbeddedServer.acquire(directory, binary=program)
    second = await EmbeddedServer.acquire(directory, binary=program)
    assert first.pid == second.pid
    await first.release()
    await first.release()
    assert answers(str(second.socket_path))
    await second.release()
    assert answers(str(second.socket_path)) is False
    await _nothing_runs(directory)


async def test_data_outlive_the_server(directory: Path, program: str) -> None:
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        _say(server, "SET", "a", "1")
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        assert _say(server, "GET", "a") == b"$1\r\n1\r\n"


async def test_processes_that_race_get_the_same_server(directory: Path, program: str) -> None:
    users = [_user(directory, program) for _ in range(4)]
    pids = {await asyncio.to_thread(_pid_from, user) for user in users}
    assert len(pids) == 1
    await asyncio.to_thread(_finish, *users)
    await _nothing_runs(directory)


async def test_it_ends_when_its_last_user_is_killed(directory: Path, program: str) -> None:
    first, second = _user(directory, program), _user(directory, program)
    pid = await asyncio.to_thread(_pid_from, first)
    assert await asyncio.to_thread(_pid_from, second) == pid
    first.kill()
    await asyncio.to_thread(_finish, first)
    assert psutil.pid_exists(pid)
    second.kill()
    await asyncio.to_thread(_finish, second)
    await _nothing_runs(directory)
    assert not (directory / guard.RECORD).exists()


async def test_a_process_group_that_is_interrupted_does_not_take_it_along(
    directory: Path, any_program: str
) -> None:
    async with await EmbeddedServer.acquire(directory, binary=any_program) as server:
        assert os.getsid(server.pid) != os.getsid(0)
        assert os.getpgid(server.pid) != os.getpgid(0)
        assert os.getsid(_guard_of(directory).pid) != os.getsid(0)


async def test_a_guard_that_was_killed_is_replaced_by_the_next_user(
    directory: Path, any_program: str
) -> None:
    user = _user(directory, any_program)
    pid = await asyncio.to_thread(_pid_from, user)
    old = await _kill_guard(directory)
    async with await EmbeddedServer.acquire(directory, binary=any_program) as server:
        assert server.pid == pid
        assert _guard_of(directory).pid != old
    user.kill()
    await asyncio.to_thread(_finish, user)
    await _nothing_runs(directory)


async def test_a_guard_that_was_killed_is_replaced_by_a_user_who_leaves(
    directory: Path, any_program: str
) -> None:
    user = _user(directory, any_program)
    await asyncio.to_thread(_pid_from, user)
    server = await EmbeddedServer.acquire(directory, binary=any_program)
    await _kill_guard(directory)
    await server.release()
    user.kill()
    await asyncio.to_thread(_finish, user)
    await _nothing_runs(directory)


async def test_the_last_user_needs_no_guard(directory: Path, any_program: str) -> None:
    server = await EmbeddedServer.acquire(directory, binary=any_program)
    await _kill_guard(directory)
    await server.release()
    await _nothing_runs(directory)


async def test_a_newcomer_waits_while_the_server_is_being_stopped(directory: Path, any_program: str) -> None:
    user = _user(directory, any_program)
    pid = await asyncio.to_thread(_pid_from, user)
    # A server that does not react keeps the guard busy.
    os.kill(pid, signal.SIGSTOP)
    user.kill()
    await asyncio.to_thread(_finish, user)
    await eventually(lambda: _lock_is_taken(directory, guard.USERS_LOCK))
    newcomer = asyncio.create_task(EmbeddedServer.acquire(directory, binary=any_program))
    os.kill(pid, signal.SIGCONT)
    async with await newcomer as server:
        assert server.pid != pid
        assert answers(str(server.socket_path))
    await _nothing_runs(directory)


def _lock_is_taken(directory: Path, name: str) -> bool:
    fd = os.open(directory, os.O_RDONLY)
    try:
        return guard.is_locked(name, fd)
    finally:
        os.close(fd)


async def test_a_record_left_behind_is_not_believed(directory: Path, any_program: str) -> None:
    """Its pid may be somebody else's by now."""
    with subprocess.Popen(["sleep", "60"]) as bystander:
        directory.mkdir()
        started = guard.started_at(bystander.pid)
        record = f"pid={bystander.pid}\nstarted={started}\nport=1\nsocket={directory}/redis.sock\nbinary=/x\n"
        (directory / guard.RECORD).write_text(record)
        (directory / "redis.sock").touch()
        assert await EmbeddedServer.status(directory) is None
        assert not await EmbeddedServer.stop(directory)
        (directory / guard.RECORD).write_text(record)
        async with await EmbeddedServer.acquire(directory, binary=any_program) as server:
            assert server.pid != bystander.pid
            assert answers(str(server.socket_path))
        assert bystander.poll() is None
        bystander.kill()


async def test_a_killed_server_is_started_again_for_the_same_users(directory: Path, program: str) -> None:
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        _say(server, "SET", "a", "1")
        old, url = server.pid, server.url
        # What every second does; a crash of the server alone loses nothing even without it.
        os.kill(old, signal.SIGKILL)
        await server.ensure_running()
        assert server.pid != old
        assert server.url == url
        assert _say(server, "GET", "a") == b"$1\r\n1\r\n"
        same = server.pid
        await server.ensure_running()
        assert server.pid == same
    await _nothing_runs(directory)


async def test_a_file_that_ends_in_the_middle_of_a_command_is_loaded(directory: Path, program: str) -> None:
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        _say(server, "SET", "a", "1")
        os.kill(server.pid, signal.SIGKILL)
    [incremental] = (directory / "appendonlydir").glob("*.incr.aof")
    with incremental.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$100\r\nhalf")
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        assert _say(server, "GET", "a") == b"$1\r\n1\r\n"
        assert _say(server, "GET", "b") == b"$-1\r\n" or _say(server, "GET", "b") == b"_\r\n"


async def test_a_path_too_long_for_a_socket(directory: Path, any_program: str) -> None:
    deep = directory / ("x" * 100) / ("ü and 'quotes' " * 4)
    async with await EmbeddedServer.acquire(deep, binary=any_program) as server:
        assert len(os.fsencode(server.socket_path)) <= 103
        assert answers(str(server.socket_path))
        assert (deep / "appendonlydir").is_dir()
    assert not server.socket_path.exists()


async def test_a_persistent_server_stays_until_it_is_stopped(directory: Path, program: str) -> None:
    status = await EmbeddedServer.start_persistent(directory, binary=program)
    assert status.persistent
    assert not status.in_use
    assert await EmbeddedServer.status(directory) == status
    await eventually(lambda: [found.pid for found in _processes(directory)] == [status.pid])
    async with await EmbeddedServer.acquire(directory, binary=program) as server:
        assert server.pid == status.pid
        running = await EmbeddedServer.status(directory)
        assert running is not None
        assert running.in_use
    assert answers(str(status.socket_path))
    assert await EmbeddedServer.stop(directory)
    assert not await EmbeddedServer.stop(directory)
    assert await EmbeddedServer.status(directory) is None
    await _nothing_runs(directory)


async def test_who_decides_whether_the_server_stays_is_no_user(directory: Path, any_program: str) -> None:
    status = await EmbeddedServer.start_persistent(directory, binary=any_program)
    with (directory / guard.USERS_LOCK).open("rb") as users:
        # As the guard does for a moment when the last user is gone.
        fcntl.flock(users, fcntl.LOCK_EX)
        assert await EmbeddedServer.status(directory) == status
    assert await EmbeddedServer.stop(directory)
    await _nothing_runs(directory)


async def test_a_server_in_use_can_be_made_to_stay(directory: Path, any_program: str) -> None:
    user = _user(directory, any_program)
    pid = await asyncio.to_thread(_pid_from, user)
    assert (await EmbeddedServer.start_persistent(directory, binary=any_program)).pid == pid
    user.kill()
    await asyncio.to_thread(_finish, user)
    await eventually(lambda: [found.pid for found in _processes(directory)] == [pid])
    assert await EmbeddedServer.stop(directory)


async def test_a_stopped_server_starts_anew_and_does_not_stay(directory: Path, any_program: str) -> None:
    await EmbeddedServer.start_persistent(directory, binary=any_program)
    await EmbeddedServer.stop(directory)
    async with await EmbeddedServer.acquire(directory, binary=any_program):
        status = await EmbeddedServer.status(directory)
        assert status is not None
        assert not status.persistent
    await _nothing_runs(directory)


async def test_looking_makes_no_directory(directory: Path) -> None:
    assert await EmbeddedServer.status(directory) is None
    assert not await EmbeddedServer.stop(directory)
    assert not directory.exists()


async def test_a_directory_deleted_under_the_server(directory: Path, any_program: str) -> None:
    user = _user(directory, any_program)
    await asyncio.to_thread(_pid_from, user)
    shutil.rmtree(directory)
    async with await EmbeddedServer.acquire(directory, binary=any_program) as server:
        await asyncio.to_thread(_finish, user)
        await eventually(lambda: len(_processes(directory)) == 2)
        assert answers(str(server.socket_path))
    await _nothing_runs(directory)


async def test_a_server_that_cannot_start_says_why(directory: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Redis server v=7.0.0" && exit\n'
        "echo 'Fatal error: no such thing' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    with pytest.raises(ServerStartError, match="could not be started") as caught:
        await EmbeddedServer.acquire(directory, binary=broken)
    assert caught.value.log == "Fatal error: no such thing"
    await _nothing_runs(directory)


async def test_a_server_that_stays_silent(directory: Path, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Redis server v=7.0.0" && exit\nexec sleep 60\n'
    )
    silent.chmod(0o755)
    with pytest.raises(ServerStartError, match=r"does not answer after 0\.3 s"):
        await EmbeddedServer.acquire(directory, binary=silent, timeout=0.3)
    assert not (directory / guard.RECORD).exists()
    assert not _lock_is_taken(directory, guard.SERVER_LOCK)


async def test_a_cancelled_caller_leaves_nothing(directory: Path, any_program: str) -> None:
    for pause in (0.0, 0.005, 0.02, 0.05):
        acquiring = asyncio.create_task(EmbeddedServer.acquire(directory, binary=any_program))
        await asyncio.wait([acquiring], timeout=pause)
        if not acquiring.cancel():
            await (await acquiring).release()
        else:
            with contextlib.suppress(asyncio.CancelledError):
                await (await acquiring).release()
        await _nothing_runs(directory)


async def test_a_handle_that_was_released_is_of_no_use(directory: Path, any_program: str) -> None:
    server = await EmbeddedServer.acquire(directory, binary=any_program)
    await server.release()
    with pytest.raises(RuntimeError, match="released"):
        await server.ensure_running()


async def test_it_starts_quickly(directory: Path, program: str) -> None:
    """The best of a few starts, so that a busy machine does not decide."""
    times = []
    for _ in range(5):
        begin = asyncio.get_running_loop().time()
        server = await EmbeddedServer.acquire(directory, binary=program)
        times.append(asyncio.get_running_loop().time() - begin)
        await server.release()
    assert min(times) < 2.0


async def test_a_server_that_starts_again_forgets_the_functions_of_other_versions(
    directory: Path, program: str
) -> None:
    """Its file has those of every version that ever used it; what is not Callboard's stays."""
    for expected in ([], ["mine"]):
        async with await EmbeddedServer.acquire(directory, binary=program) as server:
            client = redis.Redis(unix_socket_path=str(server.socket_path))
            found = [one[1] for one in client.function_list()]
            assert [name.decode() for name in found] == expected
            for name in {"callboard_0ld", "mine"} - set(expected):
                client.function_load(
                    f"#!lua name={name}\nredis.register_function('{name}_do', function() end)"
                )
            client.close()
