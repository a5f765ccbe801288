"""Code that does not want to be confined, at every level of confinement. No attack here is unbounded: should
confinement fail, each ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import sys
import uuid
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.code import CodeLimits
from callboard.code.launcher import kernel
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python

from .executors import an_executor, confined, processes_with, run, started

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the measures are Linux's")

MIB = 1 << 20


@pytest.fixture
def mark() -> str:
    """A text by which a test finds the processes of its code."""
    return f"mark-{uuid.uuid4().hex}"


@pytest.fixture
def our_key(mark: str) -> Iterator[str]:
    """The name of a key in the keyring of our session."""
    column = kernel.MACHINES[os.uname().machine][1]
    add_key, keyctl = (kernel.REFUSED_CALLS[name][column] for name in ("add_key", "keyctl"))
    try:
        kernel.syscall(keyctl, 1, None)  # KEYCTL_JOIN_SESSION_KEYRING: one of our own
        key = kernel.syscall(add_key, b"user", mark.encode(), b"hush", 4, -3)
    except OSError as error:
        pytest.skip(f"this system has no keyrings: {error}")
    yield mark
    kernel.syscall(keyctl, 9, key, -3)


# Each child ends by itself after 20 s, and there are at most 300 of them.
FORKS = """
import os, sys, time
for number in range(300):
    try:
        child = os.fork()
    except OSError:
        sys.exit(3)  # the kernel refuses more
    if child == 0:
        {child}
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("child", ["pass", "os.setsid()"], ids=["one-group", "own-sessions"])
async def test_a_fork_bomb(folder: Path, mark: str, child: str) -> None:
    code = f"# filename: {mark}.py\n" + FORKS.format(child=child)
    result = await run(an_executor(folder, limits=CodeLimits(processes=50)), code)
    assert result.exit_code in (3, 137)
    assert not processes_with(mark)


DAEMON = """
import os, subprocess, sys, time
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "{mark}"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.Popen(["sleep", "60"], env={{"X": "{mark}"}}, close_fds=True)
        time.sleep(60)
    os._exit(0)
print("done")
"""


@pytest.mark.usefixtures("level")
async def test_daemons_end_with_the_block(folder: Path, mark: str) -> None:
    result = await run(an_executor(folder), f"# filename: {mark}.py\n" + DAEMON.format(mark=mark))
    assert (result.exit_code, result.output) == (0, "done\n")
    assert not processes_with(mark)


@pytest.mark.usefixtures("level")
async def test_a_timeout_reaches_grandchildren(folder: Path, mark: str) -> None:
    code = f"# filename: {mark}.py\n{DAEMON.format(mark=mark)}\ntime.sleep(60)"
    result = await run(an_executor(folder, timeout=1), code)
    assert result.exit_code == 124
    assert not processes_with(mark)


@pytest.mark.usefixtures("level")
async def test_a_cancelled_task_leaves_no_grandchildren(folder: Path, mark: str) -> None:
    code = f"# filename: {mark}.py\n{DAEMON.format(mark=mark)}\nopen('m', 'w')\ntime.sleep(60)"
    task = await started(an_executor(folder), code, folder / "m")
    assert processes_with(mark)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not processes_with(mark)


@pytest.mark.usefixtures("level")
async def test_signals_that_it_ignores_do_not_save_it(folder: Path, mark: str) -> None:
    code = (
        f"# filename: {mark}.py\nimport signal, time\n"
        "for number in signal.valid_signals() - {9, 19}: signal.signal(number, signal.SIG_IGN)\ntime.sleep(60)"
    )
    assert (await run(an_executor(folder, timeout=1), code)).exit_code == 124
    assert not processes_with(mark)


@pytest.mark.usefixtures("level")
async def test_signals_are_as_in_a_program_started_by_hand(folder: Path) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGTERM)"
    assert (await run(an_executor(folder), code)).exit_code == 128 + signal.SIGTERM
    assert (
        await run(an_executor(folder), "set -o pipefail; yes | head -1", "bash")
    ).exit_code == 128 + signal.SIGPIPE


