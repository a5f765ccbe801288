"""The language in which a commit tells the Lua functions how a delivery ended: marks, and the arguments that they bring.

A commit's mode is a text of marks, in the order in which they stand here; its arguments follow in the same order.
`client/commits.py` writes it. `lua/turn/` reads it by the same names, for which the letters are put in when the library's
text is made, so that there is no second list.
"""

from __future__ import annotations

from enum import StrEnum


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


def marks_of(mode: str) -> list[Mark]:
    """The marks of a mode, in their order."""
    return [_BY_LETTER[letter] for letter in mode]


_BY_LETTER = {str(mark): mark for mark in Mark}
