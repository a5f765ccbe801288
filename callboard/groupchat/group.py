"""Who takes part in a group chat, what was said, and the texts about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callboard.models.base import ChatCompletionClient

from . import templates
from .agent import Agent, Message, names_of
from .errors import AgentNameConflictError, UndefinedNextAgentError
from .policies import AgentEligibilityPolicy
from .transforms import TransformMessages
from .transitions import Graph

log = logging.getLogger(__name__)


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
    select_speaker_message_template: str = templates.MESSAGE
    select_speaker_prompt_template: str | None = templates.PROMPT
    select_speaker_auto_multiple_template: str = templates.MULTIPLE
    select_speaker_auto_none_template: str = templates.NONE
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
        return f"{templates.INTRODUCTION}\n\n{_roles(self.agents if agents is None else agents)}"


def _roles(agents: Sequence[Agent]) -> str:
    for agent in agents:
        if not agent.description.strip():
            log.warning("the agent %s has no description", agent.name)
    return "\n".join(f"{agent.name}: {agent.description}".strip() for agent in agents)