@pytest.mark.usefixtures("level")
async def test_a_flood_of_output_is_stopped_and_its_ends_are_kept(folder: Path) -> None:
    limits = CodeLimits(output=4 * MIB, output_kept=1000)
    result = await run(an_executor(folder, limits=limits), "for _ in range(10_000): print('x' * 10_000)")
    assert result.exit_code == 137
    assert "bytes of output left out" in result.output
    assert "Stopped: it wrote more than 4194304 bytes of output." in result.output
    assert len(result.output) < 1200


async def test_long_output_keeps_head_and_tail(folder: Path) -> None:
    executor = an_executor(folder, limits=CodeLimits(output_kept=200))
    result = await run(executor, "print('first')\nprint('x' * 1_000_000)\nprint('last')")
    assert result.exit_code == 0
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")
    assert "left out" in result.output


@pytest.mark.usefixtures("level")
async def test_memory_of_one_process(folder: Path) -> None:
    result = await run(an_executor(folder, limits=CodeLimits(memory=256 * MIB)), "x = b'x' * (1 << 30)")
    assert result.exit_code == 1
    assert "MemoryError" in result.output


@pytest.mark.usefixtures("level")
async def test_memory_of_all_together(folder: Path) -> None:
    code = "import os, time\nfor _ in range(2): os.fork()\nx = b'x' * (100 << 20)\ntime.sleep(20)"
    result = await run(an_executor(folder, limits=CodeLimits(memory=256 * MIB)), code)
    assert (result.exit_code, result.output) == (137, "\nStopped: it used more than 256 MiB of memory.\n")


# What it gets is given back at once: where nothing confines it, it is the machine's.
UNCOUNTED = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
got = []

def shared_memory():
    segment = libc.shmget(0, 1 << 16, 0o1600)
    if segment < 0: return False
    libc.shmctl(segment, 0, None)  # IPC_RMID
    return True

def queue():
    made = libc.msgget(0, 0o1600)
    if made < 0: return False
    libc.msgctl(made, 0, None)
    return True

def semaphores():
    made = libc.semget(0, 1, 0o1600)
    if made < 0: return False
    libc.semctl(made, 0, 0)
    return True

def posix_queue():
    if libc.mq_open(b"/%d" % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600, None) < 0: return False
    libc.mq_unlink(b"/%d" % os.getpid())
    return True

def file_in_memory():
    return hasattr(os, "memfd_create") and os.close(os.memfd_create("x")) is None

def file_system_in_memory():
    if not hasattr(libc, "unshare") or libc.unshare(0x10020000) < 0: return False
    os.mkdir("mounted")
    return libc.mount(b"none", b"mounted", b"tmpfs", 0, None) == 0

for way in (shared_memory, queue, semaphores, posix_queue, file_in_memory, file_system_in_memory):
    try:
        if way(): got.append(way.__name__)
    except OSError:
        pass
print(*got)
"""


@pytest.mark.usefixtures("level")
async def test_memory_that_is_counted_nowhere(folder: Path) -> None:
    async with an_executor(folder) as executor:
        result = await run(executor, UNCOUNTED)
        assert result.exit_code == 0, result.output
        if executor.confinement.memory:
            assert result.output == "\n"
        else:
            assert "shared_memory" in result.output


KEYS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
add_key, request_key, keyctl = {numbers}
session, user = -3, -4
left = libc.syscall(add_key, b"user", b"left-by-code", b"x", 1, user)
if left > 0:
    print("left a key")
    libc.syscall(keyctl, 9, left, user)  # KEYCTL_UNLINK
for ring in (session, user):
    if libc.syscall(keyctl, 0, ring, 0) > 0: print("has a keyring")
if libc.syscall(request_key, b"user", b"{name}", None, session) > 0: print("found our key")
"""


@pytest.mark.usefixtures("level")
async def test_keyrings_are_out_of_reach(folder: Path, our_key: str) -> None:
    column = kernel.MACHINES[os.uname().machine][1]
    numbers = tuple(kernel.REFUSED_CALLS[name][column] for name in ("add_key", "request_key", "keyctl"))
    async with an_executor(folder) as executor:
        output = (await run(executor, KEYS.format(numbers=numbers, name=our_key))).output
        if executor.confinement.reading:
            assert output == ""
        elif "seccomp" not in executor.confinement.measures:
            assert "found our key" in output


