"""A model chooses the next speaker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult

from .agent import Agent, Message, names_of
from .errors import SpeakerSelectionError
from .events import SpeakerAttemptEvent
from .group import Group
from .mentions import mentioned_agents
from .model_client import client_of
from .model_messages import to_model
from .stream import IOStream

CHECKER: Final = "checking_agent"
SELECTOR: Final = "speaker_selection_agent"
CALLS: Final = ("function_call", "tool_calls")


class Selector(Protocol):
    """Whose model chooses: a manager."""

    @property
    def client(self) -> ChatCompletionClient | None:
        """Its model; None: it has none."""
        ...

    def note_answer(self, result: CreateResult, model: str | None = None) -> None:
        """A model was asked for it, and this is paid; without a name it was its own."""
        ...


async def choose_by_model(
    chat: Group, selector: Selector, messages: Sequence[Message], agents: Sequence[Agent]
) -> str | None:
    """The name of the one agent whom the model names.

    Until it names just one it is asked again, as often as the group chat says, and is told what was wrong.

    Args:
        chat: The group chat, with the texts.
        selector: Its manager; what the model spends counts for it. In AG2 it counts for nobody.
        messages: What was said.
        agents: Who may be chosen.

    Returns:
        None: it named nobody or several, each time.

    Raises:
        SpeakerSelectionError: There is no model (a ValueError).
    """
    client = _client(chat, selector)
    attempts = 1 + chat.max_retries_for_selecting_speaker
    prompt = _prompts(chat, messages, agents)
    for attempt in range(1, attempts + 1):
        result = await client.create(prompt)
        selector.note_answer(result, client.model)
        answer = result.content if isinstance(result.content, str) else ""
        mentions = mentioned_agents(answer.strip(), agents)
        if chat.select_speaker_auto_verbose:
            event = SpeakerAttemptEvent(attempt, attempts, answer, list(mentions))
            IOStream.get_default().send(event)
        if len(mentions) == 1:
            return next(iter(mentions))
        prompt = [
            *prompt,
            AssistantMessage(content=answer, source=SELECTOR),
            _again(chat, agents, len(mentions)),
        ]
    return None


def _client(chat: Group, selector: Selector) -> ChatCompletionClient:
    if chat.selector_client is None:
        config, classes = chat.select_speaker_auto_llm_config, chat.select_speaker_auto_model_client_cls
        chat.selector_client = client_of(config, classes)
    client = chat.selector_client or selector.client
    if client is None:
        raise SpeakerSelectionError(
            "No model can choose the next speaker: give the GroupChatManager a model (llm_config), "
            "or the group chat one of its own (select_speaker_auto_llm_config)."
        )
    return recorded(client)


def _prompts(chat: Group, messages: Sequence[Message], agents: Sequence[Agent]) -> list[LLMMessage]:
    """System message, what was said, and what is asked; without a prompt the last message is repeated."""
    said = [dict(message) for message in messages]
    if said:
        said[-1] = {key: value for key, value in said[-1].items() if key not in CALLS}
    if chat.select_speaker_prompt_template is not None:
        said.append(_told(chat, chat.select_speaker_prompt(agents)))
    elif said:
        said.append(said[-1])
    whole: list[Message] = [{"role": "system", "content": chat.select_speaker_msg(agents)}, *said]
    if chat.select_speaker_transform_messages is not None:
        whole = chat.select_speaker_transform_messages.apply(whole)
    return to_model(whole, SELECTOR)


def _again(chat: Group, agents: Sequence[Agent], mentions: int) -> LLMMessage:
    multiple, none = chat.select_speaker_auto_multiple_template, chat.select_speaker_auto_none_template
    template = multiple if mentions else none
    text = template.format(agentlist=f"{names_of(agents)}")
    return to_model([_told(chat, text)], SELECTOR)[0]


def _told(chat: Group, text: str) -> Message:
    return {"role": chat.role_for_select_speaker_messages, "name": CHECKER, "content": text}
