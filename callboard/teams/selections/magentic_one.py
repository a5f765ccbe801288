"""An orchestrator plans, says who does what, and plans again when the work stalls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from callboard.memory.contexts.conversation import Conversation
from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.messages.base import BaseChatMessage
from callboard.teams.errors import SpeakerChoiceError
from callboard.teams.magentic.orchestrator import Orchestrator, Team
from callboard.teams.magentic.step import MagenticState, Step
from callboard.teams.selection import Choice, Floor, SpeakerSelection

MAX_ROUNDS: Final = "Max rounds reached."
NO_PROGRESS: Final = "No progress after {count} plans."
MOST_PLANS: Final = (
    10  # one after the other without anybody speaking: AutoGen's orchestrator goes on for ever
)


class MagenticOneSelection(SpeakerSelection):
    """Whom a model chooses that keeps two ledgers; AutoGen's MagenticOneOrchestrator.

    The outer ledger has facts and a plan; with each plan the members forget everything and hear the ledger. The inner one is
    asked for before each turn: it says whether the task is done, whether the work stalls, and who is told what.

    Args:
        orchestrator: The model.
        max_turns: How many inner ledgers a run has at most, beside the first; None: no limit.
        max_stalls: With how many stalls there is a new plan.
    """

    def __init__(self, orchestrator: Orchestrator, *, max_turns: int | None, max_stalls: int) -> None:
        self._orchestrator = orchestrator
        self._max_turns = max_turns
        self._max_stalls = max_stalls
        self._state = MagenticState()
        self._context: Conversation = list[LLMMessage]()

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses to go on with nothing.

        Raises:
            SpeakerChoiceError: There was no task yet (a ValueError).
        """
        if not (messages or self._state.task or _task(floor)):
            raise SpeakerChoiceError("A MagenticOneGroupChat needs a task to begin with.")

    async def select(self, floor: Floor) -> Choice:
        """The next step of the work; a new task is planned first."""
        heard = list(_heard(floor))
        step = Step(self._orchestrator, _team(floor), self._state, [*self._context, *heard])
        task = _task(floor)
        if task:
            await step.begin(task)
        choice = await self._next(step)
        self._keep(step)
        return choice

    async def _next(self, step: Step) -> Choice:
        for _ in range(MOST_PLANS):
            if self._max_turns is not None and step.state.n_rounds > self._max_turns:
                return await step.end(MAX_ROUNDS)
            ledger = await step.progress()
            if ledger.is_request_satisfied.answer:
                return await step.end(ledger.is_request_satisfied.reason)
            if step.state.n_stalls < self._max_stalls:
                return step.instruct(ledger)
            await step.begin_again()
        return await step.end(NO_PROGRESS.format(count=MOST_PLANS))

    def _keep(self, step: Step) -> None:
        self._state = step.state
        if step.is_new_plan:
            self._context.clear()
        self._context.extend(step.context[len(self._context) :])

    async def reset(self) -> None:
        """There is no task."""
        self._state = MagenticState()
        self._context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """How the work stands."""
        return {**self._state.model_dump(), "type": "MagenticOneOrchestratorState"}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's."""
        self._state = MagenticState.model_validate(dict(state))

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what was said since the last plan in this list."""
        self._context = messages


def _team(floor: Floor) -> Team:
    lines = [" ".join(f"{member.name}: {member.description}".split()) for member in floor.members]
    return Team(floor.team, floor.names, "\n".join(lines))


def _task(floor: Floor) -> str:
    """A new task as text; "": there is none. What AutoGen's orchestrator has said comes from nobody in a state of it."""
    return " ".join(message.to_model_text() for message in floor.task if message.source != floor.team)


def _heard(floor: Floor) -> Iterator[LLMMessage]:
    """What was said since the last choice, but for the task, which is in the ledger."""
    for by, message in zip(floor.new_by, floor.new, strict=True):
        if not isinstance(message, BaseChatMessage):
            continue
        if by:
            yield message.to_model_message()
        elif message.source == floor.team:
            yield AssistantMessage(content=message.to_model_text(), source=message.source)
