"""The team in which a model chooses who speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

from callboard.agents.copying import copy_of
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, ComponentModel, NotDumpableError, dumped
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.contexts.windows import UnboundedChatCompletionContext
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded

from .config import TeamConfig, common_config
from .errors import TeamDeclarationError
from .group_chat import BaseGroupChat
from .local import Participant
from .selection import SpeakerSelection
from .selections.selector import CandidateFunc, SelectorFunc, SelectorSelection, SelectorSetup

SELECTOR_PROMPT: Final = """These roles take part in a conversation:
{roles}

This is what has been said so far:

{history}

Who of {participants} should speak next? Answer with that one name, and nothing else.
"""


class SelectorGroupChatConfig(TeamConfig):
    """A SelectorGroupChat as plain data."""

    model_client: ComponentModel
    selector_prompt: str = SELECTOR_PROMPT
    allow_repeated_speaker: bool = False
    max_selector_attempts: int = 3
    model_client_streaming: bool = False
    model_context: ComponentModel | None = None


class SelectorGroupChat(BaseGroupChat, Component[SelectorGroupChatConfig]):
    """A team in which a model reads along, and says after each turn who speaks next.

    The model has to mention exactly one name; else it is told so and asked again. When it has not done it after
    `max_selector_attempts`, who spoke last goes on, or the first candidate begins.

    Args:
        participants: The members, at least two.
        model_client: The model; its answers are recorded, so that none is paid twice.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends; None: `max_turns` ends it, or nothing.
        max_turns: How many turns a run has at most.
        selector_prompt: What the model is asked, with the fields {roles}, {participants} and {history}.
        allow_repeated_speaker: Whether the model may choose who spoke last.
        max_selector_attempts: How often the model is asked for one choice.
        selector_func: Chooses in the model's place from all that was said, or returns None; may be async.
        candidate_func: Says among whom the model chooses, `allow_repeated_speaker` aside; may be async.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who is chosen, and with streaming what the model says.
        model_client_streaming: Whether the model's answers are streamed.
        model_context: What the model sees of the conversation; None: all of it. Each conversation has a copy.
        **options: See BaseGroupChat.

    Raises:
        TeamDeclarationError: There are fewer than two members, or the prompt has other fields (a ValueError).
    """

    component_config_schema = SelectorGroupChatConfig
    component_provider_override = "callboard.teams.SelectorGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        model_client: ChatCompletionClient,
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        selector_prompt: str = SELECTOR_PROMPT,
        allow_repeated_speaker: bool = False,
        max_selector_attempts: int = 3,
        selector_func: SelectorFunc | None = None,
        candidate_func: CandidateFunc | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        model_client_streaming: bool = False,
        model_context: ChatCompletionContext | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name or "SelectorGroupChat",
            description=description or "A team of agents.",
            manager_name="SelectorGroupChatManager",
            termination_condition=termination_condition,
            max_turns=max_turns,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )
        if len(participants) < 2:
            raise TeamDeclarationError("At least two participants are required for SelectorGroupChat.")
        _check_prompt(selector_prompt)
        self._setup = SelectorSetup(
            model_client=recorded(model_client),
            prompt=selector_prompt,
            allow_repeated_speaker=allow_repeated_speaker,
            max_attempts=max_selector_attempts,
            selector_func=selector_func,
            candidate_func=candidate_func,
            emit_team_events=emit_team_events,
            streaming=model_client_streaming,
        )
        self._model_client = model_client
        self._model_context = model_context

    def _to_config(self) -> SelectorGroupChatConfig:
        setup, context = self._setup, self._model_context
        if setup.selector_func is not None or setup.candidate_func is not None:
            raise NotDumpableError("SelectorGroupChat", "its selector_func and candidate_func are functions")
        return SelectorGroupChatConfig(
            **common_config(self),
            model_client=dumped(self._model_client, self),
            selector_prompt=setup.prompt,
            allow_repeated_speaker=setup.allow_repeated_speaker,
            max_selector_attempts=setup.max_attempts,
            model_client_streaming=setup.streaming,
            model_context=None if context is None else dumped(context, self),
        )

    @classmethod
    def _from_config(cls, config: SelectorGroupChatConfig) -> Self:
        context = config.model_context
        return cls(
            **config.arguments(),
            model_client=ChatCompletionClient.load_component(config.model_client),
            selector_prompt=config.selector_prompt,
            allow_repeated_speaker=config.allow_repeated_speaker,
            max_selector_attempts=config.max_selector_attempts,
            model_client_streaming=config.model_client_streaming,
            model_context=None if context is None else ChatCompletionContext.load_component(context),
        )

    def new_selection(self) -> SpeakerSelection:
        """The model, with a context of its own."""
        context = self._model_context
        return SelectorSelection(
            self._setup, UnboundedChatCompletionContext() if context is None else copy_of(context)
        )


def _check_prompt(prompt: str) -> None:
    try:
        prompt.format(roles="", participants="", history="")
    except (KeyError, IndexError, ValueError) as error:
        raise TeamDeclarationError(
            "The selector_prompt can have the fields {roles}, {participants} and {history}; "
            f"it can't be filled in: {type(error).__name__}: {error}."
        ) from error
