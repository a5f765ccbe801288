"""The team in which a model chooses who speaks, and its strategy."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel

from callboard.agents.base import Said, copy_of
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, ComponentModel, NotDumpableError, dumped
from callboard.memory.contexts import ChatCompletionContext, Conversation, UnboundedChatCompletionContext
from callboard.memory.llm_messages import AssistantMessage, Image, LLMMessage, SystemMessage, UserMessage
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, HandoffMessage
from callboard.messages.events import ModelClientStreamingChunkEvent, SelectorEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult, ModelFamily

from .errors import SpeakerChoiceError, TeamDeclarationError
from .group_chat import BaseGroupChat, TeamConfig, common_config
from .loop import Choice, Floor, Participant, SpeakerSelection, called

logger = logging.getLogger("callboard.teams")


def mentions(text: str, names: Sequence[str]) -> list[str]:
    r"""The names that a text mentions, in the order of `names`; AutoGen's rules.

    A name counts where no letter, digit or underscore stands before or behind it. Case matters. For `_` in a name the text
    may have a blank, or the ``\_`` of Markdown.
    """
    return [name for name in names if re.search(_pattern(name), f" {text} ")]


def _pattern(name: str) -> str:
    spellings = (name, name.replace("_", " "), name.replace("_", r"\_"))
    return rf"(?<=\W)(?:{'|'.join(re.escape(spelling) for spelling in spellings)})(?=\W)"


SelectorFunc: TypeAlias = Callable[[Sequence[Said]], "str | Awaitable[str | None] | None"]
CandidateFunc: TypeAlias = Callable[[Sequence[Said]], "list[str] | Awaitable[list[str]]"]

NOBODY: Final = "No valid name was mentioned. Please select from: {names}."
SEVERAL: Final = "Expected exactly one name to be mentioned. Please select only one from: {names}."
REPEATED: Final = "Repeated speaker is not allowed, please select a different name from: {names}."


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorSetup:
    """How a model is asked; the same for all conversations.

    Attributes:
        model_client: The model.
        prompt: What it is asked, with the fields {roles}, {participants} and {history}.
        allow_repeated_speaker: Whether who spoke last may be chosen.
        max_attempts: How often it is asked for one choice.
        selector_func: Chooses in the model's place, or returns None.
        candidate_func: Says among whom the model chooses.
        emit_team_events: Whether readers see what the model says.
        streaming: Whether its answers are streamed.
    """

    model_client: ChatCompletionClient
    prompt: str
    allow_repeated_speaker: bool = False
    max_attempts: int = 3
    selector_func: SelectorFunc | None = None
    candidate_func: CandidateFunc | None = None
    emit_team_events: bool = False
    streaming: bool = False


class SelectorState(BaseModel):
    """The memory of the strategy from one choice to the next.

    Attributes:
        previous_speaker: Whom the model chose last.
        read: How much of the thread is in the context.
        model_context: State of a context that has more than its messages to save.
    """

    previous_speaker: str | None = None
    read: int = 0
    model_context: dict[str, Any] | None = None


class SelectorSelection(SpeakerSelection):
    """Whom a model names; AutoGen's SelectorGroupChatManager.

    Unlike AutoGen's, its context is part of its state as it is, and each message is added to it once, also where a
    choice failed and is made again.

    Args:
        setup: How the model is asked.
        context: What it sees of the conversation.
    """

    def __init__(self, setup: SelectorSetup, context: ChatCompletionContext) -> None:
        self._setup = setup
        self._context = context
        self._previous: str | None = None
        self._read = 0  # how much of the thread is in the context

    async def select(self, floor: Floor) -> Choice:
        """The function's choice, or the only candidate, or the model's choice."""
        await self._read_on(floor)
        chosen = await self._chosen_by_function(floor)
        if chosen is not None:
            return Choice([chosen])
        candidates = await self._candidates(floor)
        speaker = candidates[0] if len(candidates) == 1 else await self._ask(floor, candidates)
        self._previous = speaker
        return Choice([speaker])

    async def _read_on(self, floor: Floor) -> None:
        for message in floor.thread[self._read :]:
            self._read += 1
            if isinstance(message, HandoffMessage):
                for handed in message.context:
                    await self._context.add_message(handed)
            if isinstance(message, BaseChatMessage):
                await self._context.add_message(message.to_model_message())

    async def _chosen_by_function(self, floor: Floor) -> str | None:
        if self._setup.selector_func is None:
            return None
        chosen: str | None = await called(self._setup.selector_func, floor.thread)
        if chosen is not None and chosen not in floor.names:
            raise SpeakerChoiceError(
                f"Selector function returned an invalid speaker name: {chosen}. Expected one of: {floor.names}."
            )
        return chosen

    async def _candidates(self, floor: Floor) -> list[str]:
        if self._setup.candidate_func is None:
            left_out = None if self._setup.allow_repeated_speaker else self._previous
            return [name for name in floor.names if name != left_out]
        candidates: list[str] | None = await called(self._setup.candidate_func, floor.thread)
        if not candidates:
            raise SpeakerChoiceError("Candidate function must return a non-empty list of participant names.")
        if not set(candidates) <= set(floor.names):
            raise SpeakerChoiceError(
                f"Candidate function returned invalid participant names: {candidates}. "
                f"Expected one of: {floor.names}."
            )
        return list(candidates)

    # The model

    async def _ask(self, floor: Floor, candidates: Sequence[str]) -> str:
        asked = [await self._question(floor, candidates)]
        for _ in range(self._setup.max_attempts):
            answer = await self._answer(floor, list(asked))
            # Names that are no candidates count as well: the model may still have meant them.
            named = mentions(answer, floor.names)
            problem = self._problem(named)
            if problem is None:
                return named[0]
            asked.append(AssistantMessage(content=answer, source="selector"))
            asked.append(UserMessage(content=problem.format(names=list(candidates)), source="user"))
        speaker = candidates[0] if self._previous is None else self._previous
        logger.warning("%s: the model named nobody who may speak; %s goes on", floor.team, speaker)
        return speaker

    def _problem(self, named: Sequence[str]) -> str | None:
        if not named:
            return NOBODY
        if len(named) > 1:
            return SEVERAL
        is_repeated = named[0] == self._previous and not self._setup.allow_repeated_speaker
        return REPEATED if is_repeated else None

    async def _question(self, floor: Floor, candidates: Sequence[str]) -> LLMMessage:
        roles = "\n".join(
            " ".join(f"{member.name}: {member.description}".split()) for member in floor.members
        )
        history = "\n".join(_lines(await self._context.get_messages()))
        text = self._setup.prompt.format(roles=roles, participants=str(list(candidates)), history=history)
        # Models but OpenAI's answer to users only.
        is_openai = ModelFamily.is_openai(self._setup.model_client.model_info["family"])
        return SystemMessage(content=text) if is_openai else UserMessage(content=text, source="user")

    async def _answer(self, floor: Floor, asked: Sequence[LLMMessage]) -> str:
        if not self._setup.streaming:
            return _text(await self._setup.model_client.create(asked))
        answer = ""
        async with aclosing(self._setup.model_client.create_stream(asked)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    answer = _text(item)
                    await self._show(floor, SelectorEvent(content=answer, source=floor.team))
                else:
                    await self._show(floor, ModelClientStreamingChunkEvent(content=item, source=floor.team))
        return answer

    async def _show(self, floor: Floor, event: SelectorEvent | ModelClientStreamingChunkEvent) -> None:
        if self._setup.emit_team_events:
            await floor.show(event)

    # State

    async def reset(self) -> None:
        """No member has spoken, and the context is empty."""
        self._previous, self._read = None, 0
        await self._context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """Who spoke last, and what the context has beside its messages."""
        context = None if self._context.is_only_messages else dict(await self._context.save_state())
        return SelectorState(
            previous_speaker=self._previous, read=self._read, model_context=context
        ).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's, whose context is read from the thread again."""
        loaded = SelectorState.model_validate(dict(state))
        self._previous, self._read = loaded.previous_speaker, loaded.read
        if loaded.model_context is not None:
            await self._context.load_state(loaded.model_context)

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep the context in this list."""
        self._context.keep_in(messages)


def _lines(messages: Sequence[LLMMessage]) -> Iterator[str]:
    """The conversation as the prompt shows it."""
    for message in messages:
        if isinstance(message, UserMessage | AssistantMessage):
            content = message.content
            if isinstance(content, list):
                content = " ".join("[image]" if isinstance(part, Image) else str(part) for part in content)
            yield f"{message.source}: {content}".rstrip() + "\n\n"


def _text(result: CreateResult) -> str:
    return result.content if isinstance(result.content, str) else ""


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
