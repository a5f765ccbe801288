"""The group chat, and the choice of its next speaker: by rules, a function, a person or a model."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
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

from .errors import (
    AgentNameConflictError,
    GroupChatDeclarationError,
    NoEligibleSpeakerError,
    UndefinedNextAgentError,
)
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
from .messages import Agent, Message, Note, check_agents, functions_of, names_of, text_of
from .model import TransformMessages, client_of, to_model
from .transitions import (
    INTRODUCTION,
    MESSAGE,
    MULTIPLE,
    NONE,
    PROMPT,
    AgentEligibilityPolicy,
    Graph,
    SelectionContext,
    check_graph,
    eligible,
    full_graph,
    warn_of_oddities,
    without,
)

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


async def candidates(chat: GroupChat, last_speaker: Agent) -> Candidates:
    """Who may speak after an agent, by the function that the user wrote and the rules of the group chat.

    Raises:
        NoEligibleSpeakerError: No agent may.
        GroupChatDeclarationError: The group chat is set up in a way that can't work (a ValueError).
    """
    chosen = await _by_function(chat, last_speaker)
    if isinstance(chosen, ChatAgent):
        return Candidates([chosen])
    method = str(chosen).lower()
    if method not in METHODS:
        raise GroupChatDeclarationError(
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


async def _by_function(chat: GroupChat, last_speaker: Agent) -> Any:
    """The agent or method that a function chooses, else the method."""
    method = chat.speaker_selection_method
    if not callable(method):
        return method
    chosen = await value_of(method(last_speaker, chat))
    if chosen is None:
        raise NoEligibleSpeakerError("The speaker selection function chose no agent.")
    if isinstance(chosen, ChatAgent) and chosen not in chat.agents:
        raise GroupChatDeclarationError(
            f"The speaker selection function chose {chosen.name!r}, who is not in the group chat."
        )
    if not isinstance(chosen, ChatAgent | str):
        raise GroupChatDeclarationError(
            f"The speaker selection function returned a {type(chosen).__name__}; "
            "it can be an agent, the name of a method, or None."
        )
    return chosen


def _check_size(agents: Sequence[Agent], method: str, may_repeat: bool | None) -> None:
    if len(agents) < 2:
        raise GroupChatDeclarationError(
            f"The group chat is underpopulated with {len(agents)} agents: it needs two. Let them talk directly instead."
        )
    if len(agents) == 2 and method != "round_robin" and may_repeat:
        log.warning(
            "a group chat of 2 agents is underpopulated: consider round_robin or allow_repeat_speaker=False, "
            "unless an agent is meant to speak twice in a row"
        )


def _able(chat: GroupChat) -> list[Agent]:
    """Where the last message calls functions, those who can execute them, else those who can execute any."""
    last = chat.messages[-1] if chat.messages else {}
    if "function_call" not in last and "tool_calls" not in last:
        return list(chat.agents)
    names = _called(last)
    able = [agent for agent in chat.agents if set(names) <= set(functions_of(agent))]
    able = able or [agent for agent in chat.agents if functions_of(agent)]
    if not able:
        raise GroupChatDeclarationError(
            f"No agent can execute {', '.join(names)}. Please check the function_map of the agents."
        )
    return able


def _called(message: dict[str, Any]) -> list[str]:
    """The names of the functions that a message calls."""
    call = message.get("function_call")
    names = [str(call["name"])] if call else []
    calls = message.get("tool_calls") or ()
    return [*names, *(str(call["function"]["name"]) for call in calls if call["type"] == "function")]


def _following(chat: GroupChat, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
    """Those of them that may speak after an agent. An empty list of transitions is the end, as a missing one is."""
    if last_speaker not in chat.agents:
        return agents
    follow = chat.allowed_speaker_transitions_dict.get(last_speaker, [])
    left = [agent for agent in agents if agent in follow]
    if not left:
        raise NoEligibleSpeakerError(f"Nobody may speak after {last_speaker.name!r}.")
    return left


def _policed(chat: GroupChat, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
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
    chat: GroupChat, selector: Selector, messages: Sequence[Message], agents: Sequence[Agent]
) -> str | None:
    """The name of the one agent whom the model names.

    Until it names just one it is asked again, as often as the group chat says, and is told what was wrong.

    Args:
        chat: The group chat, with the texts.
        selector: Its manager; what the model spends counts for it. In AG2 it is counted nowhere.
        messages: What was said.
        agents: Who may be chosen.

    Returns:
        None: it named none or several, each time.

    Raises:
        GroupChatDeclarationError: There is no model (a ValueError).
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


