"""What is said where a kernel lacks what confining code needs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.code.launcher import REFUSED, LaunchPlan, kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these calls are Linux's")

HEADERS = [
    ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0),
    ("/usr/include/asm-generic/unistd.h", 1),
]

OTHER_KERNEL = """
import ctypes, errno, sys
from callboard.code.launcher import kernel, main

class OtherKernel:
    def prctl(self, *arguments):
        ctypes.set_errno(errno.EINVAL)
        return -1

kernel._libc = OtherKernel()
main.main()
"""


def _plan(folder: Path) -> LaunchPlan:
    return LaunchPlan(
        command=[sys.executable, "-c", "print('ran')"],
        folder=str(folder),
        timeout=30,
        measures=[],
        network=True,
        readable=[],
        memory=1 << 30,
        cpu_seconds=10,
        processes=10,
        open_files=64,
        file_size=1 << 20,
        disk=1 << 20,
        files=10,
    )


def test_a_kernel_that_lets_processes_get_away_runs_no_code_and_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER_KERNEL, _plan(tmp_path).to_json()],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == REFUSED
    assert (
        "The code could not be confined: this kernel lacks PR_SET_CHILD_SUBREAPER, as that of gVisor"
        in done.stdout
    )
    assert "run on Linux itself (in Docker: --runtime=runc)" in done.stdout
    assert "ran" not in done.stdout.split()


def test_what_the_kernel_refuses_is_named() -> None:
    with pytest.raises(OSError, match="Invalid argument: 'prctl 9999'"):
        kernel.prctl(9999)


@pytest.mark.parametrize(("header", "column"), HEADERS)
def test_numbers_of_calls_are_the_systems(header: str, column: int) -> None:
    try:
        text = Path(header).read_text()
    except OSError:
        pytest.skip(f"{header} is not installed")
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}
    ours = {name: numbers[column] for name, numbers in kernel.REFUSED_CALLS.items()}
    ours["socket"] = kernel.SOCKET[column]
    assert {name: known.get(name, number) for name, number in ours.items()} == ours
    assert len(known.keys() & ours.keys()) > len(ours) - 3  # headers of an older kernel lack some
