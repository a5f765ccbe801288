"""Calls of the kernel that Python has no function for. On another system than Linux all of them fail."""

from __future__ import annotations

import ctypes
import os
import sys

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
