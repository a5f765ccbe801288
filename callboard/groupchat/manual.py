"""A person chooses the next speaker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard import asking
from callboard.asking import Question, can_ask
from callboard.context import MessageContext
from callboard.runtime.steps import NumberedStep, running_context

from .agent import Agent, names_of
from .events import (
    SelectSpeakerEvent,
    SelectSpeakerInvalidInputEvent,
    SelectSpeakerTryCountExceededEvent,
)
from .stream import IOStream, ask_person, is_given

ATTEMPTS: Final = 2
QUESTION: Final = "Number of the next speaker (nothing or `q`: the next one in the list): "
NOBODY: Final = ("", "q")
ASKED: Final = "Who speaks next?"
NEXT: Final = "q"
MEANING: Final = "`q`: the next one in the list"
KIND: Final = "speaker"


async def choose_manually(agents: Sequence[Agent]) -> Agent | None:
    """The agent whose number a person enters. On the bus the question waits for its answer without a process.

    Returns:
        None: the person chose nobody, or gave two wrong answers.
    """
    context = running_context()
    if not is_given() and can_ask(context):
        return await _asked(agents, context)
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


async def _asked(agents: Sequence[Agent], context: MessageContext | None) -> Agent | None:
    """The agent whom somebody chooses, from wherever they answer."""
    step, names = NumberedStep.begin("speaker"), names_of(agents)
    question = Question(
        text=f"{ASKED} ({MEANING})",
        name="speaker" if step is None else step.full_name,
        choices=(*names, NEXT),
        details={"kind": KIND},
    )
    chosen = await asking.ask_person(question, context)
    return None if chosen == NEXT else agents[names.index(chosen)]
