"""Namespaces: no network, no other processes, and a file system that can be read only, but for the work folder."""

from __future__ import annotations

import ctypes
import os

from .kernel import mount, syscall, unshare

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


def enter(*, network: bool) -> None:
    """Leave the namespaces of the system for new ones; the next child is the first process of its own.

    Args:
        network: Stay in the network of the system.
    """
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC
    unshare(flags if network else flags | CLONE_NEWNET)
    _tell("uid_map", f"{user or PLAIN_USER} {user} 1")
    _tell("setgroups", "deny")
    _tell("gid_map", f"{group or PLAIN_USER} {group} 1")


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


def _tell(name: str, text: str) -> None:
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
