"""Patterns: who takes part in a group chat, and how they hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, Self

from callboard.agents.copying import twin_of
from callboard.groupchat.agent import Agent, Message
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.handoffs.on_condition import check_target
from callboard.groupchat.handoffs.other_targets import TerminateTarget
from callboard.groupchat.handoffs.target import TransitionTarget
from callboard.groupchat.result import ChatResult
from callboard.groupchat.team import GroupChatTeam
from callboard.protocol import AgentRuntime

from .manager import PatternManager
from .preparing import TEMPORARY_USER, Given, prepare, release, temporary_user

MAX_ROUNDS = 20


class Pattern:
    """Who takes part in a group chat, and how they hand over. `initiate_group_chat` lets them chat; `team` is for the bus.

    A hidden agent executes what the others call. All agents share one set of context variables.

    Args:
        initial_agent: Who speaks first.
        agents: Who takes part.
        user_agent: The user's agent.
        group_manager_args: For the GroupChatManager, such as "llm_config" and "is_termination_msg".
        context_variables: What the agents share, as it is in the beginning.
        group_after_work: Who is next, where an agent hands over to nobody and has nothing to do after work; None: the chat
            is over.
        exclude_transit_message: Whether no agent sees the calls of tools that hand over.
        summary_method: See `ConversableAgent.a_initiate_chat`.

    Raises:
        HandoffError: `group_after_work` is no target, or an agent no ConversableAgent (a TypeError and a ValueError).
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        group_after_work: TransitionTarget | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        _check([initial_agent, *agents, *([] if user_agent is None else [user_agent])])
        self.initial_agent = initial_agent
        self.agents = list(agents)
        self.user_agent = user_agent
        self.group_manager_args = dict(group_manager_args or {})
        self.context_variables = ContextVariables() if context_variables is None else context_variables
        self.group_after_work: TransitionTarget = TerminateTarget()
        if group_after_work is not None:
            check_target(group_after_work)
            self.group_after_work = group_after_work
        self.exclude_transit_message = exclude_transit_message
        self.summary_method = summary_method

    @property
    def members(self) -> list[ConversableAgent]:
        """The agents without the user's, if that was among them."""
        return [agent for agent in self.agents if agent is not self.user_agent]

    def everybody(self) -> list[ConversableAgent]:
        """The agents and the user's."""
        return [*self.members, *([] if self.user_agent is None else [self.user_agent])]

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """What takes the place of what agents do after work, by their names; here: nothing does."""
        return {}

    def manager_args(self) -> Mapping[str, Any]:
        """For the manager."""
        return self.group_manager_args

    def team(
        self,
        *,
        name: str | None = None,
        max_rounds: int = MAX_ROUNDS,
        runtime: AgentRuntime | None = None,
        conversation: str = "default",
        **options: Any,
    ) -> GroupChatTeam:
        """The same for the bus, where the manager and each agent may have a process of its own; for `App.team`.

        Context variables travel with the messages, so their values have to fit into JSON there.

        Args:
            name: Of the team and its manager; None: that of `group_manager_args`, else "chat_manager".
            max_rounds: How many messages a run has at most.
            runtime: The bus.
            conversation: Id of the conversation that `run` is about.
            **options: See BaseGroupChat.

        Raises:
            HandoffError: See `prepare_group_chat` (a ValueError).
        """
        named = {} if name is None else {"name": name}
        users = [] if self.user_agent is None else [self.user_agent]
        # The agents may be in a chat of this process meanwhile.
        before = [(agent, agent.part, agent.context_variables) for agent in self.everybody()]
        manager = prepare(self._given(named), max_rounds, users)
        try:
            return manager.team(runtime=runtime, conversation=conversation, **options)
        finally:
            release(manager)
            for agent, part, variables in before:
                agent.part, agent.context_variables = part, variables

    async def chat(
        self, messages: Sequence[Message] | str, max_rounds: int = MAX_ROUNDS, *, silent: bool | None = False
    ) -> tuple[ChatResult, ContextVariables, Agent | None]:
        """Let them chat in this process; see `a_initiate_group_chat`."""
        busy = next((agent.name for agent in self.everybody() if agent.part is not None), None)
        if busy is not None:
            raise HandoffError(
                f"{busy!r} is in a group chat that is under way: chats side by side are runs, which copy the agents "
                "(a_run_group_chat)."
            )
        # What nobody has said by name, the user has: also when a chat goes on from the messages of an earlier one.
        user = TEMPORARY_USER if self.user_agent is None else self.user_agent.name
        given = [{**one, "name": one.get("name") or user} for one in _messages(messages)]
        manager, starter = self.prepare_group_chat(max_rounds, given)
        try:
            last, is_new = given[-1], len(given) == 1
            if not is_new:
                starter, last = await manager.a_resume(given, silent=True)
            result = await starter.a_initiate_chat(
                manager, clear_history=is_new, silent=silent, summary_method=self.summary_method, message=last
            )
        finally:
            release(manager)
        for message in result.chat_history:
            if message.get("name") == TEMPORARY_USER:
                del message["name"]
        return result, self.context_variables, manager.last_speaker

    def prepare_group_chat(
        self, max_rounds: int, messages: Sequence[Message]
    ) -> tuple[PatternManager, ConversableAgent]:
        """The manager of a new group chat in this process, and who says the first message.

        Args:
            max_rounds: How many messages it has at most.
            messages: How it begins.

        Raises:
            HandoffError: A target is not in the group, or the first message is of somebody who is not, or a user or a model
                is missing (a ValueError).
        """
        users = [self.user_agent] if self.user_agent is not None else []
        if not users and any((one.get("name") or TEMPORARY_USER) == TEMPORARY_USER for one in messages):
            users = [temporary_user()]
        manager = prepare(self._given({}), max_rounds, users)
        name = messages[0].get("name")
        if not name:
            return manager, users[0] if users else manager
        found = manager.groupchat.agent_by_name(name)
        if not isinstance(found, ConversableAgent):
            release(manager)
            raise HandoffError(f"The first message is of {name!r}, who is not in the group.")
        return manager, found

    def for_conversation(self) -> Self:
        """The same with copies of the agents, which remember nothing."""
        mine, twins = copy(self), {agent: twin_of(agent) for agent in [self.initial_agent, *self.everybody()]}
        for twin in twins.values():
            twin.part = None
        mine.initial_agent = twins[self.initial_agent]
        mine.agents = [twins[agent] for agent in self.members]
        mine.user_agent = None if self.user_agent is None else twins[self.user_agent]
        mine.context_variables = deepcopy(self.context_variables)
        return mine

    def _given(self, named: Mapping[str, Any]) -> Given:
        args = {**self.manager_args(), **named}
        if "groupchat" in args:
            raise HandoffError("'groupchat' can't be in group_manager_args: the pattern makes it.")
        return Given(
            initial=self.initial_agent,
            agents=self.members,
            user=self.user_agent,
            manager_args=args,
            context_variables=self.context_variables,
            after_works=self.after_works(),
            group_after_work=self.group_after_work,
            hides_transits=self.exclude_transit_message,
        )


class DefaultPattern(Pattern):
    """What the agents hand over by decides alone."""


def _messages(given: Sequence[Message] | str) -> list[Message]:
    messages = (
        [{"role": "user", "content": given}] if isinstance(given, str) else [dict(one) for one in given]
    )
    if not messages:
        raise HandoffError("A group chat begins with a message: there is none.")
    return messages


def _check(agents: Sequence[object]) -> None:
    for agent in agents:
        if not isinstance(agent, ConversableAgent):
            raise HandoffError(
                f"A pattern is made of ConversableAgents, and not of a {type(agent).__name__}. Other chat agents hand over "
                "in teams: Swarm, or GraphFlow."
            )
