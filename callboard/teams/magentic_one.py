"""The team whose work an orchestrator plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded

from .config import TeamConfig, common_config
from .group_chat import BaseGroupChat
from .local import Participant
from .magentic.orchestrator import Orchestrator
from .magentic.prompts import FINAL_ANSWER
from .selection import SpeakerSelection
from .selections.magentic_one import MagenticOneSelection


class MagenticOneGroupChatConfig(TeamConfig):
    """A MagenticOneGroupChat as plain data."""

    model_client: ComponentModel
    max_turns: int | None = 20
    max_stalls: int = 3
    final_answer_prompt: str = FINAL_ANSWER


class MagenticOneGroupChat(BaseGroupChat, Component[MagenticOneGroupChatConfig]):
    """A team whose work a model plans, directs and judges, as Magentic-One does.

    It writes down facts and a plan, and before each turn judges the work: done, then it gives the final answer, whose reason
    is the run's `stop_reason`; stalled too often, then it plans again, and the members forget what they have heard; else
    it tells a member what to do. Each task begins with a new plan.

    Where AutoGen's is broken: an answer of the model that names nobody or lacks a field is asked for again (up to ten times,
    then the run fails with LedgerError), rounds are counted from the beginning of each task, a plan after plan without a
    turn ends, members may be teams, and messages of any type can be said. The task counts for the termination condition,
    as in all teams.

    Args:
        participants: The members.
        model_client: The orchestrator's model; its answers are recorded, so that none is paid twice.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends without a final answer.
        max_turns: How many turns a run has at most, beside the first; then comes the final answer. None: no limit.
        max_stalls: With how many stalls there is a new plan.
        final_answer_prompt: What the model is asked at the end; {task} in it is filled in.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who is next.
        **options: See BaseGroupChat.
    """

    component_config_schema = MagenticOneGroupChatConfig
    component_provider_override = "callboard.teams.MagenticOneGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        model_client: ChatCompletionClient,
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = 20,
        max_stalls: int = 3,
        final_answer_prompt: str = FINAL_ANSWER,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        # The limit is the strategy's: there is a final answer when it is reached.
        super().__init__(
            participants,
            name=name or "MagenticOneGroupChat",
            description=description or "A team of agents.",
            manager_name="MagenticOneOrchestrator",
            termination_condition=termination_condition,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )
        self._model_client = model_client
        self._recorded_client = recorded(model_client)
        self._max_turns = max_turns
        self._max_stalls = max_stalls
        self._final_answer_prompt = final_answer_prompt

    def _to_config(self) -> MagenticOneGroupChatConfig:
        return MagenticOneGroupChatConfig(
            **{**common_config(self), "max_turns": self._max_turns},
            model_client=dumped(self._model_client, self),
            max_stalls=self._max_stalls,
            final_answer_prompt=self._final_answer_prompt,
        )

    @classmethod
    def _from_config(cls, config: MagenticOneGroupChatConfig) -> Self:
        return cls(
            **config.arguments(),
            model_client=ChatCompletionClient.load_component(config.model_client),
            max_stalls=config.max_stalls,
            final_answer_prompt=config.final_answer_prompt,
        )

    def new_selection(self) -> SpeakerSelection:
        """The orchestrator, without a task."""
        return MagenticOneSelection(
            Orchestrator(self._recorded_client, self._final_answer_prompt),
            max_turns=self._max_turns,
            max_stalls=self._max_stalls,
        )
