"""The folder that code works in: its files, the languages and variables of code there, and its removal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

from .base import CodeError


@dataclass(frozen=True)
class Language:
    """One language.

    Attributes:
        name: What a message about it says.
        suffix: The end of its files' names.
        programs: What may run it; the first that is installed is taken. Empty: the Python of the executor.
        options: What stands between program and file.
    """

    name: str
    suffix: str
    programs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def find_program(self, path: str) -> str | None:
        """The absolute path of the program that runs it.

        Args:
            path: Folders to look in, as in the environment variable PATH.
        """
        found = (shutil.which(program, path=path) for program in self.programs)
        return next((program for program in found if program), None)


PYTHON = Language("python", "py")
_POWERSHELL = Language(
    "powershell",
    "ps1",
    ("pwsh", "powershell"),
    ("-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"),
)
_BASH, _SH = Language("bash", "sh", ("bash",)), Language("sh", "sh", ("sh",))
_LANGUAGES: Mapping[str, Language] = {
    "python": PYTHON,
    "python3": PYTHON,
    "py": PYTHON,
    "bash": _BASH,
    "sh": _SH,
    "shell": _SH,
    "pwsh": _POWERSHELL,
    "powershell": _POWERSHELL,
    "ps1": _POWERSHELL,
}
NAMES = tuple(_LANGUAGES)


def find_language(name: str) -> Language | None:
    """The language that a code block names, in any case; None when it can't be run."""
    return _LANGUAGES.get(name.strip().lower())


#: Variables of ours that code gets too. Everything else may be a secret.
PASSED_ON = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ")
#: What programs of the system need. Of /etc only what holds no secret.
READABLE = (
    *(
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/nix/store",
        "/proc",
        "/sys/devices/system/cpu",
    ),
    *(
        f"/etc/{name}"
        for name in ("alternatives", "ca-certificates", "fonts", "ld.so.cache", "ld.so.conf", "locale.alias")
    ),
    *(
        f"/etc/{name}"
        for name in ("ld.so.conf.d", "localtime", "magic", "mime.types", "os-release", "ssl/certs")
    ),
    *(
        f"/etc/{name}"
        for name in ("group", "host.conf", "hosts", "nsswitch.conf", "passwd", "resolv.conf", "timezone")
    ),
    *("/etc/bash.bashrc", "/etc/profile", "/etc/terminfo", "/etc/ssl/openssl.cnf"),
    # Not all of /etc/pki: private keys of the machine are in tls/private and nssdb.
    *(f"/etc/pki/{name}" for name in ("ca-trust", "tls/cert.pem", "tls/certs", "tls/openssl.cnf")),
)
#: What belongs to Python in the folder that it is installed in. The rest may be anybody's: a Python in ~/bin has the home
#: for its folder, and a virtual environment may be a project's folder.
PYTHONS = ("bin", "include", "lib", "lib64", "libexec", "pyvenv.cfg")
#: Folder in the work folder for temporary files and what programs keep in a home.
HOME = ".home"
#: Folder in the work folder for what pip installs for functions.
PACKAGES = ".packages"


def python_of(virtual_env: SimpleNamespace | None) -> str:
    """The Python that runs code: that of a virtual environment, else ours."""
    return os.path.abspath(virtual_env.env_exe) if virtual_env else sys.executable  # noqa: PTH100 - links are kept


def environment(
    folder: Path, virtual_env: SimpleNamespace | None, added: Mapping[str, str]
) -> dict[str, str]:
    """The environment of code: nothing of ours but language and time zone, and where programs are.

    Args:
        folder: The work folder; homes and temporary files are in it.
        virtual_env: The virtual environment that is used.
        added: Variables that the user gives to the code.
    """
    home = str(folder / HOME)
    return {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "PATH": search_path(virtual_env),
        "HOME": home,
        "TMPDIR": home,
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "1",  # what was printed is there when the code is stopped
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(folder / PACKAGES),
        "PIP_QUIET": "3",  # as AutoGen, which adds -qqq
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **added,
    }


def program_of(language: Language, virtual_env: SimpleNamespace | None) -> str | None:
    """The absolute path of the program that runs a language; None when it is not installed."""
    return language.find_program(search_path(virtual_env)) if language.programs else python_of(virtual_env)


