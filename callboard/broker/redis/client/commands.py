"""Commands as bytes, and what the error of a server means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import hiredis

from callboard.broker.errors import (
    CommandError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
    WritesRefusedError,
    is_refused_right,
)

from .endpoint import Argument

DEMOTED = ("READONLY", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED")
"""How the answer of a server begins that is the primary no more, or is cut off from its replicas and about to lose its
place to one of them. It goes on answering: only a new connection leads to where the primary is now."""

UNAVAILABLE = ("LOADING", "CLUSTERDOWN", "TRYAGAIN", *DEMOTED)


class Beginning(NamedTuple):
    """How many commands begin: packed once, for to pack a word costs as much as to call a function.

    Attributes:
        words: the command and its first arguments.
        packed: the same as bytes, without their number.
    """

    words: tuple[Argument, ...]
    packed: bytes

    @classmethod
    def of(cls, *words: Argument) -> Beginning:
        """The beginning with these words."""
        return cls(words, _without_number(pack(words)))


def translate(error: Exception, url: str) -> Exception:
    """The one place where the text of a server error is read."""
    text = str(error)
    word = text.split(" ", 1)[0]
    if word == "OOM" or "OOM command not allowed" in text:
        return OverloadedError("the server's memory is full, and it refused a call, which did nothing")
    if word == "MISCONF":
        return WritesRefusedError(url, text.split(". ", 1)[0])
    if word in UNAVAILABLE:
        return ServerUnavailableError(url, text)
    if is_refused_right(text):
        return CommandError(
            f"{text}; `callboard acl ROLE` prints what a worker, a publisher and an operator may do"
        )
    return CommandError(text)


def says_loading(text: str) -> bool:
    """Whether this is an answer of a server that was started and still reads its file."""
    return text.split(" ", 1)[0] == "LOADING"


def says_demoted(text: str) -> bool:
    """Whether this is an answer of a server that is the primary no more."""
    return text.split(" ", 1)[0] in DEMOTED


def pack(arguments: Sequence[Argument]) -> bytes:
    """A command as bytes.

    Raises:
        EncodeError: an argument is no text, number or bytes, or has half of a surrogate pair.
    """
    try:
        packed: bytes = hiredis.pack_command(tuple(arguments))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError) as error:
        raise EncodeError("a command", str(error)) from error
    return packed


def pack_behind(beginning: Beginning, arguments: Sequence[Argument]) -> bytes:
    """A command that begins so, as bytes; raises as `pack` does."""
    if not arguments:
        return b"*%d\r\n%b" % (len(beginning.words), beginning.packed)
    rest = _without_number(pack(arguments))
    return b"*%d\r\n%b%b" % (len(beginning.words) + len(arguments), beginning.packed, rest)


def _without_number(packed: bytes) -> bytes:
    return packed[packed.index(b"\n") + 1 :]
