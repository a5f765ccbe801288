"""Commands as bytes, and what the error of a server means."""

from __future__ import annotations

from collections.abc import Sequence

import hiredis

from callboard.broker.errors import (
    CommandError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
    is_refused_right,
)

from .endpoint import Argument

DEMOTED = ("READONLY", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED")
"""How the answer of a server begins that is the primary no more, or is cut off from its replicas and about to lose its
place to one of them. It goes on answering: only a new connection leads to where the primary is now."""

UNAVAILABLE = ("LOADING", "CLUSTERDOWN", "TRYAGAIN", *DEMOTED)


def translate(error: Exception, url: str) -> Exception:
    """The one place where the text of a server error is read."""
    text = str(error)
    word = text.split(" ", 1)[0]
    if word == "OOM" or "OOM command not allowed" in text:
        return OverloadedError("the server's memory is full")
    if word in UNAVAILABLE:
        return ServerUnavailableError(url, text)
    if is_refused_right(text):
        return CommandError(
            f"{text}; `callboard acl ROLE` prints what a worker, a publisher and an operator may do"
        )
    return CommandError(text)


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