def search_path(virtual_env: SimpleNamespace | None) -> str:
    """Folders of programs: first those beside the Python that runs code, so that `python` in a shell is the same."""
    first = os.path.dirname(python_of(virtual_env))  # noqa: PTH120 - links are kept
    return os.pathsep.join([first, os.environ.get("PATH", os.defpath)])


def readable_paths(virtual_env: SimpleNamespace | None, added: tuple[str, ...]) -> list[str]:
    """Files and folders outside of the work folder that code may read and execute.

    Args:
        virtual_env: The virtual environment that is used.
        added: What the user adds.
    """
    python = Path(python_of(virtual_env))
    installed = {Path(sys.prefix), Path(sys.base_prefix), python.resolve().parent.parent}
    if (python.parent.parent / "pyvenv.cfg").is_file():
        installed.add(python.parent.parent)
    parts = [path for folder in sorted(installed) for path in _parts_of_python(folder)]
    return [*READABLE, str(python), *parts, *added]


def _parts_of_python(folder: Path) -> list[str]:
    """What belongs to Python in a folder that one is installed in; all of it where conda made it for nothing else."""
    if (folder / "conda-meta").is_dir():
        return [str(folder)]
    return [str(folder / name) for name in PYTHONS]


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(folder: Path) -> None:
    """Delete a folder and everything in it, without following links. That it is gone already is no matter.

    Folders in folders are moved to the top before they are emptied, so that no depth is too deep.

    Raises:
        OSError: Something can't be deleted.
    """
    with contextlib.suppress(FileNotFoundError):
        top = os.open(folder, _FOLDER)
        try:
            _Removal(top).run()
        finally:
            os.close(top)
        folder.rmdir()


class _Removal:
    def __init__(self, top: int) -> None:
        self._top = top
        self._prefix = secrets.token_hex(16)
        self._made = 0
        self._waiting: list[str] = []

    def run(self) -> None:
        self._empty(self._top)
        while self._waiting:
            name = self._waiting.pop()
            inner = os.open(name, _FOLDER, dir_fd=self._top)
            try:
                self._empty(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=self._top)

    def _empty(self, place: int) -> None:
        with os.scandir(place) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if is_folder:
                self._move(name, place)
            else:
                os.unlink(name, dir_fd=place)

    def _move(self, name: str, place: int) -> None:
        self._made += 1
        new = f"{self._prefix}-{self._made}"
        os.chmod(name, 0o700, dir_fd=place)
        os.rename(name, new, src_dir_fd=place, dst_dir_fd=self._top)
        self._waiting.append(new)


PREFIX = "callboard-code-"


class WorkFolder:
    """A given folder, or a temporary one that is removed.

    It is removed by `remove`, when nothing refers to this object any more, or when the program ends. What a killed program
    left, the next one removes (`remove_left`).

    Args:
        given: The folder; None: a temporary one.
    """

    def __init__(self, given: Path | str | None) -> None:
        self._given = None if given is None else Path(given).resolve()
        if self._given == Path.cwd():
            message = "Using the current folder as work_dir is deprecated: code may change all that is in it."
            warnings.warn(message, DeprecationWarning, stacklevel=3)
        self._own: Path | None = None
        self._removal: weakref.finalize[..., WorkFolder] | None = None

    @property
    def given(self) -> str | None:
        """The path of the given folder."""
        return None if self._given is None else str(self._given)

    def open(self) -> Path:
        """The folder, made where it is missing: code may have deleted it."""
        folder = self._given or self._own
        if folder is None or (folder == self._own and not folder.is_dir()):
            self.remove()
            self._own = folder = self._temporary()
        (folder / HOME).mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def remove(self) -> None:
        """Remove a temporary folder and all that is in it."""
        self._own, removal, self._removal = None, self._removal, None
        if removal is not None:
            removal()

    def _temporary(self) -> Path:
        while True:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
            held = _hold(folder)
            if held is not None:
                break
        self._removal = weakref.finalize(self, _remove_held, folder, held, os.getpid())
        return folder