def _client(chat: GroupChat, selector: Selector) -> ChatCompletionClient:
    if chat.selector_client is None:
        config, classes = chat.select_speaker_auto_llm_config, chat.select_speaker_auto_model_client_cls
        chat.selector_client = client_of(config, classes)
    client = chat.selector_client or selector.client
    if client is None:
        raise GroupChatDeclarationError(
            "No model can choose the next speaker: give the GroupChatManager a model (llm_config), "
            "or the group chat one of its own (select_speaker_auto_llm_config)."
        )
    return recorded(client)


def _prompts(chat: GroupChat, messages: Sequence[Message], agents: Sequence[Agent]) -> list[LLMMessage]:
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


def _again(chat: GroupChat, agents: Sequence[Agent], mentions: int) -> LLMMessage:
    multiple, none = chat.select_speaker_auto_multiple_template, chat.select_speaker_auto_none_template
    template = multiple if mentions else none
    text = template.format(agentlist=f"{names_of(agents)}")
    return to_model([_told(chat, text)], SELECTOR)[0]


def _told(chat: GroupChat, text: str) -> Message:
    return {"role": chat.role_for_select_speaker_messages, "name": CHECKER, "content": text}


ATTEMPTS: Final = 2
QUESTION: Final = "Number of the next speaker (nothing or `q`: the next one in the list): "
NO_CHOICE: Final = ("", "q")
ASKED: Final = "Who speaks next?"
NEXT: Final = "q"
MEANING: Final = "`q`: the next one in the list"
KIND: Final = "speaker"


async def choose_manually(agents: Sequence[Agent]) -> Agent | None:
    """The agent whose number a person enters. On the bus the question waits for its answer without a process.

    Returns:
        None: the person chose none, or gave two wrong answers.
    """
    context = running_context()
    if not is_given() and can_ask(context):
        return await _asked(agents, context)
    stream, names = IOStream.get_default(), names_of(agents)
    stream.send(SelectSpeakerEvent(names))
    for _ in range(ATTEMPTS):
        answer = (await ask_person(QUESTION)).strip()
        if answer in NO_CHOICE:
            return None
        if answer.isdecimal() and 1 <= int(answer) <= len(agents):
            return agents[int(answer) - 1]
        stream.send(SelectSpeakerInvalidInputEvent(names))
    stream.send(SelectSpeakerTryCountExceededEvent(ATTEMPTS + 1, names))
    return None


