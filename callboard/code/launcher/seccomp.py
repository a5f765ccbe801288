"""A filter of system calls: the kernel refuses those that make sockets, and memory that no limit counts."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence

from .kernel import prctl

PR_SET_SECCOMP, MODE_FILTER = 22, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
#: Loading a word, comparing it, ending; of the language that the filter is written in.
LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE = 0, 4  # where a filter finds them
#: From here on, the numbers of x86_64 are those of its second set of calls, which nothing uses.
X32 = 0x40000000
IO_URING_SETUP = 425
#: By machine: how the kernel calls it, and the numbers of `socket` and `memfd_create`.
MACHINES = {
    "x86_64": (0xC000003E, 41, 319),
    "aarch64": (0xC00000B7, 198, 279),
    "riscv64": (0xC00000F3, 198, 279),
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jt", ctypes.c_uint8),
        ("jf", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def refuse(*, network: bool) -> None:
    """Refuse system calls, for this process and its children, for good. `no_new_privs` must be set.

    A socket of any family is refused: those of this machine lead out of the confinement too (Docker's, Redis's).
    `socketpair` is not: its ends lead to each other.

    Args:
        network: Sockets are allowed.

    Raises:
        OSError: The kernel has no filters, or the machine is one whose numbers are not known here.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"system calls of {machine} are not known")
    architecture, socket, memfd_create = MACHINES[machine]
    numbers = [IO_URING_SETUP, memfd_create] if network else [IO_URING_SETUP, memfd_create, socket]
    steps = _steps(architecture, numbers)
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
