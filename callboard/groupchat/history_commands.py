"""The words "clear history" in what a person says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .errors import ClearHistoryError

_PHRASE: Final = "CLEAR HISTORY"
_COMMAND: Final = "CLEAR"
_NUMBER: Final = re.compile(r"(\d+)[^\d\w]?$")


@dataclass(frozen=True)
class ClearHistory:
    """What is to be cleared.

    Attributes:
        agent: Name of the one whose history it is; None: the group's and everybody's.
        keep: How many messages stay, the last ones.
        has_number: Whether the words said so.
        text: What is left of the words.
    """

    agent: str | None
    keep: int
    has_number: bool
    text: str


def asks_to_clear(text: str) -> bool:
    """Whether somebody says "clear history", in upper or lower case. In AG2 "unclear history" is an error."""
    return _PHRASE in text.upper() and _COMMAND in text.upper().split()


def read_clear_history(text: str, names: Sequence[str]) -> ClearHistory | None:
    """Read the command in a text: its last word "clear", the word behind it, and up to two arguments in any order.

    An argument is the name of an agent or a number, and may have a sign such as a dot at its end. What follows is the
    rest of the text. A word that is neither, in front of one that is, was meant as a name: that is an error, where AG2
    clears everything and cuts another word out of the text.

    Args:
        text: What was said.
        names: Of the agents.

    Returns:
        None: it has no word "clear".

    Raises:
        ClearHistoryError: It names nobody of them (a ValueError).
    """
    words = text.split()
    places = [place for place, word in enumerate(words) if word.upper() == _COMMAND]
    if not places:
        return None
    before, arguments, after = words[: places[-1]], words[places[-1] + 2 :][:2], words[places[-1] + 4 :]
    agent: str | None = None
    number: int | None = None
    while arguments:
        if number is None and (found := _number(arguments[0])) is not None:
            number = found
        elif agent is None and (name := _name(arguments[0], names)):
            agent = name
        else:
            break
        arguments.pop(0)
    if len(arguments) == 2 and (_number(arguments[1]) is not None or _name(arguments[1], names)):
        raise ClearHistoryError(arguments[0], ", ".join(names))
    return ClearHistory(agent, number or 0, number is not None, " ".join([*before, *arguments, *after]))


def _number(word: str) -> int | None:
    found = _NUMBER.match(word)
    return None if found is None else int(found[1])


def _name(word: str, names: Sequence[str]) -> str | None:
    return next(
        (name for name in names if word == name or (word[:-1] == name and not word[-1].isalnum())), None
    )
