"""The model of the orchestrator: what it is asked, in the order of its ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.assistant.images import without_images
from callboard.memory.llm_messages import AssistantMessage, LLMMessage, UserMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult
from callboard.teams.errors import LedgerError

from . import prompts
from .ledger import LedgerEntry, read_ledger

JSON_RETRIES: Final = 10  # AutoGen's


@dataclass(frozen=True, slots=True)
class Team:
    """The members, as the prompts have them.

    Attributes:
        name: Of the manager, the source of what is asked.
        names: The members' names.
        description: Who they are, one on each line.
    """

    name: str
    names: Sequence[str]
    description: str


class Orchestrator:
    """Asks the model.

    Args:
        model_client: The model.
        final_answer_prompt: What it is asked at the end; {task} in it is filled in.
    """

    def __init__(self, model_client: ChatCompletionClient, final_answer_prompt: str) -> None:
        self._client = model_client
        self._final_answer_prompt = final_answer_prompt

    async def begin(self, team: Team, task: str) -> tuple[str, str]:
        """The first facts and the first plan."""
        return await self._facts_and_plan(
            [],
            team,
            prompts.FACTS.format(task=task),
            prompts.PLAN.format(team=team.description),
        )

    async def begin_again(
        self, team: Team, context: Sequence[LLMMessage], task: str, facts: str
    ) -> tuple[str, str]:
        """New facts and a new plan."""
        return await self._facts_and_plan(
            context,
            team,
            prompts.FACTS_UPDATE.format(task=task, facts=facts),
            prompts.PLAN_UPDATE.format(team=team.description),
        )

    async def _facts_and_plan(
        self, context: Sequence[LLMMessage], team: Team, facts_prompt: str, plan_prompt: str
    ) -> tuple[str, str]:
        asked = [*context, UserMessage(content=facts_prompt, source=team.name)]
        facts = _text(await self._ask(asked))
        asked = [*asked, AssistantMessage(content=facts, source=team.name)]
        plan = _text(await self._ask([*asked, UserMessage(content=plan_prompt, source=team.name)]))
        return facts, plan

    async def progress(self, team: Team, context: Sequence[LLMMessage], task: str) -> LedgerEntry:
        """How the work stands. An answer that can't be read is asked for again.

        Raises:
            LedgerError: None of the answers could be read (a ValueError).
        """
        prompt = prompts.PROGRESS.format(task=task, team=team.description, names=", ".join(team.names))
        asked = [*context, UserMessage(content=prompt, source=team.name)]
        problem = ""
        for _ in range(JSON_RETRIES):
            answer = await self._ask(asked, **self._json_output())
            try:
                return read_ledger(_text(answer), team.names)
            except LedgerError as error:
                problem = error.reason
        raise LedgerError(
            f"Failed to parse ledger information after multiple retries. The last time: {problem}"
        )

    def _json_output(self) -> dict[str, Any]:
        info = self._client.model_info
        if info.get("structured_output", False):
            return {"json_output": LedgerEntry}
        return {"json_output": True} if info.get("json_output", False) else {}

    async def final_answer(self, team: Team, context: Sequence[LLMMessage], task: str) -> str:
        """The answer to the task."""
        prompt = self._final_answer_prompt.replace("{task}", task)
        return _text(await self._ask([*context, UserMessage(content=prompt, source=team.name)]))

    async def _ask(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        seen = messages if self._client.model_info["vision"] else without_images(messages)
        return await self._client.create(seen, **options)


def _text(result: CreateResult) -> str:
    return result.content if isinstance(result.content, str) else ""
