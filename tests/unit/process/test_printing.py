"""Printing that never holds up whoever prints."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from callboard.process.printer import MOST_WAITING, Outlet, unhindered
from tests.helpers.readers import Reader, closed_pipe, full_pipe, terminal

LONG = "x" * 1_000


@contextmanager
def printing_to(reader: Reader) -> Iterator[None]:
    """Lets stdout and stderr of this process lead there."""
    with os.fdopen(os.dup(reader.descriptor), "w", encoding="utf-8") as stream:
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = stream
        try:
            with unhindered():
                yield
        finally:
            sys.stdout, sys.stderr = before


def read_until_told(descriptor: int) -> None:
    """Reads until it says that something was left out."""
    read = b""
    while b"were left out" not in read:
        read += os.read(descriptor, 65_536)


@pytest.mark.parametrize("broken", [terminal, closed_pipe, full_pipe])
def test_printing_goes_on_without_a_reader(broken: type[AbstractContextManager[Reader]]) -> None:
    with broken() as reader, printing_to(reader):
        reader.fail()
        for _ in range(2 * MOST_WAITING // len(LONG)):
            print(LONG)
        print("last", file=sys.stderr, flush=True)


def test_what_is_read_comes_in_order_and_whole() -> None:
    code = (
        "import sys, logging\n"
        "from callboard.process.printer import unhindered\n"
        "logging.basicConfig(format='%(message)s')\n"
        "with unhindered():\n"
        "    for number in range(500):\n"
        "        print(f'out {number}')\n"
        "        print(f'err {number}', file=sys.stderr)\n"
        "        logging.warning(f'log {number}')\n"
        "    sys.stdout.buffer.write(b'bytes\\n')\n"
        "print('after')\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    expected = [f"{kind} {number}" for number in range(500) for kind in ("out", "err", "log")]
    assert done.stdout.splitlines() == [*expected, "bytes", "after"]


def test_what_was_left_out_is_told_when_somebody_reads_again() -> None:
    ours, theirs = os.pipe()
    outlet = Outlet(theirs)
    line = LONG.encode() + b"\n"
    for _ in range(2 * MOST_WAITING // len(line)):
        outlet.put(line)
    outlet.settle(0.01)
    assert outlet.is_busy
    read_until_told(ours)
    outlet.settle(30)
    assert not outlet.is_busy
    os.close(theirs)
    os.close(ours)


def test_one_text_of_any_length_is_written() -> None:
    ours, theirs = os.pipe()
    outlet = Outlet(theirs)
    outlet.put(b"x" * (2 * MOST_WAITING))
    outlet.put(b"left out")  # while the other is being written
    read = b""
    while b"1 pieces of output were left out" not in read:
        read += os.read(ours, 65_536)
    assert read.count(b"x") == 2 * MOST_WAITING
    os.close(theirs)
    os.close(ours)


def test_output_goes_on_after_a_disk_was_full(tmp_path: Path) -> None:
    """The finding: the first write that failed was the last, for as long as the process lived."""
    file = tmp_path / "log"
    descriptor, room = os.open("/dev/full", os.O_WRONLY), os.open(file, os.O_WRONLY | os.O_CREAT)
    outlet = Outlet(descriptor)
    for _ in range(3):
        outlet.put(b"lost\n")
        outlet.settle(30)
    os.dup2(room, descriptor)
    outlet.put(b"again\n")
    outlet.settle(30)
    first, told = file.read_bytes().splitlines()
    assert first == b"again"
    assert told.startswith(b"callboard: 3 pieces of output were left out")
    os.close(room)
    os.close(descriptor)


def test_what_was_left_out_is_told_though_nothing_more_is_printed() -> None:
    ours, theirs = os.pipe()
    outlet = Outlet(theirs)
    outlet.put(b"x" * MOST_WAITING)
    os.read(ours, 1)  # the thread writes, and has nothing more to write
    outlet.put(b"left out")
    read_until_told(ours)
    outlet.settle(30)
    assert not outlet.is_busy
    os.close(theirs)
    os.close(ours)


def test_the_last_lines_wait_for_a_reader_that_was_slow_before() -> None:
    code = (
        "import sys, time\n"
        "from callboard.process import printer\n"
        "printer.LAST_WORDS = 60\n"
        "with printer.unhindered():\n"
        f"    print('x' * {MOST_WAITING // 2}, flush=True)\n"
        "    print('stuck' if sys.stdout.buffer._outlet.is_stuck else 'written', file=sys.stderr)\n"
        "    print('last')\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "stuck\n"
        assert process.stdout.read().endswith("last\n")


def test_a_forked_process_prints_as_well() -> None:
    code = (
        "import os\n"
        "from callboard.process.printer import unhindered\n"
        "with unhindered():\n"
        "    print('parent', flush=True)\n"
        "    if os.fork() == 0:\n"
        "        print('child', flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["parent", "child"]


def test_the_log_goes_back_to_where_it_went(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger()
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    before = handler.stream
    try:
        with unhindered():
            assert handler.stream is sys.stderr is not before
        assert handler.stream is before
    finally:
        logger.removeHandler(handler)
