"""The team that carries out a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from callboard.agents.chat_agent import ChatAgent
from callboard.conditions.base import TerminationCondition
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.manager import GroupChatManager
from callboard.groupchat.message import ConversationMessage
from callboard.groupchat.peer import Peer
from callboard.groupchat.termination import GroupChatTermination
from callboard.messages.chat import HandoffMessage
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.local import Participant
from callboard.teams.selection import SpeakerSelection
from callboard.tools.base import Tool
from callboard.tools.function import FunctionTool

from .chat_managers import ChatManagerProtocol, HandoffChatManager, RoundRobinChatManager
from .ending import EndRule, RunEnding
from .errors import RunDeclarationError
from .functions import agents_named_in
from .managed import ManagedSelection
from .seat import Seat

NAME_OF_RUN: Final = "run"
LONGEST_NAME: Final = 60  # characters of a team's name that is made of those of its members

ToolLike: TypeAlias = Tool | Callable[..., Any]


class RunTeam(BaseGroupChat):
    """A team as `run` makes it of agents. `run_team` makes one, for `App.team`.

    Args:
        participants: The members.
        manager: Decides who speaks next.
        **options: See BaseGroupChat.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        manager: ChatManagerProtocol | GroupChatManager,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            description="Agents that carry out a run.",
            manager_name="run_manager",
            custom_message_types=[ConversationMessage],
            emit_team_events=True,
            **options,
        )
        self._manager = manager

    def new_selection(self) -> SpeakerSelection:
        """The chat manager's, or one that asks it."""
        manager = self._manager
        if isinstance(manager, GroupChatManager):
            return manager.new_selection()
        own: Callable[[], SpeakerSelection] | None = getattr(manager, "new_selection", None)
        return ManagedSelection(manager) if own is None else own()


def run_team(
    *agents: Participant,
    name: str | None = None,
    chat_manager: ChatManagerProtocol | GroupChatManager | None = None,
    max_turns: int | None = None,
    termination: TerminationCondition | None = None,
    tools: Sequence[ToolLike] | None = None,
    is_termination_message: Callable[[str], Any] | None = None,
) -> BaseGroupChat:
    """The team that `run` makes of agents, so that an `App` can declare it, and its runs survive the death of any process.

    Args:
        *agents: See `run`.
        name: Of the team; None: made of the names of the agents.
        chat_manager: Decides who speaks next; None: round robin, or whom the agents hand over to.
        max_turns: How many turns a run has at most.
        termination: What else ends it.
        tools: Tools and functions that its ConversableAgents may call besides their own.
        is_termination_message: Whether a text that is said is the last one.

    Returns:
        The team. A single team, for which nothing else is given, is returned as it is.

    Raises:
        RunDeclarationError: It can't be made of these (a ValueError).
    """
    others = (chat_manager, max_turns, termination, tools, is_termination_message)
    if len(agents) == 1 and isinstance(agents[0], BaseGroupChat) and not any(others):
        return agents[0]
    members = _members(agents, chat_manager)
    manager = chat_manager or _usual_manager(members)
    if isinstance(manager, ChatManagerProtocol):
        known = {agent.name for agent in getattr(manager, "agents", ())}
        manager.register_agent([member for member in members if member.name not in known])  # type: ignore[misc]
    given = [tool if isinstance(tool, Tool) else FunctionTool(tool) for tool in tools or ()]
    return RunTeam(
        [_seat(member, given) for member in members],
        manager=manager,
        name=name or name_of(agents),
        max_turns=max_turns,
        termination_condition=_ending(
            agents, members, manager, max_turns, termination, is_termination_message
        ),
    )


def _members(
    agents: Sequence[Participant], manager: ChatManagerProtocol | GroupChatManager | None
) -> list[Participant]:
    """The agents, those of the manager, and those whom their functions can hand over to."""
    found: dict[str, Participant] = {}
    waiting = list(agents)
    if isinstance(manager, GroupChatManager):
        _check_group(agents, manager)
        waiting = list(manager.groupchat.agents)
    elif manager is not None:
        waiting += [agent for agent in getattr(manager, "agents", ()) if agent not in waiting]
    while waiting:
        agent = waiting.pop(0)
        known = found.setdefault(agent.name, agent)
        if known is not agent:
            raise RunDeclarationError(
                f"Two agents have the name {agent.name!r}: give one of them another name."
            )
        if isinstance(agent, Peer):
            waiting += [other for other in agents_named_in(agent) if found.get(other.name) is not other]
    if not found:
        raise RunDeclarationError("Nobody is to run: give run() an agent.")
    return list(found.values())


def _check_group(agents: Sequence[Participant], manager: GroupChatManager) -> None:
    names = manager.groupchat.agent_names
    strangers = [agent.name for agent in agents if agent.name not in names]
    if strangers:
        raise RunDeclarationError(
            f"{strangers[0]!r} is not in the group chat of the manager {manager.name!r}: it has {names}."
        )


def _usual_manager(members: Sequence[Participant]) -> ChatManagerProtocol:
    """Round robin; where somebody can hand over, whoever is handed over to."""
    return HandoffChatManager() if any(map(_hands_over, members)) else RoundRobinChatManager()


def _hands_over(member: Participant) -> bool:
    if isinstance(member, Peer):
        return bool(agents_named_in(member))
    return isinstance(member, ChatAgent) and HandoffMessage in member.produced_message_types


def _seat(member: Participant, tools: Sequence[Tool]) -> Participant:
    if isinstance(member, Peer):
        return Seat(member, tools)
    if tools:
        raise RunDeclarationError(
            f"{member.name!r} is a {type(member).__name__}, which run() can give no tools: give them to it when you make it."
        )
    return member


def _ending(
    agents: Sequence[Participant],
    members: Sequence[Participant],
    manager: ChatManagerProtocol | GroupChatManager,
    max_turns: int | None,
    termination: TerminationCondition | None,
    is_termination_message: Callable[[str], Any] | None,
) -> TerminationCondition:
    rules = [
        _rule_of(member, len(members) == 1) for member in members if isinstance(member, ConversableAgent)
    ]
    if is_termination_message is not None:
        rules.append(EndRule("the run", is_termination_message, takes_text=True))
    own = None if isinstance(manager, GroupChatManager) else getattr(manager, "is_termination_msg", None)
    if own is not None:
        rules.append(EndRule("the chat manager", own))
    more = [termination, getattr(manager, "terminate_on", None), _of_group(manager)]
    is_limited = bool(
        is_termination_message
        or own
        or max_turns
        or any(one is not None for one in more)
        or any(isinstance(member, ConversableAgent) and member.ends_by_itself for member in members)
    )
    asks_once = len(agents) == 1 or isinstance(manager, HandoffChatManager)
    ending: TerminationCondition = RunEnding(
        rules, members={member.name for member in members}, answers=asks_once and not is_limited
    )
    for one in more:
        ending = ending if one is None else ending | one
    return ending


def _rule_of(member: ConversableAgent, is_alone: bool) -> EndRule:
    return EndRule(member.name, member.is_termination_msg, hears_itself=is_alone)


def _of_group(manager: ChatManagerProtocol | GroupChatManager) -> TerminationCondition | None:
    if not isinstance(manager, GroupChatManager):
        return None
    return GroupChatTermination(manager.is_termination_msg, manager.name, manager.groupchat.max_round)


def name_of(agents: Sequence[Participant]) -> str:
    """The name of a team that was given none: made of those of its members."""
    names = "_".join(agent.name for agent in agents)
    return f"{NAME_OF_RUN}_{names}"[:LONGEST_NAME]