@pytest.mark.usefixtures("level")
async def test_a_huge_file(folder: Path) -> None:
    code = "with open('big', 'wb') as file:\n  for _ in range(64): file.write(b'x' * (1 << 20))"
    result = await run(an_executor(folder, limits=CodeLimits(file_size=8 * MIB)), code)
    assert "File too large" in result.output
    assert (folder / "big").stat().st_size <= 8 * MIB


@pytest.mark.usefixtures("level")
async def test_many_files(folder: Path) -> None:
    code = "import os, time\nos.mkdir('many')\nfor i in range(500): open(f'many/{i}', 'w')\ntime.sleep(20)"
    result = await run(an_executor(folder, limits=CodeLimits(files=200)), code)
    assert (result.exit_code, result.output) == (137, "\nStopped: it made more than 200 files.\n")


@pytest.mark.usefixtures("level")
async def test_a_full_disk(folder: Path) -> None:
    code = "import time\nfor i in range(8): open(str(i), 'wb').write(b'x' * (2 << 20))\ntime.sleep(20)"
    result = await run(an_executor(folder, limits=CodeLimits(disk=8 * MIB)), code)
    assert (result.exit_code, result.output) == (
        137,
        "\nStopped: it wrote more than 8 MiB into its folder.\n",
    )


@pytest.mark.usefixtures("level")
async def test_processor_time_and_open_files(folder: Path) -> None:
    limits = CodeLimits(cpu_seconds=1, open_files=20)
    assert (await run(an_executor(folder, limits=limits), "while True: pass")).exit_code == 137
    result = await run(an_executor(folder, limits=limits), "x = [open('/dev/null') for _ in range(30)]")
    assert "Too many open files" in result.output


async def test_limits_can_not_be_raised(folder: Path) -> None:
    code = "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (9999, 9999))"
    result = await run(an_executor(folder, limits=CodeLimits(open_files=20)), code)
    assert result.exit_code == 1


CONNECT = """
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, {path!r})):
    try:
        socket.socket(family).connect(address)
    except OSError as error:
        print("refused", type(error).__name__)
    else:
        print("connected")
a, b = socket.socketpair()
"""


