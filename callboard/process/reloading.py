"""Restarts an app's processes when its files change, for development."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

LOOK_EVERY = 0.5  # seconds between two looks at the files
TRIAL_TIMEOUT = 60.0  # seconds that importing the app may take
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
TRIAL = """
import sys
from callboard.process.loading import LoadingError, load_app
try:
    print("\\n" + " ".join(one.type for one in load_app(sys.argv[1]).declarations))
except LoadingError as error:
    sys.exit(" ".join(str(error).split()))
"""

Stamp = tuple[int, int]  # ns of the last change, bytes


class Files:
    """The Python files below a folder; hidden folders and those of other people's packages are left out.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._stamps()

    def changed(self) -> list[str]:
        """The files that were changed, made or deleted since the last call, below the folder."""
        before, self._known = self._known, self._stamps()
        return sorted(
            name for name in before.keys() | self._known.keys() if before.get(name) != self._known.get(name)
        )

    def _stamps(self) -> Mapping[str, Stamp]:
        stamps: dict[str, Stamp] = {}
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if self._is_ours(Path(folder, name))]
            for name in names:
                if name.endswith(".py"):
                    path = Path(folder, name)
                    try:
                        status = path.stat()
                    except OSError:  # it was deleted a moment ago
                        continue
                    stamps[str(path.relative_to(self._folder))] = status.st_mtime_ns, status.st_size
        return stamps

    @staticmethod
    def _is_ours(folder: Path) -> bool:
        is_environment = (folder / "pyvenv.cfg").exists()
        return not (folder.name.startswith(".") or folder.name in LEFT_OUT or is_environment)


class Reloader:
    """Looks at the files, and has the processes started anew when a change can be imported.

    Args:
        target: `module:app`.
        types: The agent types that run.
        folder: What is watched, and where the app is imported from.
        notice: Gets what a person should know.
        renew: Starts the processes anew.
    """

    def __init__(
        self,
        target: str,
        types: Iterable[str],
        *,
        folder: Path,
        notice: Callable[[str], None],
        renew: Callable[[], None],
    ) -> None:
        self._target = target
        self._types = set(types)
        self._folder = folder
        self._files = Files(folder)
        self._notice = notice
        self._renew = renew

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        self._notice(f"watching the Python files in {self._folder}")
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if changed := self._files.changed():
                await self._reload(changed)

    async def _reload(self, changed: list[str]) -> None:
        shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        succeeded, text = await self._try_to_import()
        if not succeeded:
            self._notice(f"{shown} changed, and what ran goes on: {text}")
            return
        declared = set(text.split())
        if gone := self._types - declared:
            names = ", ".join(sorted(gone))
            self._notice(
                f"{shown} changed, and what ran goes on: the app has no agent type {names} any more; "
                "start `callboard up` anew"
            )
            return
        if missing := declared - self._types:
            names = ", ".join(sorted(missing))
            self._notice(f"agent types that do not run here: {names}; start `callboard up` anew for new ones")
        self._notice(f"{shown} changed: starting the processes anew")
        self._renew()

    async def _try_to_import(self) -> tuple[bool, str]:
        """In a process of its own, since a module is not imported twice: whether it went well; what was printed last."""
        # -B: a file that is changed twice within a second could be taken for the one that was compiled first.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-B", "-c", TRIAL, self._target),
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(TRIAL_TIMEOUT):
                output, _ = await process.communicate()
        except TimeoutError:
            return False, f"importing {self._target} takes longer than {TRIAL_TIMEOUT:g} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        last = output.decode(errors="replace").strip().rpartition("\n")[2]
        if process.returncode:
            return False, last or f"importing {self._target} ended with exit code {process.returncode}"
        return True, last
