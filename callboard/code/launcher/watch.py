"""What no limit of a single process can bound: memory, processes and disk of all of them together."""

from __future__ import annotations

import os
import stat
import time

from .plan import Plan
from .processes import descendants

#: Seconds between two looks, and how many times the length of a look there is at least between two.
PAUSE, TIMES = 0.05, 20


class Watch:
    """Looks after the limits of a run from time to time.

    Args:
        plan: The run. What its folder holds already is not counted.
    """

    def __init__(self, plan: Plan) -> None:
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