async def test_no_server_is_reached(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the whole path may be too long for a socket
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        for server, address in ((tcp, ("127.0.0.1", 0)), (unix, "s")):
            server.bind(address)
            server.listen()
        code = CONNECT.format(port=tcp.getsockname()[1], path="../s")
        async with await confined(folder, ["network"]) as executor:
            result = await run(executor, code)
        assert (result.exit_code, result.output.count("refused")) == (0, 2), result.output
        async with an_executor(folder, network=True, readable=[tmp_path]) as executor:
            assert not executor.confinement.network
            assert (await run(executor, code)).output == "connected\nconnected\n"


async def test_nothing_outside_is_written(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("before")
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    attempts = {
        "w": f"echo x > {outside}",
        "link": "echo x > link",
        "new": f"echo x > {tmp_path}/new",
        "mode": f"chmod 777 {outside}",
        "time": f"touch {outside}",
        "move": f"mv {outside} {folder}/taken",
        "remove": f"rm {outside}",
        "tmp": "echo x > /tmp/callboard-escaped",
        "proc": "echo x > /proc/sys/kernel/hostname",
    }
    async with await confined(folder, ["writing"], cleanup_temp_files=False) as executor:
        if "namespaces" not in executor.confinement.measures:
            del attempts["mode"], attempts["time"]
        for name, command in attempts.items():
            result = await run(executor, command, "sh")
            assert result.exit_code != 0, (name, result)
    assert outside.read_text() == "before"
    assert outside.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside.txt", "work"]


async def test_secrets_outside_are_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("hush")
    (folder / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1,2")
    outside = shlex.quote(str(tmp_path))
    async with await confined(folder, ["reading"], readable=[tmp_path / "data"]) as executor:
        for command in (
            f"cat {outside}/secret",
            "cat link",
            f"ls {outside}",
            "ls ~root",
            "cat /etc/shadow",
        ):
            result = await run(executor, command, "sh")
            assert result.exit_code != 0, (command, result)
        assert (await run(executor, f"cat {outside}/data/a.csv", "sh")).output == "1,2"
        assert (await run(executor, f"echo x > {outside}/data/a.csv", "sh")).exit_code != 0


async def _reads_no_keys_of(home: Path, folder: Path, **settings: Any) -> None:
    """Code is run by a Python that lies in the bin of a home, and looks around in that."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("hush")
    async with await confined(folder, ["reading"], **settings) as executor:
        for command in (f"cat {home}/.ssh/id_ed25519", f"ls -a {home}", f"cat {home}/.ssh/*"):
            result = await run(executor, command, "sh")
            assert result.exit_code != 0, (command, result)
        assert (
            await run(executor, "import json, sys; print(sys.executable)")
        ).output == f"{home}/bin/python\n"
        assert (await run(executor, "python -c 'print(7)'", "sh")).output == "7\n"


async def test_a_python_in_the_bin_of_a_home_opens_no_home(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(home / "bin" / "python"))
    await _reads_no_keys_of(home, folder)


async def test_an_environment_that_is_a_home_opens_no_home(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    builder = venv.EnvBuilder(symlinks=True)
    builder.create(home)
    context = builder.ensure_directories(home)
    context.env_exe = str(home / "bin" / "python")
    await _reads_no_keys_of(home, folder, virtual_env_context=context)


LOOK = (
    f"cat /proc/{os.getpid()}/environ; cat /proc/$PPID/environ; kill -0 {os.getpid()} && echo reached; true"
)


async def test_the_worker_is_out_of_reach(folder: Path) -> None:
    async with await confined(folder, ["processes"]) as executor:
        output = (await run(executor, LOOK, "sh")).output
    assert "PATH=" not in output
    assert "reached" not in output


@pytest.mark.usefixtures("level")
async def test_the_launcher_may_be_shot_at(folder: Path, mark: str) -> None:
    code = (
        f"# filename: {mark}.py\nimport os, time\n"
        "for pid in (os.getppid(), 1):\n  try:\n    if pid > 1 or os.getpid() < 10: os.kill(pid, 9)\n"
        "  except OSError: pass\ntime.sleep(20)"
    )
    result = await run(an_executor(folder, timeout=1), code)
    assert result.exit_code in (124, 137)
    await eventually(lambda: not processes_with(mark), within=5)


@pytest.mark.usefixtures("level")
async def test_files_that_lie_in_wait_for_the_next_block(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("print('outside')")
    executor = an_executor(folder)
    traps = (
        f"import os\nos.symlink({str(outside)!r}, 'link.py')\nos.mkfifo('fifo.py')\n"
        f"os.symlink({str(tmp_path)!r}, 'dir')\nos.mkdir('a.py')\nopen('json.py', 'w').write('1/0')\n"
    )
    assert (await run(executor, traps)).exit_code == 0
    for name in ("link.py", "fifo.py", "new/deep.py"):
        result = await run(executor, f"# filename: {name}\nprint('ran')")
        assert (result.exit_code, result.output) == (0, "ran\n"), name
    for name in ("dir/outside.py", "a.py", "link.py/x.py/../y.py"):
        result = await run(executor, f"# filename: {name}\nprint('ran')")
        assert (result.exit_code, result.output) == (1, "\nFilename is not in the workspace"), name
    assert outside.read_text() == "print('outside')"


async def test_a_folder_deeper_than_any_path_is_removed() -> None:
    async with an_executor() as executor:
        folder = executor.work_dir
        code = "import os\nfor _ in range(1500):\n  os.mkdir('d' * 50)\n  os.chdir('d' * 50)\nopen('f', 'w')"
        assert (await run(executor, code)).exit_code == 0
    assert not folder.exists()


WORKER = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from callboard import CancellationToken
from callboard.code import CodeBlock, LocalCommandLineCodeExecutor

async def main():
    async with LocalCommandLineCodeExecutor(work_dir=sys.argv[1]) as executor:
        code = "# filename: {mark}.py\\nimport os, time\\nif os.fork() == 0: os.setsid()\\nopen('m', 'w')\\ntime.sleep(60)"
        await executor.execute_code_blocks([CodeBlock(code, "python")], CancellationToken())

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
async def test_code_does_not_outlive_its_worker(folder: Path, mark: str, number: signal.Signals) -> None:
    worker = Process(python("-c", WORKER.format(mark=mark), str(folder)))
    try:
        await eventually((folder / "m").exists, within=20, what=worker.output)
        assert processes_with(mark)
        worker.signal(number)
        await worker.ended()
        await eventually(lambda: not processes_with(f"{mark}.py"), within=10)
    finally:
        worker.close()
