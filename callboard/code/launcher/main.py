"""The launcher's processes: the one that outlives the code, the keeper of its limits, and the program itself."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import stat
import sys
import time
from typing import NamedTuple, NoReturn

from . import (
    CANCELLED,
    KILLED,
    LANDLOCK,
    NAMESPACES,
    PROC,
    REFUSED,
    SECCOMP,
    TIMEOUT,
    LaunchPlan,
    kernel,
)
from .kernel import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    SHARED_MEMORY,
    adopt_orphans,
    drop_capabilities,
    prctl,
)


def main() -> None:
    """Run a plan, the first argument, and end with the code's exit code.

    Its output goes to ours. The end of our input means that the executor wants it stopped, or is gone.
    """
    plan = LaunchPlan.from_json(sys.argv[1])
    try:
        prepare(plan)
    except OSError as error:
        say(f"The code could not be confined: {error}")
        os._exit(REFUSED)
    os._exit(_run(plan))


def prepare(plan: LaunchPlan) -> None:
    """Enter the namespaces, and become the parent of every orphan among our descendants."""
    adopt_orphans()
    if NAMESPACES in plan.measures:
        kernel.enter_namespaces(network=plan.network)


def _run(plan: LaunchPlan) -> int:
    deadline = time.monotonic() + plan.timeout
    ended = end_of_children()
    ours, keepers = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(keepers)
        run_keeper(plan, ours)
    os.close(ours)
    code = _wait(child, ended, deadline)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    kill_all()
    if code == TIMEOUT and time.monotonic() >= deadline:
        say(f"Timeout: stopped after {plan.timeout:g} s.")
    return code


def _wait(child: int, ended: int, deadline: float) -> int:
    while True:
        ready = wait_for([0, ended], deadline - time.monotonic())
        if ended in ready:
            drain(ended)
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return exit_code(status)
        if 0 in ready:
            return CANCELLED
        if not ready:
            return TIMEOUT if time.monotonic() >= deadline else KILLED


def run_keeper(plan: LaunchPlan, launcher: int) -> NoReturn:
    """Start the program and keep watch until it ends; then end with its exit code.

    Args:
        plan: The run.
        launcher: A pipe that ends when the launcher does.
    """
    code = REFUSED
    try:
        arrange(plan)
        code = _keep(plan, launcher)
    except OSError as error:
        say(f"The code could not be confined: {error}")
    finally:
        os._exit(code)


def arrange(plan: LaunchPlan) -> None:
    """Take the measures that only the first process of the namespaces can take."""
    if os.uname().sysname == "Linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    adopt_orphans()
    if NAMESPACES not in plan.measures:
        return
    if PROC in plan.measures:
        kernel.mount_proc()
    kernel.arrange_mounts(plan.folder)


def say(text: str) -> None:
    """Write a line of our own behind the code's output."""
    os.write(1, f"\n{text}\n".encode())


def _keep(plan: LaunchPlan, launcher: int) -> int:
    watch, ended = LimitWatch(plan), end_of_children()
    child = os.fork()
    if child == 0:
        run_program(plan)
    while True:
        # An orphaned keeper ends, and the code with it
        ready = wait_for([ended, launcher], PAUSE)
        if launcher in ready:
            return KILLED
        drain(ended)
        code = _reap_program(child)
        if code is not None:
            return code
        passed = watch.look()
        if passed:
            kill_group(child)
            say(f"Stopped: {passed}.")
            return KILLED


def _reap_program(child: int) -> int | None:
    """Take away the processes that have ended; the exit code of this child if it was among them."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return found
            if pid == child:
                found = exit_code(status)
    except ChildProcessError:
        return found


#: Seconds between two looks, and how many times the length of a look there is at least between two.
PAUSE, TIMES = 0.05, 20


class LimitWatch:
    """Looks after the limits of a run from time to time.

    Args:
        plan: The run. What its folder holds already is not counted.
    """

    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self._disk_before, self._files_before = _contents(plan.folder)
        self._folder_next = 0.0

    def look(self) -> str:
        """The limit that was passed, as a sentence, or ""."""
        return self._look_at_processes() or self._look_at_folder()

    def _look_at_processes(self) -> str:
        plan, found = self._plan, descendants()
        if sum(process.threads for process in found) > plan.processes:
            return f"it had more than {plan.processes} processes and threads"
        if sum(process.memory for process in found) > plan.memory:
            return f"it used more than {plan.memory >> 20} MiB of memory"
        return ""

    def _look_at_folder(self) -> str:
        began = time.monotonic()
        if began < self._folder_next:
            return ""
        plan, (disk, files) = self._plan, _contents(self._plan.folder)
        ended = time.monotonic()
        self._folder_next = ended + max(4 * PAUSE, TIMES * (ended - began))
        if disk - self._disk_before > plan.disk:
            return f"it wrote more than {plan.disk >> 20} MiB into its folder"
        if files - self._files_before > plan.files:
            return f"it made more than {plan.files} files"
        return ""


def _contents(folder: str) -> tuple[int, int]:
    """Bytes on disk and number of everything in a folder. What vanishes meanwhile, or can't be read, is passed over."""
    size = count = 0
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        count += len(entries)
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            size += facts.st_blocks * 512
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(entry.path)
    return size, count


