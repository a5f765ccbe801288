"""Members, messages and texts of a group, the transitions and policies between its members, and the checks of all that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from callboard.agents.base import ChatAgent
from callboard.models.base import ChatCompletionClient

from .errors import (
    AgentNameConflictError,
    GroupChatDeclarationError,
    NoEligibleSpeakerError,
    TransitionError,
    UndefinedNextAgentError,
)
from .messages import Agent, Message, check_agents, names_of
from .model import TransformMessages

MESSAGE: Final = (
    "This is a role play game with the following roles:\n{roles}\n\n"
    "Read the conversation below, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
PROMPT: Final = (
    "Read the conversation above, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
_RULES: Final = """\
1. Where the text speaks of itself as a speaker, such as "As the...", it is that speaker.
2. Where it names the "next" speaker, it is that one.
3. Else it is the speaker who is named first."""
MULTIPLE: Final = f"""\
Your answer names more than one speaker, and one is needed. These rules say which, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed.
Answer with the name of the speaker, without a reason."""
NONE: Final = f"""\
Your answer names no speaker. These rules say which it is, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed. The names that count are {{agentlist}}.
Answer with the name of the speaker, without a reason."""
INTRODUCTION: Final = "Hello, everybody. These are the members of this group, and what each of them does:"

log = logging.getLogger(__name__)

Graph = dict[Agent, list[Agent]]


def full_graph(agents: Sequence[Agent], repeats: Sequence[Agent]) -> Graph:
    """Everybody may speak after everybody else.

    Args:
        agents: The group.
        repeats: Who may speak twice in a row.
    """
    graph = {agent: [other for other in agents if other is not agent] for agent in agents}
    for agent in repeats:
        _check_key(agent, agents)
        graph[agent].append(agent)
    return graph


def without(disallowed: Mapping[Agent, Sequence[Agent]], agents: Sequence[Agent]) -> Graph:
    """Everybody may speak after everybody, but for what is disallowed.

    Raises:
        TransitionError: An agent that is not of the group is named (a ValueError and a KeyError).
    """
    check_graph(disallowed, agents)
    graph = full_graph(agents, agents)
    for agent, refused in disallowed.items():
        graph[agent] = [other for other in agents if other not in refused]
    return graph


def check_graph(graph: Mapping[Agent, Any], agents: Sequence[Agent]) -> None:
    """Refuse a graph that names others than the group. AG2 accepts them as values, and chooses them then.

    Raises:
        TransitionError: What is wrong (a ValueError and a KeyError).
    """
    if not isinstance(graph, Mapping):
        raise TransitionError("a dictionary of agents and lists of agents is needed.")
    for agent, others in graph.items():
        _check_key(agent, agents)
        if not isinstance(others, list) or not all(isinstance(other, ChatAgent) for other in others):
            raise TransitionError(f"what follows {agent.name!r} must be a list of agents.")
        outside = [other.name for other in others if other not in agents]
        if outside:
            raise TransitionError(f"{outside} may not follow {agent.name!r}: not in the group.")


def _check_key(agent: Any, agents: Sequence[Agent]) -> None:
    if agent not in agents:
        raise TransitionError(f"{getattr(agent, 'name', agent)!r} is not in the group.")


def warn_of_oddities(graph: Graph, agents: Sequence[Agent]) -> None:
    """Log what is allowed and probably not meant: agents that nobody can reach, agents left out, names given twice."""
    if any(graph.values()):
        reached = {id(other) for others in graph.values() for other in others}
        isolated = [agent for agent in agents if not graph.get(agent) and id(agent) not in reached]
        if isolated:
            log.warning("isolated agents in the speaker transitions: %s", names_of(isolated))
    missing = [agent for agent in agents if agent not in graph]
    if missing:
        log.warning("agents without speaker transitions end the chat: %s", names_of(missing))
    for agent, others in graph.items():
        if len({id(other) for other in others}) < len(others):
            log.warning("the speaker transitions of %s name an agent twice", agent.name)


@dataclass(frozen=True)
class SelectionContext:
    """What a policy is told.

    Attributes:
        round: How many messages there are so far; 1 when a chat begins.
        last_speaker: Who spoke last; None: nobody.
        participants: The names of the whole group.
    """

    round: int
    last_speaker: str | None
    participants: tuple[str, ...]


@runtime_checkable
class AgentEligibilityPolicy(Protocol):
    """Says whether an agent may speak next."""

    def is_eligible(self, agent: Agent, ctx: SelectionContext) -> bool:
        """Whether it may."""
        ...


def eligible(
    agents: Sequence[Agent], policies: Sequence[AgentEligibilityPolicy], context: SelectionContext
) -> list[Agent]:
    """The agents whom every policy lets speak.

    Raises:
        NoEligibleSpeakerError: There are none.
    """
    left = [agent for agent in agents if all(policy.is_eligible(agent, context) for policy in policies)]
    if not left:
        raise NoEligibleSpeakerError("The eligibility policies let nobody speak.")
    return left


@dataclass
class Group:
    """The part of a `GroupChat` that knows, and chooses nobody."""

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
            if isinstance(inner, Group):
                agents.extend(inner.nested_agents())
        return agents

    def next_agent(self, agent: Agent, agents: Sequence[Agent] | None = None) -> Agent:
        """The first one behind an agent in the order of the group, which begins again at its end.

        Args:
            agent: Who spoke last; the first of the group is next to somebody from outside.
            agents: Who may be next; None: everybody.

        Raises:
            UndefinedNextAgentError: Nobody of the group may, or somebody from outside may.
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
        """What that model is told last; "" without a template."""
        names = names_of(self.agents if agents is None else agents)
        return (self.select_speaker_prompt_template or "").replace("{agentlist}", f"{names}")

    def introductions_msg(self, agents: Sequence[Agent] | None = None) -> str:
        """A greeting with the names and descriptions of agents."""
        return f"{INTRODUCTION}\n\n{_roles(self.agents if agents is None else agents)}"


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


def check(chat: Group) -> None:
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


def graph_of(chat: Group) -> Graph:
    """Who may speak after whom in a group chat that was checked.

    Raises:
        TransitionError: Somebody is named who is not in the group (a ValueError).
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


def _check_transition_arguments(chat: Group) -> None:
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


def _check_type(chat: Group, field: str, expected: type) -> None:
    if not isinstance(getattr(chat, field), expected):
        raise GroupChatDeclarationError(f"{field} must be a {expected.__name__}.")
