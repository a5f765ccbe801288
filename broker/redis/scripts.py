"""The Lua functions: rooms that all of them share, and the parts of each atomic operation, loaded as one library.

A library is compiled once; a script would define all its functions anew in every call, which costs more than most calls
themselves. Its name ends with a digest of its text, so that processes of different versions never replace each other's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from callboard.broker.envelope import MOST_HEAD, MOST_SENDER
from callboard.broker.ids import MOST_NAME

from .constants import take_constants, with_values
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
    "groups",
    "layout",
    "forgetting",
    "logs",
    "batches",
    "runs",
    "functions",
)
"""The files of `lua/shared/`, each of which may use those before it."""

PARTS = {
    "turn": (
        "arguments",
        "modes",
        "exceptions",
        "take",
        "effects",
        "commit",
        "read",
        "admit",
        "new",
        "pull",
        "turn",
    ),
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
    shared, values = _with_constants([_text(f"shared/{name}") for name in SHARED], LIMITS)
    operations = "\n".join(f"do\n{_block(name, values)}\nend" for name in OPERATIONS)
    body = _in_rooms(shared, operations)
    name = f"callboard_{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    return Library(name, f"#!lua name={name}\nlocal LIBRARY = '{name}'\n{body}\n")


def _block(operation: str, values: Mapping[str, str]) -> str:
    files = (
        [_text(f"{operation}/{part}") for part in PARTS[operation]]
        if operation in PARTS
        else [_text(operation)]
    )
    marks = {mark.name: f"'{mark}'" for mark in Mark} if operation == "turn" else {}
    return _in_rooms(_with_constants(files, {**values, **marks})[0])


def _with_constants(files: Sequence[str], values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The files with the values of constants put in, their own and those of the files before; and all of these."""
    known, texts = dict(values), []
    for file in files:
        text, own = take_constants(file)
        known.update(own)
        texts.append(with_values(text, known))
    return texts, known


def _in_rooms(texts: Sequence[str], rest: str = "") -> str:
    """Files one after the other, each in a block of its own.

    Lua allows 200 locals at once. What only its own file uses is a local of the block; what a later one uses is made
    known before it.
    """
    later = set(_WORD.findall(rest))
    rooms = [rest]
    for text in reversed(texts):  # every process does this when it starts: each word is looked at once
        rooms.append(_in_room(text, later))
        later.update(_WORD.findall(text))
    return "\n".join(reversed(rooms))


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
