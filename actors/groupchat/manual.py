"""A person chooses the next speaker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .agent import Agent, names_of
from .events import (
    SelectSpeakerEvent,
    SelectSpeakerInvalidInputEvent,
    SelectSpeakerTryCountExceededEvent,
)
from .stream import IOStream, ask_person

ATTEMPTS: Final = 2
QUESTION: Final = "Number of the next speaker (nothing or `q`: the next one in the list): "
NOBODY: Final = ("", "q")


async def choose_manually(agents: Sequence[Agent]) -> Agent | None:
    """The agent whose number a person enters.

    Returns:
        None: the person chose nobody, or gave two wrong answers.
    """
    stream, names = IOStream.get_default(), names_of(agents)
    stream.send(SelectSpeakerEvent(names))
    for _ in range(ATTEMPTS):
        answer = (await ask_person(QUESTION)).strip()
        if answer in NOBODY:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(agents):
            return agents[int(answer) - 1]
        stream.send(SelectSpeakerInvalidInputEvent(names))
    stream.send(SelectSpeakerTryCountExceededEvent(ATTEMPTS + 1, names))
    return None
