"""The processes there are, read from /proc; none where it is not Linux's."""

from __future__ import annotations

import os
from typing import NamedTuple

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
