"""The manager of a team, as far as its strategy asks people."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import WithJsonSchema

from callboard.broker.inquiry import InputStatus
from callboard.context import ContextScope, MessageContext
from callboard.errors import InputError, InputExpiredError, InputWithdrawnError
from callboard.handlers import event
from callboard.questions import as_json
from callboard.runtime.asking import noting
from callboard.suspension import UNSET

from .consulting import note_answer
from .consults import Consult, Consulted
from .errors import TeamNotRunError
from .forked import ForkedManager
from .shown_questions import ShownQuestions

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime


class ConsultedManager(ForkedManager):
    """Asks for another agent of its type, and hears what was answered; see consulting.py."""

    @abstractmethod
    async def choose_again(self) -> None:
        """Let the strategy of the run under way choose, from where it asked."""

    @event
    async def on_consult(self, message: Consult, ctx: MessageContext) -> None:
        """Ask a person for the manager of a conversation, and wait without a process."""
        if ctx.sender is None:
            raise TeamNotRunError(self.id.type, "was told to ask by nobody")
        runtime = cast("RedisAgentRuntime", self.runtime)
        shown = ShownQuestions(runtime, message.run, (*message.inside, 0), message.source)
        # What it is read as only the manager knows.
        answer_type: Any = Annotated[Any, WithJsonSchema(message.answer_schema)]
        answer, status, input_id = "", InputStatus.ANSWERED, ""
        try:
            with ContextScope(noting, shown):
                answer = as_json(
                    await ctx.ask(
                        message.text,
                        name=message.name,
                        choices=message.choices or None,
                        answer_type=answer_type,
                        to=message.to or None,
                        timeout=message.timeout,
                        default=UNSET if message.default is None else json.loads(message.default),
                        details=message.details,
                    )
                )
        except (InputExpiredError, InputWithdrawnError) as error:
            status, input_id = _end_of(error)
        told = Consulted(id=message.id, name=message.name, status=status, answer=answer, input_id=input_id)
        await self.tell(told, ctx.sender)

    @event
    async def on_consulted(self, message: Consulted, ctx: MessageContext) -> None:
        """There is an answer, or there will be none."""
        if note_answer(self.state.run, message):
            await self.choose_again()


def _end_of(error: InputError) -> tuple[InputStatus, str]:
    is_late = isinstance(error, InputExpiredError)
    return (InputStatus.EXPIRED if is_late else InputStatus.WITHDRAWN), getattr(error, "input_id", "")
