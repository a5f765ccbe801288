"""The Lua functions: rooms that all of them share, and the parts of each atomic operation, loaded as one library.

A library is compiled once; a script would define all its functions anew in every call, which costs more than most calls
themselves. Its name ends with a digest of its text, so that processes of different versions never replace each other's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from callboard.broker.envelope import MOST_HEAD, MOST_NAME, MOST_SENDER

from .marks import with_letters

SHARED = (
    "call",
    "lists",
    "clock",
    "entries",
    "chores",
    "topics",
    "claims",
    "sending",
    "replies",
    "heads",
    "parked",
    "tries",
    "deadletters",
    "timers",
    "versions",
    "workers",
    "groups",
    "layout",
    "forgetting",
    "logs",
    "functions",
)
"""The files of `lua/shared/`, each of which may use those before it."""

PARTS = {
    "turn": ("arguments", "exceptions", "take", "effects", "commit", "read", "admit", "pull", "turn"),
    "repair": ("order", "holders", "settle", "streams", "agents", "entries", "logs", "repair"),
}
"""Operations that have a folder, with its files: each may use those before it, and the last one registers the function."""

OPERATIONS = (
    "publish",
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
    "ledger",
    "restore",
    "control",
    "nest",
    "answer",
    "idle",
    "census",
    "measure",
    "tally",
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
    """Puts the files together: what is shared, then a block for each operation."""
    operations = "\n".join(f"do\n{_block(name)}\nend" for name in OPERATIONS)
    limits = f"local MOST_NAME, MOST_SENDER, MOST_HEAD = {MOST_NAME}, {MOST_SENDER}, {MOST_HEAD}\n"
    body = limits + _in_rooms([_text(f"shared/{name}") for name in SHARED], operations)
    name = f"callboard_{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    return Library(name, f"#!lua name={name}\nlocal LIBRARY = '{name}'\n{body}\n")


def _block(operation: str) -> str:
    if operation not in PARTS:
        return _text(operation)
    text = _in_rooms([_text(f"{operation}/{part}") for part in PARTS[operation]])
    return with_letters(text) if operation == "turn" else text


def _in_rooms(texts: Sequence[str], rest: str = "") -> str:
    """Files one after the other, each in a block of its own.

    Lua allows 200 locals at once. What only its own file uses is a local of the block; what a later one uses is made
    known before it.
    """
    rooms = []
    for at, text in enumerate(texts):
        later = set(_WORD.findall("\n".join((*texts[at + 1 :], rest))))
        rooms.append(_in_room(text, later))
    return "\n".join((*rooms, rest))


def _in_room(text: str, later: set[str]) -> str:
    shared: list[str] = []

    def export(found: re.Match[str]) -> str:
        is_function, names, assigns = found.groups()
        if later.isdisjoint(words := _WORD.findall(names)):
            return found[0]
        shared.extend(words)
        if is_function:
            return f"function {names}"
        return f"{names} {assigns}" if assigns else ""

    inside = _DEFINITION.sub(export, text)
    return f"local {', '.join(shared)}\ndo\n{inside}\nend" if shared else f"do\n{text}\nend"


_WORD = re.compile(r"[A-Za-z_]\w*")
# A local of a file: a function, or names that get a value now or later.
_DEFINITION = re.compile(r"^local (function )?(\w+(?:, \w+)*)(?: (=)|(?=\()|(?: --.*)?$)", re.MULTILINE)


def _text(name: str) -> str:
    """A file of `lua/` without its comments."""
    text = (resources.files("callboard.broker.redis") / "lua" / f"{name}.lua").read_text("utf-8")
    return "\n".join(
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")
    )


def is_missing(error: Exception) -> bool:
    """Whether the server says that it does not have the library."""
    return "Function not found" in str(error)


def is_there_already(error: Exception) -> bool:
    """Whether another process loaded the library in the meantime."""
    return "already exists" in str(error)
