"""The guard of an embedded server: a tiny process that stops the server when its last user is gone.

The guard runs as a script (`python -I -S guard.py ...`) so that it starts in milliseconds and holds little memory, hence
nothing but the standard library is imported. `embedded.py` imports the same functions, so that what is written to disk
has one reader and one writer.

Files in the state directory:

==============  ============================================================================================
users.lock      every user holds a shared lock; a process that gets the exclusive one knows that none is left
guard.lock      held by the guard as long as it lives
server.lock     inherited by the server: held exactly as long as the server, or a child of it, lives
server.pid      the record of the running server: ``name=value`` lines
==============  ============================================================================================

All locks are `flock` locks: the kernel drops them when a process ends, however it ends.
"""

import os
import signal
import sys
import time

if sys.platform != "win32":
    import fcntl

USERS_LOCK = "users.lock"
GUARD_LOCK = "guard.lock"
SERVER_LOCK = "server.lock"
RECORD = "server.pid"
LOG = "server.log"

#: Seconds that a server gets to write its file and exit before it is killed.
STOP_GRACE = 10.0
#: Seconds between two looks at a server that is stopping.
STOP_POLL = 0.005

Record = dict[str, str]
Signals = tuple[signal.Signals, ...]
KINDLY: Signals = (signal.SIGTERM, signal.SIGKILL)


def try_lock(fd: int, operation: int) -> bool:
    """Take a `flock` lock without waiting; say whether it was free."""
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock(name: str, directory: int) -> int:
    """Open a lock file of the state directory (given as a descriptor), making it where it is missing."""
    return os.open(name, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=directory)


def is_locked(name: str, directory: int) -> bool:
    """Say whether some process holds an exclusive lock on this file."""
    fd = open_lock(name, directory)
    try:
        return not try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def read_record(directory: int) -> Record | None:
    """The record of the running server, or None if there is none."""
    try:
        fd = os.open(RECORD, os.O_RDONLY, dir_fd=directory)
    except FileNotFoundError:
        return None
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        pairs = (line.rstrip("\n").partition("=") for line in file)
        return {name: value for name, _, value in pairs}


def write_record(directory: int, record: Record) -> None:
    """Write the record of the running server in one step: a reader sees the old one or the new one."""
    fresh = f"{RECORD}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=directory)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{name}={value}\n" for name, value in record.items())
    os.rename(fresh, RECORD, src_dir_fd=directory, dst_dir_fd=directory)


def remove(name: str, directory: int) -> None:
    """Delete a file of the state directory if it is there."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def started_at(pid: int) -> str | None:
    """When a process was started, in the system's own format; None if it is gone or a zombie.

    Together with the pid it names one process for good: pids are used again, start times are not.
    """
    if sys.platform == "linux":
        return _started_from_proc(pid)
    return _started_from_ps(pid)


def _started_from_proc(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _started_from_ps(pid: int) -> str | None:
    import subprocess

    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    state, _, started = done.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def terminate(record: Record, grace: float = STOP_GRACE, signals: Signals = KINDLY) -> bool:
    """End the server that a record names, kindly at first; say whether it is gone.

    Args:
        record: What `read_record` gave. A process that only has the same pid is left alone.
        grace: Seconds before it gets the next signal, and after the last one before it is given up.
        signals: What it gets, one after the other.
    """
    pid, started = int(record["pid"]), record["started"]
    for number in signals:
        _signal(pid, started, number)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            if started_at(pid) != started:
                return True
            time.sleep(STOP_POLL)
    return False


def _signal(pid: int, started: str, number: int) -> None:
    if started_at(pid) != started:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def finish(directory: int, remembered: Record | None = None) -> bool:
    """Stop the server of a directory that no process uses any more, unless it was told to stay; say whether none is left.

    To be called with the exclusive lock on `users.lock`.

    Args:
        directory: Descriptor of the state directory; the directory itself may have been deleted.
        remembered: The server to stop where the directory no longer says it.
    """
    record = read_record(directory) or remembered
    if record is None:
        return True
    if record.get("persistent") == "1":
        return False
    try:
        lives = is_locked(SERVER_LOCK, directory)
    except FileNotFoundError:
        # Its data were deleted with the directory; a kind end would delete the socket of a successor as well.
        return terminate(record, signals=(signal.SIGKILL,))
    if lives and not terminate(record):
        return False
    remove(RECORD, directory)
    return True


def spawn(binary: str, config: str, keep: int) -> int:
    """Start the server as a child in a session of its own; return its pid.

    Args:
        binary: Path of the server binary.
        config: Path of its configuration file.
        keep: Descriptor of `server.lock`, which it inherits.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        # Descriptor 1 is the pipe whose end the caller waits for.
        os.dup2(2, 1)
        # A server must see its own children end: an ignored SIGCHLD would be inherited.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.set_inheritable(keep, True)
        os.execv(binary, [binary, config])
    except OSError as error:
        os.write(2, f"{binary} could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def guard(directory: int, remembered: Record | None, guard_lock: int) -> None:
    """Wait, without using any time, until no process uses the server, then stop it."""
    users = open_lock(USERS_LOCK, directory)
    fcntl.flock(users, fcntl.LOCK_EX)
    if finish(directory, remembered):
        _reap()
    # In this order: a newcomer who gets in must not see a guard that is about to exit.
    os.close(guard_lock)
    os.close(users)


def _reap() -> None:
    """Wait until our child is gone for good, not only a zombie that another process would have to take away."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _start(directory: int, binary: str, config: str, server_lock: int, fields: list[str]) -> None:
    pid = spawn(binary, config, server_lock)
    os.close(server_lock)
    started = started_at(pid)
    if started is None:
        return
    pairs = dict(field.split("=", 1) for field in fields)
    try:
        write_record(directory, {"pid": str(pid), "started": started, **pairs})
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise


def main(arguments: list[str]) -> None:
    """Start a server, or guard one, or both; detached from the caller.

    Args:
        arguments: state directory; descriptor of the guard's lock or -1; descriptor of the server's lock or -1;
            and if there is a server to start: its binary, its configuration file, the further fields of its record.
    """
    path, guard_lock, server_lock = arguments[0], int(arguments[1]), int(arguments[2])
    if os.fork():
        os._exit(0)
    os.setsid()
    for fd in (guard_lock, server_lock):
        if fd >= 0:
            os.set_inheritable(fd, False)
    os.umask(0o077)
    # No zombies: the kernel takes the server away as soon as it ends, whichever process stopped it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    directory = os.open(path, os.O_RDONLY)
    if server_lock >= 0:
        _start(directory, arguments[3], arguments[4], server_lock, arguments[5:])
    # The caller waits for the end of this pipe: from here on the record is there.
    os.dup2(0, 1)
    os.chdir("/")
    if guard_lock >= 0:
        guard(directory, read_record(directory), guard_lock)


if __name__ == "__main__":
    main(sys.argv[1:])
