"""What a team's strategy asks people on the bus, while it chooses.

The manager does not wait for the answer: orders have to reach it meanwhile. Another agent of its type asks, with a key of
its own, and tells it what came of the question; then the strategy chooses anew, and has the answer.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from callboard.asking import OnInput, Question, asking_by, checked
from callboard.broker.inquiry import InputStatus
from callboard.context import ContextScope
from callboard.errors import InputExpiredError, InputWithdrawnError
from callboard.messaging import Messaging
from callboard.questions import CheckedQuestion
from callboard.runtime.control import Control
from callboard.runtime.runs import in_run_path

from .addresses import asking_address, consulting_id
from .consults import Consult, Consulted
from .manager_state import CurrentRun
from .sizes import tell_all_of


class UnansweredError(BaseException):
    """The strategy asks what nobody has answered yet: its choice is off, and made anew when there is an answer.

    As `Suspended` does, it passes what catches exceptions.

    Args:
        name: Name of what it asks.
        question: What it asks, checked.
    """

    def __init__(self, name: str, question: CheckedQuestion[Any]) -> None:
        super().__init__(question.text)
        self.name = name
        self.question = question


class Consulting:
    """Asks people for a strategy.

    Args:
        manager: Tells the agent that asks.
        control: Takes a question back.
        source: Name of the manager, which readers see as who asks.
    """

    def __init__(self, manager: Messaging, control: Control, source: str) -> None:
        self._manager = manager
        self._control = control
        self._source = source

    def answers(self, run: CurrentRun) -> ContextScope[OnInput | None]:
        """Where the strategy chooses: what it asks is answered, or UnansweredError."""
        return asking_by(partial(_answer, run))

    async def ask(self, run: CurrentRun, unanswered: UnansweredError) -> None:
        """Has somebody ask; `Consulted` says what came of it."""
        asked = unanswered.question
        run.consulted += 1
        run.asking = consulting_id(self._manager.id, run.run_id, run.consulted)
        consult = Consult(
            id=run.asking,
            run=run.stream,
            inside=run.inside,
            source=self._source,
            name=unanswered.name,
            text=asked.text,
            answer_schema=json.loads(asked.schema),
            choices=asked.choices,
            to=asked.to,
            timeout=asked.timeout,
            default=asked.default,
            details=json.loads(asked.details or "{}"),
        )
        asks = asking_address(self._manager.id)
        with in_run_path(run.path):
            await tell_all_of(self._manager, consult, asks, message_id=run.asking, cancellable=True)

    async def withdraw(self, run: CurrentRun) -> None:
        """The run has ended: nobody is asked any more."""
        if run.asking:
            await self._control.cancel(run.asking)
            run.asking = ""


def note_answer(run: CurrentRun | None, told: Consulted) -> bool:
    """Keeps what came of a question. Returns whether the run waits for it."""
    # guard: only the answer that a run waits for lets it go on
    if run is None or not told.id or run.asking != told.id:
        return False
    run.answers[told.name] = told
    run.asking = ""
    return True


async def _answer(run: CurrentRun, question: Question) -> Any:
    told = run.answers.get(question.name)
    if told is None:
        raise UnansweredError(question.name, checked(question))
    if told.status is InputStatus.ANSWERED:
        return checked(question).read(told.input_id, told.answer)
    raise (InputExpiredError if told.status is InputStatus.EXPIRED else InputWithdrawnError)(told.input_id)
