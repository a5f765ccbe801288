"""The team that carries out a run, with the seats of its agents and the rule by which it ends."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from callboard.agents.base import BaseChatAgent, ChatAgent, Response, Said, response_of
from callboard.conditions.base import Messages, TerminationCondition
from callboard.conditions.triggers import LatchedTermination
from callboard.core.cancellation import CancellationToken
from callboard.errors import DeclarationError
from callboard.foundation.tasks import together
from callboard.groupchat.context_variables import changes, current_variables, in_force, snapshot, take_over
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.events import value_of
from callboard.groupchat.manager import GroupChatManager
from callboard.groupchat.messages import ConversationMessage, Message
from callboard.groupchat.model import ModelUsage
from callboard.groupchat.replies import Executable, execute, run_tool, share_variables
from callboard.groupchat.selection import GroupChatTermination
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.chat import BaseChatMessage, HandoffMessage, StopMessage
from callboard.messages.events import ToolCallExecutionEvent, ToolCallRequestEvent
from callboard.models.types import RequestUsage
from callboard.runtime.steps import running_context
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.loop import Participant, SpeakerSelection
from callboard.tools.base import Tool
from callboard.tools.function import FunctionTool
from callboard.tools.workbench import result_of

from . import projection as variables
from .chat_managers import ChatManagerProtocol, HandoffChatManager, ManagedSelection, RoundRobinChatManager
from .projection import MODEL, message_of

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
        The team. A single team is returned as it is, or with these limits besides its own.

    Raises:
        DeclarationError: It can't be made of these (a ValueError).
    """
    others = (chat_manager, max_turns, termination, tools, is_termination_message)
    if len(agents) == 1 and isinstance(agents[0], BaseGroupChat):
        if not any(others):
            return agents[0]
        if chat_manager is None and not tools:
            limits = _limits(agents[0], termination, is_termination_message)
            return agents[0].limited(name or name_of(agents), max_turns=max_turns, termination=limits)
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


def _limits(
    team: BaseGroupChat,
    termination: TerminationCondition | None,
    is_termination_message: Callable[[str], Any] | None,
) -> TerminationCondition | None:
    """What ends a run of a team besides its own conditions."""
    if is_termination_message is None:
        return termination
    rule = EndRule("the run", is_termination_message, takes_text=True)
    ending: TerminationCondition = RunEnding([rule], members=set(_speakers(team)))
    return ending if termination is None else ending | termination


def _speakers(team: BaseGroupChat) -> Iterator[str]:
    for member in team.participants:
        if isinstance(member, BaseGroupChat):
            yield from _speakers(member)
        yield member.name


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
            raise DeclarationError(f"Two agents have the name {agent.name!r}: give one of them another name.")
        if isinstance(agent, ConversableAgent):
            waiting += [other for other in agents_named_in(agent) if found.get(other.name) is not other]
    if not found:
        raise DeclarationError("Nobody is to run: give run() an agent.")
    return list(found.values())


def _check_group(agents: Sequence[Participant], manager: GroupChatManager) -> None:
    names = manager.groupchat.agent_names
    strangers = [agent.name for agent in agents if agent.name not in names]
    if strangers:
        raise DeclarationError(
            f"{strangers[0]!r} is not in the group chat of the manager {manager.name!r}: it has {names}."
        )


def _usual_manager(members: Sequence[Participant]) -> ChatManagerProtocol:
    """Round robin; where an agent can hand over, the one that is handed over to."""
    return HandoffChatManager() if any(map(_hands_over, members)) else RoundRobinChatManager()


def _hands_over(member: Participant) -> bool:
    if isinstance(member, ConversableAgent):
        return bool(agents_named_in(member))
    if isinstance(member, BaseChatAgent):
        return member.hands_over
    return isinstance(member, ChatAgent) and HandoffMessage in member.produced_message_types


