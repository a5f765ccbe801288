"""What those who read a run see of the questions that its members ask."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from callboard.broker.inquiry import InputStatus
from callboard.input_request import InputRequest
from callboard.messages.events import InputAnsweredEvent, InputRequestedEvent
from callboard.questions import CheckedQuestion
from callboard.runtime.runtime import RedisAgentRuntime

from .addresses import conversation_of, keys_in
from .orders import Shown

MOST_DETAILS: Final = 100_000  # characters of what readers see with a question
OMITTED: Final = "omitted"  # stands in the place of details that are longer


class ShownQuestions:
    """Writes into a run's stream that a member asks, and that there is an answer.

    The first is written together with the question; the second by the handler that goes on, in each of its attempts, and
    readers are shown it once.

    Args:
        runtime: Writes to the stream.
        stream: Name of the run's stream.
        turn: The member's turn, as a path.
        source: The member.
    """

    def __init__(self, runtime: RedisAgentRuntime, stream: str, turn: tuple[int, ...], source: str) -> None:
        self.stream = stream
        self._runtime = runtime
        self._turn = turn
        self._source = source

    def asked(self, input_id: str, question: CheckedQuestion[Any]) -> list[Shown]:
        """What is written with a question: its details only where they are not too large for an event."""
        details: dict[str, Any] = json.loads(question.details) if question.details else {}
        if len(question.details) > MOST_DETAILS:
            details = {"kind": details.get("kind", ""), OMITTED: True}
        event = InputRequestedEvent(
            id=f"{input_id}:asked",
            source=self._source,
            request_id=input_id,
            content=question.text[:MOST_DETAILS],
            choices=list(question.choices),
            to=list(question.to),
            answer_schema=json.loads(question.schema),
            details=details,
            timeout=question.timeout,
        )
        return [self._shown(event)]

    async def ended(self, input_id: str) -> None:
        """Shows what came of a question."""
        request = await self._runtime.inputs.get(input_id)
        await self._runtime.write_run(self.stream, [self._shown(answered(request, self._source))], now=True)

    def _shown(self, event: InputRequestedEvent | InputAnsweredEvent) -> Shown:
        return Shown(
            turn=self._turn, source=self._source, attempt="", messages=[event], is_final=True, is_aside=True
        )


def answered(request: InputRequest, source: str) -> InputAnsweredEvent:
    """What came of a question that is not open any more."""
    is_answered = request.status is InputStatus.ANSWERED
    return InputAnsweredEvent(
        id=f"{request.id}:ended",
        source=source,
        request_id=request.id,
        status=cast("Any", request.status.value),
        content=json.dumps(request.answer, ensure_ascii=False) if is_answered else "",
        by=request.by,
    )


async def open_questions(runtime: RedisAgentRuntime, team: str, conversation: str) -> list[InputRequest]:
    """The open questions of a conversation, of nested teams as well, the oldest first.

    Args:
        runtime: Reaches the server.
        team: Agent type of the outermost team.
        conversation: Id of the conversation.
    """
    found = [
        question
        for key in keys_in(conversation)
        for question in await runtime.inputs.list(key=key)
        if question.agent.type == team or question.agent.type.startswith(f"{team}.")
    ]
    return sorted(found, key=lambda question: question.asked)


async def waiting_conversations(runtime: RedisAgentRuntime) -> set[tuple[str, str]]:
    """The outermost team and the id of each conversation that has an open question."""
    questions = await runtime.inputs.list()
    return {
        (question.agent.type.partition(".")[0], conversation_of(question.agent)) for question in questions
    }
