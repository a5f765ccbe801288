"""One choice of the orchestrator: what it asks, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.messages.chat import TextMessage
from callboard.teams.selection import Choice

from . import prompts
from .ledger import LedgerEntry
from .orchestrator import Orchestrator, Team


class MagenticState(BaseModel):
    """How the work stands; the fields are AutoGen's.

    Attributes:
        task: What is to be done.
        facts: What is known.
        plan: What is to be done about it.
        n_rounds: How many progress ledgers there were.
        n_stalls: How many of the last ones said that the work does not get on.
    """

    task: str = ""
    facts: str = ""
    plan: str = ""
    n_rounds: int = 0
    n_stalls: int = 0


class Step:
    """Works on copies: what a choice changes counts when it has been made, not where a model call fails in between.

    Args:
        orchestrator: The model.
        team: The members.
        state: How the work stands; it is copied.
        context: What was said since the last plan; it is copied.

    Attributes:
        is_new_plan: Whether `context` begins with a plan that was made in this step.
    """

    def __init__(
        self, orchestrator: Orchestrator, team: Team, state: MagenticState, context: Sequence[LLMMessage]
    ) -> None:
        self._orchestrator = orchestrator
        self._team = team
        self.state = state.model_copy()
        self.context = list(context)
        self.is_new_plan = False
        self._said: list[TextMessage] = []

    async def begin(self, task: str) -> None:
        """Plan a new task."""
        facts, plan = await self._orchestrator.begin(self._team, task)
        self._enter(MagenticState(task=task, facts=facts, plan=plan))

    async def begin_again(self) -> None:
        """Plan the same task again, with what was learned."""
        state = self.state
        facts, plan = await self._orchestrator.begin_again(self._team, self.context, state.task, state.facts)
        self._enter(state.model_copy(update={"facts": facts, "plan": plan}))

    def _enter(self, state: MagenticState) -> None:
        self.state, self.context, self.is_new_plan = state, [], True
        self._said.clear()
        self._say(
            prompts.LEDGER.format(
                task=state.task, team=self._team.description, facts=state.facts, plan=state.plan
            )
        )

    async def progress(self) -> LedgerEntry:
        """How the work stands; counts the stalls."""
        self.state.n_rounds += 1
        ledger = await self._orchestrator.progress(self._team, self.context, self.state.task)
        stalls = self.state.n_stalls + (1 if ledger.is_stalled else -1)
        if not ledger.is_request_satisfied.answer:
            self.state.n_stalls = max(0, stalls)
        return ledger

    def instruct(self, ledger: LedgerEntry) -> Choice:
        """Say to the next speaker what to do."""
        self._say(ledger.instruction_or_question.answer)
        return Choice([ledger.next_speaker.answer], self._said, self._resets)

    async def end(self, reason: str) -> Choice:
        """Answer the task."""
        self._say(await self._orchestrator.final_answer(self._team, self.context, self.state.task))
        return Choice(said=self._said, resets=self._resets, stop=reason)

    def _say(self, text: str) -> None:
        self._said.append(TextMessage(content=text, source=self._team.name))
        self.context.append(AssistantMessage(content=text, source=self._team.name))

    @property
    def _resets(self) -> Sequence[str]:
        return self._team.names if self.is_new_plan else ()
