"""Languages that code may be written in, and what runs them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Language", "find_language"]


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