#: What launcher and keeper count for among the processes of a user.
OWN_PROCESSES = 2

#: How much less of a busy processor it gets than the worker.
NICER = 10
#: Descriptors above it can't be open: launcher and keeper open a handful.
OPEN_AT_MOST = 256


def run_program(plan: LaunchPlan) -> None:
    """Become the interpreter. Only returns by ending the process, with a sentence, when it could not."""
    try:
        _separate()
        os.chdir(plan.folder)
        _limit(plan)
        _confine(plan)
        os.execve(plan.command[0], plan.command, dict(os.environ))
    except (OSError, ValueError, MemoryError) as error:
        os.write(1, f"The code could not be started: {error}\n".encode())
    finally:
        os._exit(REFUSED)


def _separate() -> None:
    """A session, a process group and signals of its own, and nothing open but its output."""
    os.setsid()
    os.umask(0o077)
    os.nice(NICER)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Those that a process ignores are ignored by the programs it becomes: Python ignores SIGPIPE and SIGXFSZ.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    os.closerange(3, OPEN_AT_MOST)


def _limit(plan: LaunchPlan) -> None:
    limits = {
        "RLIMIT_AS": plan.memory,
        "RLIMIT_CPU": plan.cpu_seconds,
        "RLIMIT_NOFILE": plan.open_files,
        "RLIMIT_FSIZE": plan.file_size,
        "RLIMIT_CORE": 0,
    }
    # Outside of namespaces all processes of the user count, the worker's own too. It is no limit for root.
    others = OWN_PROCESSES if NAMESPACES in plan.measures else tasks_of_user(os.geteuid())
    limits["RLIMIT_NPROC"] = plan.processes + others
    for name, value in limits.items():
        which = getattr(resource, name)
        hardest = resource.getrlimit(which)[1]
        most = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
        resource.setrlimit(which, (most, most))


def _confine(plan: LaunchPlan) -> None:
    if os.uname().sysname != "Linux":
        return
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    drop_capabilities()
    if LANDLOCK in plan.measures:
        shared = [SHARED_MEMORY] if NAMESPACES in plan.measures else []
        kernel.restrict_files(plan.readable, [plan.folder, *shared])
    if SECCOMP in plan.measures:
        kernel.refuse_calls(network=plan.network)


#: Seconds for the kernel to take away what was killed.
GRACE = 8.0


def end_of_children() -> int:
    """A descriptor that can be read when a child has ended, from now on."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def wait_for(descriptors: list[int], seconds: float) -> list[int]:
    """Those of the descriptors that can be read, after at most this time."""
    return select.select(descriptors, [], [], max(0.0, seconds))[0]


def drain(descriptor: int) -> None:
    """Read what is there and forget it."""
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


def exit_code(status: int) -> int:
    """The exit code of a child, as a shell gives it: 128 + N after signal N."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def kill_group(group: int) -> None:
    """Kill a process group, all at once: no member gets to start another process meanwhile."""
    if group != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def kill_all() -> None:
    """Kill every descendant: the children of those that are killed become children of this process."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        # Group by group, or what starts processes faster than they are killed one by one outlives this
        for group in {process.group for process in descendants()}:
            kill_group(group)
        if not _reap_ended():
            return
        time.sleep(0.002)


def _reap_ended() -> bool:
    """Take away who has ended; say whether there are other children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _nothing(*_: object) -> None:
    return


PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One process.

    Attributes:
        pid: Its number, as /proc has it.
        parent: That of its parent.
        group: That of its process group.
        threads: How many it has.
        memory: Resident bytes.
    """

    pid: int
    parent: int
    group: int
    threads: int
    memory: int


def descendants() -> list[Process]:
    """The processes that descend from this one."""
    try:
        # As this /proc calls it: it may be the one of the namespace outside.
        own = int(os.readlink("/proc/self"))
    except OSError:
        return []
    found = {process.pid: process for process in _all()}
    return [process for process in found.values() if _descends(process, own, found)]


def tasks_of_user(user: int) -> int:
    """Processes and threads of a user."""
    return sum(process.threads for process in _all() if _owner(process.pid) == user)


def _all() -> list[Process]:
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [process for name in names if (process := _read(name))]


def _read(name: str) -> Process | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    fields = text.rpartition(b")")[2].split()
    parent, group, threads, pages = (int(fields[at]) for at in (1, 2, 17, 21))
    return Process(int(name), parent, group, threads, pages * PAGE)


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _descends(process: Process, ancestor: int, found: dict[int, Process]) -> bool:
    step: Process | None = process
    for _ in found:  # no endless walk where a number was used again while the list was read
        if step is None or step.parent == ancestor:
            break
        step = found.get(step.parent)
    return step is not None and step.parent == ancestor
