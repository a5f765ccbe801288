"""The Lua functions: rooms that all of them share, and the parts of each atomic operation, loaded as one library.

A library is compiled once; a script would define all its functions anew in every call, which costs more than most calls
themselves. Its name ends with a digest of all that its text is made of, so that processes of different versions never
replace each other's. The text is made for a server that lacks the library, which few processes meet: it takes a seventh of
what a worker does until its first message.
"""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from callboard.broker.envelope import MOST_HEAD, MOST_SENDER
from callboard.broker.ids import MOST_NAME

from .marks import Mark

SHARED = (
    "call",
    "lists",
    "clock",
    "entries",
    "chores",
    "topics",
    "claims",
    "schedules",
    "sending",
    "replies",
    "heads",
    "parked",
    "inputs",
    "tries",
    "deadletters",
    "timers",
    "versions",
    "workers",
    "reaping",
    "groups",
    "layout",
    "logs",
    "batches",
    "runs",
    "functions",
)
"""The files of `lua/shared/`, each of which may use those before it."""

PARTS = {
    "publish": ("limits", "alone", "publish"),
    "turn": (
        "arguments",
        "modes",
        "exceptions",
        "take",
        "effects",
        "commit",
        "read",
        "ahead",
        "admit",
        "plain",
        "new",
        "ready",
        "pull",
        "alone",
        "turn",
    ),
    "beat": ("forgetting", "needs", "sweep", "streams", "beat"),
    "repair": ("order", "holders", "settle", "streams", "agents", "entries", "logs", "questions", "repair"),
}
"""Operations that have a folder, with its files: each may use those before it, and the last one registers the function."""

OPERATIONS = (
    "publish",
    "write",
    "turn",
    "beat",
    "declare",
    "unsubscribe",
    "join",
    "leave",
    "resync",
    "replay",
    "record",
    "recall",
    "ask",
    "input",
    "ledger",
    "restore",
    "control",
    "nest",
    "answer",
    "idle",
    "census",
    "measure",
    "tally",
    "schedule",
    "repair",
)

LIMITS = {"MOST_NAME": str(MOST_NAME), "MOST_SENDER": str(MOST_SENDER), "MOST_HEAD": str(MOST_HEAD)}
"""What publishers are refused, in bytes; entries may be added by others."""


MAKERS: Final = ("assembly.py", "constants.py")
"""What makes the text of the files: another version of it makes another text of the same files."""

_HERE: Final = Path(__file__).parent


class Library:
    """The functions' library.

    Attributes:
        name: What the names of its functions begin with.
    """

    def __init__(self) -> None:
        # They are kept: a process whose files were replaced by those of another version loads its own library all the same.
        self._files = {
            name: (_HERE / "lua" / f"{name}.lua").read_bytes()
            for name in (*_shared(), *(name for operation in OPERATIONS for name in _parts(operation)))
        }
        self._given = {**LIMITS, **{mark.name: f"'{mark}'" for mark in Mark}}
        self.name: Final = f"callboard_{self._digest()[:12]}"

    def _digest(self) -> str:
        digest = hashlib.sha256(repr((list(self._files), self._given)).encode())
        for source in (*self._files.values(), *((_HERE / name).read_bytes() for name in MAKERS)):
            digest.update(len(source).to_bytes(8, "big"))
            digest.update(source)
        return digest.hexdigest()

    @cached_property
    def text(self) -> str:
        """The whole text for FUNCTION LOAD: what is shared, then a block for each operation."""
        from .assembly import assemble

        texts = {name: file.decode() for name, file in self._files.items()}
        operations = [[texts[part] for part in _parts(operation)] for operation in OPERATIONS]
        body = assemble([texts[name] for name in _shared()], operations, self._given)
        return f"#!lua name={self.name}\nlocal LIBRARY = '{self.name}'\n{body}\n"

    def function(self, operation: str) -> str:
        """The name to give to FCALL."""
        return f"{self.name}_{operation}"


@cache
def library() -> Library:
    """The library of this version."""
    return Library()


def _shared() -> list[str]:
    return [f"shared/{name}" for name in SHARED]


def _parts(operation: str) -> list[str]:
    """The files of an operation."""
    return [f"{operation}/{part}" for part in PARTS[operation]] if operation in PARTS else [operation]


def is_missing(error: Exception) -> bool:
    """Whether the server says that it does not have the library."""
    return "Function not found" in str(error)


def is_there_already(error: Exception) -> bool:
    """Whether another process loaded the library in the meantime."""
    return "already exists" in str(error)
