"""One process for each folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.memory.chroma_collection import StoreLock
from callboard.memory.errors import MemoryFailedError

TAKE = """
import sys
from pathlib import Path
from callboard.memory.errors import MemoryFailedError
from callboard.memory.chroma_collection import StoreLock
try:
    lock = StoreLock(Path(sys.argv[1]), float(sys.argv[2]))
except MemoryFailedError as error:
    print(error)
else:
    print("taken", flush=True)
    sys.stdin.read()
"""


def other(folder: Path, patience: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TAKE, str(folder), str(patience)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_second_process_is_refused_with_a_sentence(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)

    said, _ = other(tmp_path).communicate()

    lock.release()
    assert said == (
        f"process {os.getpid()} has the memory in {tmp_path} open, and two processes on one path lose vectors: "
        "reach it through a memory service or a Chroma server, or stop that process\n"
    )


def test_one_process_may_open_it_several_times(tmp_path: Path) -> None:
    first, second = StoreLock(tmp_path / "a"), StoreLock(tmp_path / "x" / ".." / "a")
    first.release()
    first.release()
    said, _ = other(tmp_path / "a").communicate()
    second.release()

    assert "two processes" in said
    assert other(tmp_path / "a").communicate()[0] == "taken\n"


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    with other(tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        with pytest.raises(MemoryFailedError, match=f"process {process.pid} has the memory"):
            StoreLock(tmp_path)
        process.kill()
        process.wait()

    StoreLock(tmp_path).release()


async def test_it_waits_for_one_that_is_about_to_end(tmp_path: Path) -> None:
    with other(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        waiting = asyncio.create_task(asyncio.to_thread(StoreLock, tmp_path, 30.0))
        await asyncio.sleep(0)
        process.stdin.close()
        (await waiting).release()


def test_a_folder_that_was_deleted_is_locked_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a"
    first, second = StoreLock(folder), StoreLock(folder)
    assert first.is_there()
    shutil.rmtree(folder)
    assert not first.is_there()

    again, once_more = StoreLock(folder), StoreLock(folder)

    assert (first.number, again.number, once_more.number) == (0, 1, 1)
    assert again.is_there()
    assert [record.levelname for record in caplog.records] == ["ERROR"], "it is told once"
    assert f"the memory in {folder} was deleted or replaced while it was open" in caplog.text
    for lock in (first, second, again):
        lock.release()
    assert "two processes" in other(folder).communicate()[0]
    once_more.release()
    assert other(folder).communicate()[0] == "taken\n"