async def _asked(agents: Sequence[Agent], context: MessageContext | None) -> Agent | None:
    """The agent that a person chooses, from wherever they answer."""
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
class GroupChat:
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
        allow_repeat_speaker: Whether an agent may speak twice in a row, or who may; None: yes.
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
        GroupChatDeclarationError: It can't be like this, or the transitions name an agent that is not in the group (a
            ValueError). AG2 lets such an agent speak.
    """

    agents: Sequence[Agent]
    messages: list[Message] = field(default_factory=list)
    max_round: int = 10
    admin_name: str = "Admin"
    func_call_filter: bool = True
    speaker_selection_method: str | Callable[..., Any] = "auto"
    max_retries_for_selecting_speaker: int = 2
    allow_repeat_speaker: bool | list[Any] | None = None
    allowed_or_disallowed_speaker_transitions: Mapping[Any, Sequence[Agent]] | None = None
    speaker_transitions_type: str | None = None
    enable_clear_history: bool = False
    send_introductions: bool = False
    select_speaker_message_template: str = MESSAGE
    select_speaker_prompt_template: str | None = PROMPT
    select_speaker_auto_multiple_template: str = MULTIPLE
    select_speaker_auto_none_template: str = NONE
    select_speaker_transform_messages: TransformMessages | None = None
    select_speaker_auto_verbose: bool = False
    select_speaker_auto_llm_config: Any = None
    select_speaker_auto_model_client_cls: Any = None
    role_for_select_speaker_messages: str = "system"
    eligibility_policies: Sequence[AgentEligibilityPolicy] = field(default_factory=list)

    allowed_speaker_transitions_dict: Graph = field(init=False)
    selector_client: ChatCompletionClient | None = field(init=False, default=None, repr=False)

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
        """Notes for single members since the last time; here: none."""
        return []

    # Messages

    @property
    def agent_names(self) -> list[str]:
        """The names of the agents."""
        return names_of(self.agents)

    def reset(self) -> None:
        """Forget all messages."""
        self.messages.clear()

    def append(self, message: Message, speaker: Agent) -> None:
        """Add a message, with the name of its speaker unless its role is "function".

        Args:
            message: The message, which itself is not changed. A content that is neither a text nor a list becomes a text.
            speaker: Who said it.

        Raises:
            KeyError: It has no role or no content.
        """
        content, role = message["content"], message["role"]
        kept = {**message, "content": content if isinstance(content, str | list) else str(content)}
        self.messages.append(kept if role == "function" else {**kept, "name": speaker.name})

    # Agents

    def agent_by_name(
        self, name: str, recursive: bool = False, raise_on_name_conflict: bool = False
    ) -> Agent | None:
        """The first agent of a name; None: there is none.

        Args:
            name: The name.
            recursive: Whether the groups are searched as well whose managers take part in this one.
            raise_on_name_conflict: Whether several agents of the name are an error.

        Raises:
            AgentNameConflictError: There are several.
        """
        agents = self.nested_agents() if recursive else self.agents
        found = [agent for agent in agents if agent.name == name]
        if raise_on_name_conflict and len(found) > 1:
            raise AgentNameConflictError(name)
        return found[0] if found else None

    def nested_agents(self) -> list[Agent]:
        """The agents of this group, and behind each manager those of its group."""
        agents: list[Agent] = []
        for agent in self.agents:
            agents.append(agent)
            inner = getattr(agent, "groupchat", None)
            if isinstance(inner, GroupChat):
                agents.extend(inner.nested_agents())
        return agents

    def next_agent(self, agent: Agent, agents: Sequence[Agent] | None = None) -> Agent:
        """The first one behind an agent in the order of the group, which begins again at its end.

        Args:
            agent: Who spoke last; the first of the group is next to an agent from outside.
            agents: Who may be next; None: everybody.

        Raises:
            UndefinedNextAgentError: No agent of the group may, or one from outside may.
        """
        allowed = self.agents if agents is None else agents
        if not allowed or not all(other in self.agents for other in allowed):
            raise UndefinedNextAgentError
        start = self.agents.index(agent) + 1 if agent in self.agents else 0
        return next(other for other in [*self.agents[start:], *self.agents[:start]] if other in allowed)

    # Texts

    def select_speaker_msg(self, agents: Sequence[Agent] | None = None) -> str:
        """The system message for the model that chooses a speaker.

        Raises:
            KeyError: The template has something else in braces than `{roles}` and `{agentlist}`.
        """
        some = self.agents if agents is None else agents
        return self.select_speaker_message_template.format(roles=_roles(some), agentlist=f"{names_of(some)}")

    def select_speaker_prompt(self, agents: Sequence[Agent] | None = None) -> str:
        """The last message to that model; "" without a template."""
        names = names_of(self.agents if agents is None else agents)
        return (self.select_speaker_prompt_template or "").replace("{agentlist}", f"{names}")

    def introductions_msg(self, agents: Sequence[Agent] | None = None) -> str:
        """A greeting with the names and descriptions of agents."""
        return f"{INTRODUCTION}\n\n{_roles(self.agents if agents is None else agents)}"

    # Choosing a speaker

    def manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one that a person chooses; None: none."""
        return wait_for(self.a_manual_select_speaker(agents))

    async def a_manual_select_speaker(self, agents: Sequence[Agent] | None = None) -> Agent | None:
        """The one that a person chooses; None: none."""
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
            NoEligibleSpeakerError: No agent may speak.
            GroupChatDeclarationError: The group chat is set up in a way that can't work (a ValueError).
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
        """The one whom a model names; the next one in the order of the group, if it names none or several too often.

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


def _roles(agents: Sequence[Agent]) -> str:
    for agent in agents:
        if not agent.description.strip():
            log.warning("the agent %s has no description", agent.name)
    return "\n".join(f"{agent.name}: {agent.description}".strip() for agent in agents)


ALLOWED: Final = "allowed"
DISALLOWED: Final = "disallowed"
NEEDED: Final = (
    "select_speaker_message_template",
    "role_for_select_speaker_messages",
    "select_speaker_auto_multiple_template",
    "select_speaker_auto_none_template",
)


def check(chat: GroupChat) -> None:
    """Refuse a group chat that can't be.

    Raises:
        GroupChatDeclarationError: What is wrong (a ValueError).
    """
    check_agents(chat.agents)
    _check_names(chat.agents)
    _check_transition_arguments(chat)
    for name in NEEDED:
        if not getattr(chat, name):
            raise GroupChatDeclarationError(f"{name} cannot be empty or None.")
    _check_retries(chat.max_retries_for_selecting_speaker)
    _check_type(chat, "select_speaker_auto_verbose", bool)
    if chat.select_speaker_transform_messages is not None:
        _check_type(chat, "select_speaker_transform_messages", TransformMessages)
    for policy in chat.eligibility_policies:
        if not isinstance(policy, AgentEligibilityPolicy):
            raise GroupChatDeclarationError(
                f"{type(policy).__name__} in eligibility_policies has no is_eligible."
            )


def graph_of(chat: GroupChat) -> Graph:
    """Who may speak after whom in a group chat that was checked.

    Raises:
        GroupChatDeclarationError: An agent is named that is not in the group (a ValueError).
    """
    given, repeats = chat.allowed_or_disallowed_speaker_transitions, chat.allow_repeat_speaker
    if given is None:
        repeating = repeats if isinstance(repeats, list) else chat.agents if repeats else []
        graph = full_graph(chat.agents, repeating)
    elif chat.speaker_transitions_type == ALLOWED:
        check_graph(given, chat.agents)
        graph = {agent: list(others) for agent, others in given.items()}
    else:
        graph = without(given, chat.agents)
    warn_of_oddities(graph, chat.agents)
    return graph


def _check_names(agents: Sequence[Agent]) -> None:
    names = names_of(agents)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise GroupChatDeclarationError(f"Agents of a group chat need unique names; given twice: {twice}.")


def _check_transition_arguments(chat: GroupChat) -> None:
    repeats, transitions = chat.allow_repeat_speaker, chat.allowed_or_disallowed_speaker_transitions
    if repeats is not None and not isinstance(repeats, bool | list):
        raise GroupChatDeclarationError("allow_repeat_speaker must be a bool, or a list of agents.")
    if chat.speaker_transitions_type not in (ALLOWED, DISALLOWED, None):
        raise GroupChatDeclarationError(
            f"speaker_transitions_type is {chat.speaker_transitions_type!r}; it can be 'allowed' or 'disallowed'."
        )
    if transitions is not None and repeats is not None:
        raise GroupChatDeclarationError(
            "allowed_or_disallowed_speaker_transitions and allow_repeat_speaker exclude each other."
        )
    if transitions is not None and chat.speaker_transitions_type is None:
        raise GroupChatDeclarationError(
            "speaker_transitions_type is needed with allowed_or_disallowed_speaker_transitions."
        )


def _check_retries(retries: Any) -> None:
    if not isinstance(retries, int) or isinstance(retries, bool):
        raise GroupChatDeclarationError("max_retries_for_selecting_speaker must be an integer.")
    if retries < 0:
        raise GroupChatDeclarationError("max_retries_for_selecting_speaker must not be negative.")


def _check_type(chat: GroupChat, field: str, expected: type) -> None:
    if not isinstance(getattr(chat, field), expected):
        raise GroupChatDeclarationError(f"{field} must be a {expected.__name__}.")
