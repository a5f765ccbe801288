"""The library of Lua functions: its files and digest, the marks of a commit, and libraries of other versions.

A library is compiled once; a script would define all its functions anew in every call, which costs more than most calls
themselves. Its name ends with a digest of all that its text is made of, so that processes of different versions never
replace each other's. The text is made for a server that lacks the library, which few processes meet: it takes a seventh of
what a worker does until its first message.

A commit's mode is a text of marks, in the order in which they stand here; its arguments follow in the same order.
`client/lane.py` writes it. `lua/turn/` reads it by the same names, for which the letters are put in when the library's
text is made, so that there is no second list.

Every version has a library of its own name, so that processes of two versions work side by side, and none can tell if it is
the last. A process that may load functions loads its own again where it is missing. A user who is confined to a namespace
may not: a library runs with the rights of each user who calls it, and who may load one can replace those of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from callboard.broker.envelope import MOST_HEAD, MOST_SENDER
from callboard.broker.errors import CommandError, is_refused_right
from callboard.broker.ids import MOST_NAME

from .arguments import argument_constants, record_constants

SHARED = (
    "call",
    "lists",
    "changing",
    "clock",
    "entries",
    "chores",
    "topics",
    "unread",
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
    "retype": ("start", "streams", "books", "retype"),
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
    "window",
    "restore",
    "control",
    "nest",
    "answer",
    "idle",
    "census",
    "measure",
    "tally",
    "pulse",
    "schedule",
    "repair",
    "retype",
)

LIMITS = {"MOST_NAME": str(MOST_NAME), "MOST_SENDER": str(MOST_SENDER), "MOST_HEAD": str(MOST_HEAD)}
"""Largest names and heads that publishers may send, in bytes; entries may be added by others."""


MAKERS: Final = ("assembly.py",)
"""Modules that make the text of the files: another version of one makes another text of the same files."""

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
        self._given = {**LIMITS, **record_constants(), **{mark.name: f"'{mark}'" for mark in Mark}}
        self._arguments = {operation: argument_constants(operation) for operation in OPERATIONS}
        self.name: Final = f"callboard_{self._digest()[:12]}"

    def _digest(self) -> str:
        digest = hashlib.sha256(repr((list(self._files), self._given, self._arguments)).encode())
        for source in (*self._files.values(), *((_HERE / name).read_bytes() for name in MAKERS)):
            digest.update(len(source).to_bytes(8, "big"))
            digest.update(source)
        return digest.hexdigest()

    @cached_property
    def text(self) -> str:
        """The whole text for FUNCTION LOAD: what is shared, then a block for each operation."""
        from .assembly import assemble

        texts = {name: file.decode() for name, file in self._files.items()}
        operations = [
            ([texts[part] for part in _parts(operation)], self._arguments[operation])
            for operation in OPERATIONS
        ]
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


def loading() -> tuple[str, str, str]:
    """The command that loads the library of this version."""
    return ("FUNCTION", "LOAD", library().text)


def refused_loading(error: CommandError) -> CommandError | None:
    """The error to raise for one of `loading`; None: the library is there all the same."""
    if is_there_already(error):
        return None
    return CommandError(error.reason, is_undeployed=True) if is_refused_right(str(error)) else error


class Mark(StrEnum):
    """One letter of a commit's mode.

    Attributes:
        meaning: what it says.
        arguments: what it brings, one word or group of words for each value.
    """

    meaning: str
    arguments: str

    def __new__(cls, letter: str, meaning: str, arguments: str = "") -> Mark:
        mark = str.__new__(cls, letter)
        mark._value_ = letter
        mark.meaning = meaning
        mark.arguments = arguments
        return mark

    # How it ended: the first mark is one of these.
    COMMIT = "C", "it is handled"
    DEAD_LETTER = "D", "it failed for good", "reason, error, traceback, attempts, first attempt (ms or '')"
    RETRY = "R", "it comes back", "due (ms from now), attempts so far, first attempt (ms or ''), reason"
    RELEASE = (
        "L",
        "it goes back without an attempt; with MORE it is parked again behind its agent, which stays",
    )
    WAIT = (
        "W",
        "it waits for a worker that knows its message in this version, or is a dead letter if no process ever knew it",
        "message, version, then as for a dead letter",
    )
    SUSPEND = (
        "U",
        "its handler waits for an answer: it is parked again, and no worker gets it before one comes",
        "message id, attempts so far, first attempt (ms or ''), when to wake it (server ms) or '', count, ids of questions",
    )
    # What goes with it.
    MORE = "M", "the worker holds more entries of this agent"
    TRIED = "T", "the entry was tried before: its attempts are forgotten"
    UNLESS_CANCELLED = (
        "X",
        "if the request was cancelled, state, reply and messages are dropped",
        "message id",
    )
    FORGET = (
        "K",
        "what ctx.once recorded, and what the handler sent before its commit, is forgotten",
        "message id",
    )
    LOGS = (
        "A",
        "what of the agent's state is appended to; the state that it belongs to has the version before this one",
        "version, count, then for each: field, items that are dropped, count, items",
    )
    STATE = "S", "the agent's state", "version, data"
    CLAIMS = (
        "B",
        "large bodies",
        "blob that the message came with or '', count, then for each that leaves: blob, bytes",
    )
    REPLY = "P", "the reply", "process, call id or '', id, type, from, head, body"
    OUTGOING = (
        "O",
        "messages that leave with it",
        "count, then for each: suffix, due, id, type, key, from, head, body",
    )
    IDENTIFIED = (
        "I",
        "the same, of which some have an idempotency id",
        "window (ms), count, then for each: idempotency id or '', and as before",
    )
    EVENTS = (
        "E",
        "events of runs",
        (
            "count, then for each write: run, most entries, how long it is kept (ms), tag or '', beginning of the tags of "
            "drafts that are settled or '', number from which on these may stand, count, then for each event: type, "
            "version, body"
        ),
    )


ENDINGS = (Mark.COMMIT, Mark.DEAD_LETTER, Mark.RETRY, Mark.RELEASE, Mark.WAIT, Mark.SUSPEND)
_BY_LETTER = {str(mark): mark for mark in Mark}


def marks_of(mode: str) -> list[Mark]:
    """The marks of a mode, in their order."""
    return [_BY_LETTER[letter] for letter in mode]


LIST = ("FUNCTION", "LIST", "LIBRARYNAME", "callboard_*")


def code_on(answer: Sequence[Any]) -> str | None:
    """The text of this version's library in the answer to `looking`; None where the server does not have it."""
    return next((_fields(flat)[b"library_code"].decode(errors="replace") for flat in answer), None)


def looking() -> tuple[str, ...]:
    """The command for the text that the server has under the name of this version's library."""
    return ("FUNCTION", "LIST", "LIBRARYNAME", library().name, "WITHCODE")


def others(answer: Sequence[Any]) -> tuple[str, ...]:
    """The names in the answer to `LIST` that are not this version's."""
    named = [_fields(flat)[b"library_name"].decode() for flat in answer]
    return tuple(sorted(name for name in named if name != library().name))


def _fields(flat: Sequence[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def deletion(name: str) -> tuple[str, str, str]:
    """The command that deletes one."""
    return ("FUNCTION", "DELETE", name)
