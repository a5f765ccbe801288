"""The group chat, and the choice of its next speaker: by rules, a function, a person or a model."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Protocol

from callboard.agents.base import ChatAgent
from callboard.core import people as asking
from callboard.core.context import MessageContext
from callboard.core.people import Question, can_ask
from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult
from callboard.runtime.steps import NumberedStep, running_context

from .errors import NoEligibleSpeakerError, SpeakerSelectionError
from .events import (
    IOStream,
    SelectSpeakerEvent,
    SelectSpeakerInvalidInputEvent,
    SelectSpeakerTryCountExceededEvent,
    SpeakerAttemptEvent,
    ask_person,
    is_given,
    value_of,
    wait_for,
)
from .group import Group, SelectionContext, check, eligible, graph_of
from .messages import Agent, Message, Note, functions_of, names_of, text_of
from .model import client_of, to_model

log = logging.getLogger(__name__)

METHODS: Final = ("auto", "manual", "random", "round_robin")


@dataclass(frozen=True)
class Candidates:
    """Who may speak next.

    Attributes:
        agents: One or more agents of the group.
        method: How one of them is chosen; "": there is just one.
    """

    agents: list[Agent]
    method: str = ""


async def candidates(chat: Group, last_speaker: Agent) -> Candidates:
    """Who may speak after somebody, by the function that the user wrote and the rules of the group chat.

    Raises:
        NoEligibleSpeakerError: Nobody may.
        SpeakerSelectionError: The group chat is set up in a way that can't work (a ValueError).
    """
    chosen = await _by_function(chat, last_speaker)
    if isinstance(chosen, ChatAgent):
        return Candidates([chosen])
    method = str(chosen).lower()
    if method not in METHODS:
        raise SpeakerSelectionError(
            f"speaker_selection_method is {chosen!r}; it can be one of {list(METHODS)}."
        )
    repeats = chat.allow_repeat_speaker
    may_repeat = repeats if repeats is None or isinstance(repeats, bool) else last_speaker in repeats
    _check_size(chat.agents, method, may_repeat)
    left = _able(chat) if chat.func_call_filter else list(chat.agents)
    if may_repeat is False:
        left = [agent for agent in left if agent is not last_speaker]
    left = _policed(chat, _following(chat, left, last_speaker), last_speaker)
    return Candidates(left) if len(left) == 1 else Candidates(left, method)


async def _by_function(chat: Group, last_speaker: Agent) -> Any:
    """The agent or method that a function chooses, else the method."""
    method = chat.speaker_selection_method
    if not callable(method):
        return method
    chosen = await value_of(method(last_speaker, chat))
    if chosen is None:
        raise NoEligibleSpeakerError("The speaker selection function chose nobody.")
    if isinstance(chosen, ChatAgent) and chosen not in chat.agents:
        raise SpeakerSelectionError(
            f"The speaker selection function chose {chosen.name!r}, who is not in the group chat."
        )
    if not isinstance(chosen, ChatAgent | str):
        raise SpeakerSelectionError(
            f"The speaker selection function returned a {type(chosen).__name__}; "
            "it can be an agent, the name of a method, or None."
        )
    return chosen


def _check_size(agents: Sequence[Agent], method: str, may_repeat: bool | None) -> None:
    if len(agents) < 2:
        raise SpeakerSelectionError(
            f"The group chat is underpopulated with {len(agents)} agents: it needs two. Let them talk directly instead."
        )
    if len(agents) == 2 and method != "round_robin" and may_repeat:
        log.warning(
            "a group chat of 2 agents is underpopulated: consider round_robin or allow_repeat_speaker=False, "
            "unless somebody is meant to speak twice in a row"
        )


def _able(chat: Group) -> list[Agent]:
    """Where the last message calls functions, those who can execute them, else those who can execute any."""
    last = chat.messages[-1] if chat.messages else {}
    if "function_call" not in last and "tool_calls" not in last:
        return list(chat.agents)
    names = _called(last)
    able = [agent for agent in chat.agents if set(names) <= set(functions_of(agent))]
    able = able or [agent for agent in chat.agents if functions_of(agent)]
    if not able:
        raise SpeakerSelectionError(
            f"No agent can execute {', '.join(names)}. Please check the function_map of the agents."
        )
    return able


def _called(message: dict[str, Any]) -> list[str]:
    """The names of the functions that a message calls."""
    call = message.get("function_call")
    names = [str(call["name"])] if call else []
    calls = message.get("tool_calls") or ()
    return [*names, *(str(call["function"]["name"]) for call in calls if call["type"] == "function")]


def _following(chat: Group, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
    """Those of them who may speak after somebody. An empty list of transitions is the end, as a missing one is."""
    if last_speaker not in chat.agents:
        return agents
    follow = chat.allowed_speaker_transitions_dict.get(last_speaker, [])
    left = [agent for agent in agents if agent in follow]
    if not left:
        raise NoEligibleSpeakerError(f"Nobody may speak after {last_speaker.name!r}.")
    return left


def _policed(chat: Group, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
    if not chat.eligibility_policies:
        return agents
    context = SelectionContext(len(chat.messages), last_speaker.name, tuple(chat.agent_names))
    return eligible(agents, chat.eligibility_policies, context)


def mentioned_agents(content: Any, agents: Sequence[Agent]) -> dict[str, int]:
    """How often a text mentions each of these agents.

    A name counts where it stands as a word of its own, in its own case; an underscore in it may be written as a blank,
    or behind a backslash.

    Args:
        content: A text, the content of a message, or a message; None: nothing.
        agents: Whose names are looked for.

    Returns:
        The number of mentions by name, without agents that are not mentioned.
    """
    text = text_of(content["content"] if isinstance(content, Mapping) else content)
    counts = {agent.name: len(_pattern(agent.name).findall(text)) for agent in agents}
    return {name: count for name, count in counts.items() if count}


def _pattern(name: str) -> re.Pattern[str]:
    spellings = {name, name.replace("_", " "), name.replace("_", r"\_")}
    words = "|".join(re.escape(spelling) for spelling in sorted(spellings))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)")


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


ATTEMPTS: Final = 2
QUESTION: Final = "Number of the next speaker (nothing or `q`: the next one in the list): "
NOBODY: Final = ("", "q")
ASKED: Final = "Who speaks next?"
NEXT: Final = "q"
MEANING: Final = "`q`: the next one in the list"
KIND: Final = "speaker"


async def choose_manually(agents: Sequence[Agent]) -> Agent | None:
    """The agent whose number a person enters. On the bus the question waits for its answer without a process.

    Returns:
        None: the person chose nobody, or gave two wrong answers.
    """
    context = running_context()
    if not is_given() and can_ask(context):
        return await _asked(agents, context)
    stream, names = IOStream.get_default(), names_of(agents)
    stream.send(SelectSpeakerEvent(names))
    for _ in range(ATTEMPTS):
        answer = (await ask_person(QUESTION)).strip()
        if answer in NOBODY:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(agents):
            return agents[int(answer) - 1]
        stream.send(SelectSpeakerInvalidInputEvent(names))
    stream.send(SelectSpeakerTryCountExceededEvent(ATTEMPTS + 1, names))
    return None


async def _asked(agents: Sequence[Agent], context: MessageContext | None) -> Agent | None:
    """The agent whom somebody chooses, from wherever they answer."""
    step, names = NumberedStep.begin("speaker"), names_of(agents)
    question = Question(
        text=f"{ASKED} ({MEANING})",
        name="speaker" if step is None else step.full_name,
        choices=(*names, NEXT),
        details={"kind": KIND},
    )
    chosen = await asking.ask_person(question, context)
    return None if chosen == NEXT else agents[names.index(chosen)]


@dataclass
class GroupChat(Group):
    """Agents who share one conversation. A `GroupChatManager` runs it.

    Attributes:
        agents: Who takes part; no two have one name.
        messages: What was said, oldest first.
        max_round: How many messages a run has at most, the first one included.
        admin_name: Name of the agent who speaks after a KeyboardInterrupt.
        func_call_filter: Whether after a message that calls functions only those speak who can execute them.
        select_speaker_message_template: System message for the model that chooses; `{roles}` and `{agentlist}` are
            replaced by str.format.
        select_speaker_prompt_template: What that model is told last; `{agentlist}` is replaced. None or "": the last
            message is repeated instead.
        select_speaker_auto_multiple_template: What it is told when it named several agents.
        select_speaker_auto_none_template: What it is told when it named none.
        speaker_selection_method: "auto" (a model chooses), "manual", "random" or "round_robin" in any case, or a function
            of the last speaker and this group chat, which may be async and returns an agent, a method, or None to end.
        max_retries_for_selecting_speaker: How often the model is asked again.
        allow_repeat_speaker: Whether somebody may speak twice in a row, or who may; None: yes.
        allowed_or_disallowed_speaker_transitions: For each agent those who may, or may not, speak next. An agent whose
            list is empty ends the chat. AG2 lets everybody speak then.
        speaker_transitions_type: "allowed" or "disallowed", in any case.
        enable_clear_history: Whether "clear history" in an answer clears histories.
        send_introductions: Whether everybody is told at the start who takes part.
        role_for_select_speaker_messages: Role of what the model is told; "system" or "user".
        select_speaker_transform_messages: Changes what the model reads.
        select_speaker_auto_verbose: Whether the model's answers are shown.
        select_speaker_auto_llm_config: The model that chooses; None: that of the manager.
        select_speaker_auto_model_client_cls: Classes of clients that this config names.
        eligibility_policies: Further rules of who may speak; all have to agree.

    Raises:
        GroupChatDeclarationError: It can't be like this (a ValueError).
        TransitionError: The transitions name somebody who is not in the group (a ValueError). AG2 lets them speak.
    """

    def __post_init__(self) -> None:
        if self.speaker_transitions_type is not None:
            self.speaker_transitions_type = self.speaker_transitions_type.lower()
        if self.allowed_or_disallowed_speaker_transitions is None and self.allow_repeat_speaker is None:
            self.allow_repeat_speaker = True
        check(self)
        self.select_speaker_prompt_template = self.select_speaker_prompt_template or None
        self.allowed_speaker_transitions_dict = graph_of(self)

    def for_conversation(self) -> GroupChat:
        """The same for another conversation, in which nothing was said."""
        mine = copy(self)
        mine.messages = []
        return mine

    def take_notes(self) -> list[Note]:
        """What is told to members alone since the last time; here: nothing."""
        return []

    # Choosing a speaker

    def manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one whom a person chooses; None: nobody."""
        return wait_for(self.a_manual_select_speaker(agents))

    async def a_manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one whom a person chooses; None: nobody."""
        return await choose_manually(self.agents if agents is None else agents)

    def random_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """Any of them."""
        return random.choice(self.agents if agents is None else agents)

    def select_speaker(self, last_speaker: Agent, selector: Selector) -> Agent:
        """Who speaks next; see `a_select_speaker`."""
        return wait_for(self.a_select_speaker(last_speaker, selector))

    async def a_select_speaker(self, last_speaker: Agent, selector: Selector) -> Agent:
        """Who speaks next.

        Where nothing is chosen by hand, the next one in the order of the group speaks, however "manual" is written; in AG2
        a model is asked if it is not written in lower case.

        Args:
            last_speaker: Who spoke last; it may be from outside.
            selector: The manager, whose model chooses.

        Raises:
            NoEligibleSpeakerError: Nobody may speak.
            SpeakerSelectionError: The group chat is set up in a way that can't work (a ValueError).
        """
        found = await candidates(self, last_speaker)
        if not found.method:
            return found.agents[0]
        if found.method == "auto":
            return await self.a_auto_select_speaker(last_speaker, selector, self.messages, found.agents)
        if found.method == "random":
            return self.random_select_speaker(found.agents) or found.agents[0]
        chosen = await choose_manually(found.agents) if found.method == "manual" else None
        return chosen or self.next_agent(last_speaker, found.agents)

    async def a_auto_select_speaker(
        self,
        last_speaker: Agent,
        selector: Selector,
        messages: Sequence[Message] | None,
        agents: Sequence[Agent] | None,
    ) -> Agent:
        """The one whom a model names; the next one in the order of the group, if it names nobody or several too often.

        Args:
            last_speaker: Who spoke last.
            selector: The manager.
            messages: What was said.
            agents: Who may be chosen; None: everybody.
        """
        among = self.agents if agents is None else agents
        name = await choose_by_model(self, selector, messages or [], among)
        return next((agent for agent in among if agent.name == name), None) or self.next_agent(
            last_speaker, among
        )

    def _mentioned_agents(self, message_content: Any, agents: Sequence[Agent] | None) -> dict[str, int]:
        """How often a text names each agent; AG2's name for `mentioned_agents`."""
        return mentioned_agents(message_content, self.agents if agents is None else agents)
