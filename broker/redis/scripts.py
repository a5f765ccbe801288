"""The Lua functions: one file for each atomic operation, loaded into the server as one library.

A library is compiled once; a script would define all its functions anew in every call, which costs more than most calls
themselves. Its name ends with a digest of its text, so that processes of different versions never replace each other's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

OPERATIONS = (
    "publish",
    "step",
    "beat",
    "declare",
    "unsubscribe",
    "join",
    "leave",
    "resync",
    "replay",
    "record",
    "control",
    "nest",
    "answer",
    "idle",
    "census",
    "measure",
    "repair",
)


@dataclass(frozen=True, slots=True)
class Library:
    """The whole text for FUNCTION LOAD, and the name that the functions begin with."""

    name: str
    text: str

    def function(self, operation: str) -> str:
        """The name to give to FCALL."""
        return f"{self.name}_{operation}"


@cache
def library() -> Library:
    """Reads `lua/common.lua` and a file for each operation. Comments are left out of what is sent."""
    folder = resources.files("broker.redis") / "lua"
    parts = [_stripped((folder / "common.lua").read_text("utf-8"))]
    parts += [f"do\n{_stripped((folder / f'{name}.lua').read_text('utf-8'))}\nend" for name in OPERATIONS]
    body = "\n".join(parts)
    name = f"callboard_{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    return Library(name, f"#!lua name={name}\nlocal LIBRARY = '{name}'\n{body}\n")


def _stripped(text: str) -> str:
    return "\n".join(
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")
    )


def is_missing(error: Exception) -> bool:
    """Whether the server says that it does not have the library."""
    return "Function not found" in str(error)


def is_there_already(error: Exception) -> bool:
    """Whether somebody else loaded the library in the meantime."""
    return "already exists" in str(error)