def _hold(folder: Path) -> int | None:
    """Hold a new temporary folder: nobody takes it for one that was left while the descriptor is open.

    None: another process was faster, between making it and holding it.
    """
    try:
        place = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    # Where a file system has no locks, nobody can lock it to remove it either
    with contextlib.suppress(OSError):
        fcntl.flock(place, fcntl.LOCK_SH)
    if folder.is_dir():
        return place
    os.close(place)
    return None


def _remove_held(folder: Path, held: int, owner: int) -> None:
    if os.getpid() != owner:  # forked off from the owner, whose folder it is
        return
    try:
        remove_folder(folder)
    finally:
        os.close(held)


@functools.cache
def remove_left() -> None:
    """Remove the temporary folders of processes that were killed; once in a process."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(PREFIX)]
    for folder in found:
        # What can't be removed, or is no folder of ours, is no matter of who looks
        with contextlib.suppress(OSError):
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    place = os.open(folder, _FOLDER)
    try:
        if os.fstat(place).st_uid == os.geteuid():
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(folder)
    finally:
        os.close(place)


MARK = "# filename:"
LONGEST_NAME = 200
OUTSIDE = "the file does not lie inside the work folder"


def named_file(code: str, folder: Path) -> PurePosixPath | None:
    """The file that code names in its first line (`# filename: name.py`), relative to the folder; None without one.

    Raises:
        CodeError: It leads out of the folder, or can't be a name.
    """
    first = code.split("\n", 1)[0]
    if not first.startswith(MARK):
        return None
    name = PurePosixPath(first.removeprefix(MARK).strip())
    if name.is_absolute():
        try:
            name = name.relative_to(folder)
        except ValueError:
            raise CodeError.saying(OUTSIDE) from None
    if not name.parts or any(not _is_plain(part) for part in name.parts):
        raise CodeError.saying(OUTSIDE)
    return name


def write_code(folder: Path, code: str, name: PurePosixPath | None, suffix: str) -> PurePosixPath:
    """Write code to a new file; returns its name in the folder.

    Args:
        folder: The work folder.
        code: The code. What can't be encoded (half of a surrogate pair) becomes a question mark.
        name: The file, relative to the folder. What has this name is replaced, never written through: it may be a link.
            None: a name made of the code.
        suffix: The end of a name that is made.

    Raises:
        CodeError: A folder on the way to the file is a link, or the name is a folder's.
        OSError: It can't be written.
    """
    data = code.encode("utf-8", "replace")
    if name is None:
        return _write_new(folder, data, suffix)
    with _folder_of(folder, name) as place:
        try:
            os.unlink(name.name, dir_fd=place)
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):
            raise CodeError.saying(OUTSIDE) from None
        _create(name.name, place, data)
    return name


def delete(folder: Path, name: PurePosixPath) -> None:
    """Delete a file that `write_code` wrote; that it is gone already, or out of reach, is no matter."""
    with contextlib.suppress(OSError, CodeError), _folder_of(folder, name) as place:
        os.unlink(name.name, dir_fd=place)


def _is_plain(part: str) -> bool:
    return (
        part not in ("", ".", "..")
        and part.isprintable()
        and len(part.encode("utf-8", "replace")) <= LONGEST_NAME
    )


@contextlib.contextmanager
def _folder_of(folder: Path, name: PurePosixPath) -> Iterator[int]:
    """The folder in which a file lies, opened step by step without following links; made where it is missing."""
    place = os.open(folder, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in name.parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=place)
            try:
                inner = os.open(part, _FOLDER, dir_fd=place)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise CodeError.saying(OUTSIDE) from None
                raise
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _write_new(folder: Path, data: bytes, suffix: str) -> PurePosixPath:
    """The same code gets the same name, so that a traceback reads the same; runs at one time get one each."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    with _folder_of(folder, PurePosixPath("x")) as place:
        number = 1
        while True:
            name = f"tmp_code_{digest}.{suffix}" if number == 1 else f"tmp_code_{digest}_{number}.{suffix}"
            try:
                _create(name, place, data)
            except FileExistsError:
                number += 1
                continue
            return PurePosixPath(name)


def _create(name: str, place: int, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=place), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
