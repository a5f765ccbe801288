"""Measures of the kernel that Python has no function for: namespaces, Landlock, and a filter of system calls.

With its rights to files (Landlock) a process gives up the right to look into, or signal, any process that has not given up
the same.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Iterable, Sequence

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 1, 36, 38, 24
#: More than any kernel has capabilities.
CAPABILITIES = 64


def syscall(number: int, *arguments: object) -> int:
    """A system call by its number.

    Raises:
        OSError: The kernel refused it.
    """
    if sys.platform != "linux":
        raise OSError("this system call is Linux's")
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *passed), f"system call {number}")


def prctl(option: int, *arguments: object) -> None:
    """Change an attribute of this process."""
    passed = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    passed += [ctypes.c_ulong(0)] * (4 - len(passed))
    _checked(_libc.prctl(option, *passed), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount something."""
    texts = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _checked(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def adopt_orphans() -> None:
    """Become the parent of every process among our descendants that loses its own, so that none of them gets away.

    Raises:
        OSError: The kernel can't do that.
    """
    if sys.platform != "linux":
        return
    try:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        raise OSError(
            "this kernel lacks PR_SET_CHILD_SUBREAPER, as that of gVisor does, so that programs which the code starts could "
            "outlive the run; let the worker that runs code run on Linux itself (in Docker: --runtime=runc)"
        ) from error


def drop_capabilities() -> None:
    """Make sure that no program started from here has rights of root's; one that may not drop them has none."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            continue


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result


# Namespaces

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 0x1
#: The user of the code in its namespace where it is root outside: root would have rights over the namespace.
PLAIN_USER = 1000
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of the code's own, for the locks of multiprocessing


def enter_namespaces(*, network: bool) -> None:
    """Leave the namespaces of the system for new ones; the next child is the first process of its own.

    Args:
        network: Stay in the network of the system.
    """
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC
    unshare(flags if network else flags | CLONE_NEWNET)
    _write_map("uid_map", f"{user or PLAIN_USER} {user} 1")
    _write_map("setgroups", "deny")
    _write_map("gid_map", f"{group or PLAIN_USER} {group} 1")


def arrange_mounts(folder: str) -> None:
    """Make everything but the work folder read-only. For the first process of the namespaces."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount(folder, folder, None, MS_BIND | MS_REC)
    if os.path.isdir(SHARED_MEMORY):
        mount("tmpfs", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64m,mode=1777")
    _set_read_only("/", yes=True)
    for place in (folder, SHARED_MEMORY):
        if os.path.isdir(place):
            _set_read_only(place, yes=False)


def mount_proc() -> None:
    """Show the processes of the new namespace in /proc, and only these."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _write_map(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(text)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _set_read_only(path: str, *, yes: bool) -> None:
    flag = MOUNT_ATTR_RDONLY
    attributes = _MountAttributes(attr_set=flag) if yes else _MountAttributes(attr_clr=flag)
    size = ctypes.sizeof(attributes)
    syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, ctypes.byref(attributes), size)


# Landlock: a process gives up its rights to files outside some folders

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION, PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
#: What can be allowed on a file; the rest are rights on a folder.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
#: Rights over files by the version of the interface, rising.
KNOWN = {1: REFER - 1, 2: TRUNCATE - 1, 3: IOCTL_DEV - 1, 5: (IOCTL_DEV << 1) - 1}
#: The version from which it keeps abstract sockets and signals inside.
SCOPES, ALL_SCOPES = 6, 0b11

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """The version of the kernel's interface.

    Raises:
        OSError: There is none, or it is switched off.
    """
    return syscall(CREATE_RULESET, None, 0, ASK_VERSION)


def restrict_files(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Give up all rights to files but these. `no_new_privs` must be set.

    Args:
        readable: Files and folders to read and execute; those that are missing are passed over.
        writable: Folders in which anything may be done, but for making devices.
    """
    known = landlock_version()
    rights = KNOWN[max(number for number in KNOWN if number <= known)]
    asked = _Ruleset(handled_access_fs=rights, scoped=ALL_SCOPES if known >= SCOPES else 0)
    size = ctypes.sizeof(asked) if known >= SCOPES else ctypes.sizeof(ctypes.c_uint64)
    ruleset = syscall(CREATE_RULESET, ctypes.byref(asked), size, 0)
    for path in readable:
        _allow(ruleset, path, READ & rights)
    for path in writable:
        _allow(ruleset, path, rights & ~(MAKE_CHAR | MAKE_BLOCK))
    for path in DEVICES:
        _allow(ruleset, path, (READ_FILE | WRITE_FILE | TRUNCATE) & rights)
    syscall(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        rights &= OF_FILES
    rule = _PathBeneath(allowed_access=rights, parent_fd=parent)
    syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    os.close(parent)


# A filter of system calls

PR_SET_SECCOMP, MODE_FILTER = 22, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
#: Loading a word, comparing it, ending; of the language that the filter is written in.
LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE = 0, 4  # where a filter finds them
#: From here on, the numbers of x86_64 are those of its second set of calls, which nothing uses.
X32 = 0x40000000
#: Calls that are refused, by their numbers on x86_64 and on other machines: memory that belongs to no process, and so is
#: counted nowhere (segments and queues of SysV, POSIX queues, files in memory, mounts of tmpfs in namespaces of its own);
#: keyrings, which hold the secrets of whoever started us; and `io_uring`, whose calls no filter sees.
REFUSED_CALLS = {
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "request_key": (249, 218),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "mount": (165, 40),
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
}
#: The same of what `network=True` allows.
SOCKET = (41, 198)
#: By machine: how the kernel calls it, and which of the numbers are its own.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def refuse_calls(*, network: bool) -> None:
    """Refuse system calls, for this process and its children, for good. `no_new_privs` must be set.

    A socket of any family is refused: those of this machine lead out of the confinement too (Docker's, Redis's).
    `socketpair` is not: its ends lead to each other. The others are `REFUSED_CALLS`.

    Args:
        network: Sockets are allowed.

    Raises:
        OSError: The kernel has no filters, or the machine is one whose numbers are not known here.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"system calls of {machine} are not known")
    architecture, own = MACHINES[machine]
    calls = [*REFUSED_CALLS.values()] if network else [*REFUSED_CALLS.values(), SOCKET]
    steps = _steps(architecture, [numbers[own] for numbers in calls])
    code = (_Instruction * len(steps))(*steps)
    prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(_Program(len(steps), code)))


def _steps(architecture: int, numbers: Sequence[int]) -> list[_Instruction]:
    refused = len(numbers) + 1  # how far the last step is from the first comparison of a number
    return [
        _Instruction(LOAD, 0, 0, ARCHITECTURE),
        _Instruction(IF_EQUAL, 0, refused + 2, architecture),
        _Instruction(LOAD, 0, 0, NUMBER),
        _Instruction(IF_AT_LEAST, refused, 0, X32),
        *(_Instruction(IF_EQUAL, refused - 1 - at, 0, number) for at, number in enumerate(numbers)),
        _Instruction(RETURN, 0, 0, ALLOW),
        _Instruction(RETURN, 0, 0, REFUSE),
    ]
