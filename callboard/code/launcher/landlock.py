"""Landlock: a process gives up its rights to files outside some folders, for itself and its children, for good.

With them goes the right to look into, or signal, any process that has not given up the same.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from .kernel import syscall

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


def version() -> int:
    """The version of the kernel's interface.

    Raises:
        OSError: There is none, or it is switched off.
    """
    return syscall(CREATE_RULESET, None, 0, ASK_VERSION)


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Give up all rights to files but these. `no_new_privs` must be set.

    Args:
        readable: Files and folders to read and execute; those that are missing are passed over.
        writable: Folders in which anything may be done, but for making devices.
    """
    known = version()
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