def _seat(member: Participant, tools: Sequence[Tool]) -> Participant:
    if isinstance(member, ConversableAgent):
        return RunMember(member, tools)
    if tools:
        raise DeclarationError(
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


class RunMember(BaseChatAgent):
    """Takes an agent's turns.

    Calls of functions that it has are executed, and its model asked again, until it says something. A function that returns
    an agent hands over to it. Calls of functions that it does not have are left to another member.

    Args:
        agent: The agent; its seat works with a copy, which remembers nothing.
        tools: What it may call besides, by name.
    """

    def __init__(self, agent: ConversableAgent, tools: Sequence[Tool] = ()) -> None:
        super().__init__(agent.name, agent.description)
        self._agent = agent.for_conversation()
        more = {tool.name: tool for tool in tools}
        self._agent.functions.offered += more.values()
        self._more = more
        self._members: Sequence[str] = (agent.name,)

    @property
    def agent(self) -> ConversableAgent:
        """The agent that sits here."""
        return self._agent

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, a StopMessage where there is no answer, and a HandoffMessage."""
        return (ConversationMessage, StopMessage, HandoffMessage)

    def on_joined(self, members: Sequence[str]) -> None:
        """Learn to whom its functions can hand over."""
        self._members = members
        self._agent.on_joined(members)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer; see `on_messages_stream`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Answer what was said since its last answer."""
        variables.apply(self._agent.context_variables, messages)
        before = snapshot(self._agent.context_variables)
        async for item in self._turn(messages, cancellation_token):
            if isinstance(item, Response):
                changed = variables.changes(before, self._agent.context_variables)
                item.chat_message.metadata.update(variables.written(changed))
            yield item

    async def _turn(
        self, messages: Sequence[BaseChatMessage], token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        heard, functions = messages, own_functions(self._agent, self._more)
        while True:
            said = await self._say(heard, token)
            calls = _calls_of(said, functions)
            if not calls:
                yield Response(chat_message=said)
                return
            asked = ToolCallRequestEvent(content=calls, source=self.name, models_usage=said.models_usage)
            asked.metadata.update(said.metadata)
            yield asked
            answers = await self._call_all(functions, calls)
            self._check_targets(calls, answers)
            yield _executed(self.name, calls, answers)
            answer = ConversationMessage(data=_tool_message(calls, answers), source=self.name)
            target = next((one for one in answers if one.target), None)
            if target is not None:
                self._agent.take_note(answer)
                handoff = HandoffMessage(content=target.text, target=target.target, source=self.name)
                yield Response(chat_message=handoff)
                return
            heard = [answer]

    async def _say(self, heard: Sequence[BaseChatMessage], token: CancellationToken) -> BaseChatMessage:
        before = ModelUsage.load(self._agent.usage.dump())
        with in_force(self._agent.context_variables):
            response = await self._agent.on_messages(heard, token)
        said = response.chat_message
        new = self._agent.usage.minus(before)
        used = {**new.cached, **new.paid}
        if used:
            said.models_usage = sum(used.values(), RequestUsage(0, 0))
            said.metadata[MODEL] = next(iter(used))
        return said

    async def _call_all(self, functions: Mapping[str, Tool], calls: Sequence[FunctionCall]) -> list[Called]:
        """Make all calls at the same time; those that share context variables one after the other."""
        with in_force(self._agent.context_variables):
            works = (call(functions, one.name, one.arguments) for one in calls)
            if share_variables(functions, [one.name for one in calls]):
                return [await work for work in works]
            return await together(works)

    def _check_targets(self, calls: Sequence[FunctionCall], answers: Sequence[Called]) -> None:
        for one, answer in zip(calls, answers, strict=True):
            if answer.target and answer.target not in self._members:
                raise DeclarationError(
                    f"The function {one.name!r} of {self.name!r} handed over to {answer.target!r}, who is none of "
                    f"{list(self._members)}: give it to run() as well."
                )

    # What it remembers is what the agent remembers

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget everything."""
        await self._agent.on_reset(cancellation_token)

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the agent."""
        return await self._agent.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        await self._agent.load_state(state)

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what the agent hears and says in a list."""
        self._agent.keep_context_in(messages)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """The memory of the agent beside it."""
        return await self._agent.save_beside_context()

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        await self._agent.load_beside_context(state)


def _calls_of(said: BaseChatMessage, functions: Collection[str]) -> list[FunctionCall]:
    """The calls in a message, if the agent has all the functions."""
    if not isinstance(said, ConversationMessage):
        return []
    calls = [
        FunctionCall(
            id=str(one.get("id", "")),
            name=one["function"]["name"],
            arguments=one["function"].get("arguments", ""),
        )
        for one in said.data.get("tool_calls") or ()
    ]
    return calls if all(one.name in functions for one in calls) else []


def _executed(
    source: str, calls: Sequence[FunctionCall], answers: Sequence[Called]
) -> ToolCallExecutionEvent:
    results = [
        FunctionExecutionResult(content=answer.text, name=one.name, call_id=one.id, is_error=answer.is_error)
        for one, answer in zip(calls, answers, strict=True)
    ]
    return ToolCallExecutionEvent(content=results, source=source)


def _tool_message(calls: Sequence[FunctionCall], answers: Sequence[Called]) -> dict[str, Any]:
    responses = [
        {"tool_call_id": one.id, "role": "tool", "content": answer.text}
        for one, answer in zip(calls, answers, strict=True)
    ]
    content = "\n\n".join(answer.text for answer in answers)
    return {"role": "tool", "tool_responses": responses, "content": content}


TRANSFERRED: Final = "Transferred to {target}."


@dataclass(frozen=True, slots=True)
class Called:
    """Result of a call.

    Attributes:
        text: For the model.
        is_error: Whether it failed.
        target: Name of the agent that the function returned: the conversation is handed over to it; "": none.
    """

    text: str
    is_error: bool = False
    target: str = ""


def own_functions(agent: ConversableAgent, more: Mapping[str, Tool]) -> dict[str, Tool]:
    """Functions of an agent: those that were registered with it, for execution or for its model.

    AG2 has one agent to call a function and another one to execute it; an agent that runs alone does both.

    Args:
        agent: The agent.
        more: Tools that it is given for the run.
    """
    tools = {tool.name: tool for tool in agent.functions.offered if isinstance(tool, Tool)}
    return {**tools, **more, **agent.functions.tools()}


async def call(functions: Mapping[str, Tool], name: str, arguments: str) -> Called:
    """Execute a function; on the bus what it returned is recorded.

    Args:
        functions: See `own_functions`.
        name: Its name.
        arguments: As a model wrote them.
    """
    executed = {name: _executable(functions[name])} if name in functions else {}
    is_done, text = await execute(executed, name, arguments)
    if not is_done:
        return Called(text, is_error=True)
    returned: dict[str, Any] = json.loads(text)
    # As in a pattern: an attempt that died after the call has left its record, and not its variables.
    # guard: what a function of a run has changed is changed when its record is read
    take_over(current_variables(), returned["changes"])
    return Called(returned["text"], target=returned.get("target", ""))


def agents_named_in(agent: ConversableAgent) -> list[ChatAgent]:
    """The agents whom the functions of an agent can name: they are variables of its functions."""
    tools = [getattr(tool, "function", None) for tool in agent.functions.offered]
    functions = [*agent.function_map.values(), *tools]
    found: list[ChatAgent] = []
    for function in functions:
        if inspect.isfunction(function):
            seen = inspect.getclosurevars(function)
            values = [*seen.nonlocals.values(), *seen.globals.values()]
            found += [value for value in values if isinstance(value, ChatAgent)]
    return found


def _executable(tool: Tool) -> Executable:
    async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
        before = snapshot(current_variables())
        value = await run_tool(tool, arguments)
        # In this process the variables are one object, which may hold anything.
        changed = {} if running_context() is None else changes(before, current_variables())
        # In an envelope of ours: a text that merely looks like a handoff is none.
        if isinstance(value, ChatAgent):
            said = {"text": TRANSFERRED.format(target=value.name), "target": value.name}
        else:
            said = {"text": result_of(tool, tool.name, value).to_text()}
        return {**said, "changes": changed}

    return run


OVER: Final = "Termination message condition on {who} met"
ANSWERED: Final = "{who} has answered."

IsOver = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class EndRule:
    """An agent that a message may tell that the run is over.

    Attributes:
        who: The name, for the reason.
        is_over: Is given the message, or its text; may be async.
        takes_text: Whether it is given the text.
        hears_itself: Whether it is asked about its own messages.
    """

    who: str
    is_over: IsOver
    takes_text: bool = False
    hears_itself: bool = False

    async def ends(self, message: Message) -> bool:
        """Whether this message is the end."""
        if not self.hears_itself and message["sender"] == self.who:
            return False
        return bool(await value_of(self.is_over(message["text"] if self.takes_text else message)))


class RunEnding(LatchedTermination):
    """Is reached by a message that one of the rules takes for the last one, and by a StopMessage.

    Args:
        rules: The rules.
        answers: Whether any message of a member is the last one: the run asks one question.
        members: Names of the members: what others say, such as a task, ends nothing.
    """

    def __init__(self, rules: Sequence[EndRule], *, members: Collection[str], answers: bool = False) -> None:
        super().__init__()
        self._rules = rules
        self._members = members
        self._answers = answers

    def __deepcopy__(self, memo: dict[int, Any]) -> RunEnding:
        """For another conversation; the functions stay the same."""
        return RunEnding(self._rules, members=self._members, answers=self._answers)

    async def reason(self, messages: Messages) -> str | None:
        """Why it ends."""
        for said in messages:
            if isinstance(said, StopMessage):
                return said.content
            if isinstance(said, BaseChatMessage) and not isinstance(said, HandoffMessage):
                reason = await self._reason(said)
                if reason is not None:
                    return reason
        return None

    async def _reason(self, said: BaseChatMessage) -> str | None:
        if said.source not in self._members:
            return None
        message = message_of(said)
        if message.get("tool_calls") or message.get("tool_responses"):
            return None
        for rule in self._rules:
            if await rule.ends(message):
                return OVER.format(who=rule.who)
        return ANSWERED.format(who=said.source) if self._answers else None
