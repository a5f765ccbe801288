"""The manager of a group chat: leads the group, makes a team of it for the bus, and goes on with earlier chats."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias

from callboard.agents.base import BaseChatAgent, ChatAgent, Response, TaskResult
from callboard.core.cancellation import CancellationToken
from callboard.core.protocol import AgentRuntime
from callboard.foundation.texts import read_json
from callboard.messages.chat import BaseChatMessage, StopMessage
from callboard.teams.errors import TeamRunError
from callboard.teams.loop import Choice, Floor, SpeakerSelection
from callboard.teams.states import VERSION, MemberState, Own

from .conversable import ConversableAgent
from .errors import GroupChatDeclarationError
from .events import GroupChatResumeEvent, GroupChatRunChatEvent, IOStream, TerminationEvent, wait_for
from .group_chat import GroupChat
from .membership import NO_REPLY, GroupRules, asks_to_clear, forget, read_order
from .messages import Agent, ConversationMessage, Message, Note, kept_message, text_of
from .model import ModelConfig, ModelUsage, offers_tools
from .replies import Reply
from .selection import GroupChatSelection, GroupChatTeam, GroupChatTermination, ThreadSelection

log = logging.getLogger(__name__)

SYSTEM_MESSAGE: Final = "Group chat manager."
Resumable: TypeAlias = Sequence[Message] | Mapping[str, Any] | str


class GroupChatManager(ConversableAgent):
    """The agent that runs a group chat: a message to it begins one.

    The chat is run by the turn loop of all teams. In this process everybody hears each message as soon as it is said; in
    AG2's async chat the last one is heard by no agent. `team` makes the same group chat for the bus, where each member may
    run in a process of its own.

    Args:
        groupchat: The group chat.
        name: A Python identifier.
        max_consecutive_auto_reply: How often it answers; None: always.
        human_input_mode: As for ConversableAgent.
        system_message: As for ConversableAgent.
        llm_config: The model that chooses speakers.
        **options: As for ConversableAgent.

    Attributes:
        last_speaker: The agent that said the last message of the group: for a member that hears it, where it comes from.
        rounds: How many messages the last run had.
        rounds_before: How many rounds the next run has had already, in an earlier chat.

    Raises:
        GroupChatDeclarationError: The configuration offers tools to the model (a ValueError).
    """

    def __init__(
        self,
        groupchat: GroupChat,
        name: str = "chat_manager",
        max_consecutive_auto_reply: int | None = sys.maxsize,
        human_input_mode: Any = "NEVER",
        system_message: str = SYSTEM_MESSAGE,
        llm_config: ModelConfig = None,
        **options: Any,
    ) -> None:
        if not isinstance(groupchat, GroupChat):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GroupChatDeclarationError(
                f"A {type(groupchat).__name__} is no group chat: write GroupChatManager(GroupChat([...]))."
            )
        if offers_tools(llm_config):
            raise GroupChatDeclarationError(
                "A GroupChatManager makes no calls: leave 'functions' and 'tools' out of its llm_config."
            )
        super().__init__(
            name,
            system_message,
            max_consecutive_auto_reply=max_consecutive_auto_reply,
            human_input_mode=human_input_mode,
            llm_config=llm_config,
            **options,
        )
        self._groupchat = groupchat
        self.last_speaker: Agent | None = None
        self.rounds = 0
        self.rounds_before = 0
        self.register_reply([ChatAgent, None], _run_chat, config=groupchat)

    @property
    def groupchat(self) -> GroupChat:
        """The group chat."""
        return self._groupchat

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages of the group; the agent does not matter."""
        return self._groupchat.messages

    def who_pays(self) -> list[ConversableAgent]:
        """Itself and the agents of the group."""
        return [
            self,
            *(agent for agent in self._groupchat.nested_agents() if isinstance(agent, ConversableAgent)),
        ]

    def prepare_chat(
        self, other: ConversableAgent, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """Begin a chat; with `clear_history` the whole group forgets."""
        super().prepare_chat(other, clear_history, both=both, answers=answers)
        if clear_history:
            self._groupchat.reset()
        for agent in self._groupchat.agents:
            if isinstance(agent, ConversableAgent) and (agent is not other or both):
                agent.prepare_chat(self, clear_history, both=False, answers=answers)

    def clear_agents_history(self, reply: Message, groupchat: GroupChat) -> str:
        """Clear histories, as the words "clear history" in a message ask for.

        "clear history" alone clears all messages of the group and of everybody; behind it may stand the name of an agent,
        then only that one forgets, and a number: so many messages stay, the last ones.

        Args:
            reply: The message; one that answers calls keeps the message with these calls.
            groupchat: The group chat.

        Returns:
            The text without these words. Where they name no agent of the group, the whole text: nothing is cleared then, and
            an event says so. AG2 clears everything.
        """
        order = read_order(reply, groupchat.agent_names)
        if order is None:
            return text_of(reply.get("content"))
        if order.agent is None:
            forget(groupchat.messages, order.keep)
        for agent in groupchat.agents:
            if order.agent in (None, agent.name) and isinstance(agent, ConversableAgent):
                agent.clear_history(nr_messages_to_preserve=order.keep)
        return order.text

    # Running

    def run_chat(
        self,
        messages: list[Message] | None = None,
        sender: Agent | None = None,
        config: GroupChat | None = None,
    ) -> tuple[bool, str | None]:
        """Let the group chat; see `a_run_chat`."""
        return wait_for(self.a_run_chat(messages, sender, config))

    async def a_run_chat(
        self,
        messages: list[Message] | None = None,
        sender: Agent | None = None,
        config: GroupChat | None = None,
    ) -> tuple[bool, str | None]:
        """Let the group chat, beginning with the last message.

        It ends with a message that `is_termination_msg` accepts, with the last round, and when no agent may speak or the one
        whose turn it is has no answer. What an agent or a rule raises is raised here; the messages so far remain.

        Args:
            messages: What the sender has said; None: its conversation with this manager.
            sender: Who said it; a member, or an agent from outside; None: this manager.
            config: The group chat; None: that of this manager.

        Returns:
            True and None: it has been run, and there is no answer.
        """
        chat, speaker = config or self._groupchat, sender or self
        # Taken now: introductions are heard in the same conversation.
        first = (self.chat_messages[speaker] if messages is None else messages)[-1]
        self.stop_reason, before, self.rounds_before = None, self.rounds_before, 0
        if chat.send_introductions:
            await self._introduce(chat)
        if chat.max_round < 1:
            return True, None
        run = GroupChatRun(self, chat, speaker, rounds=before, silent=self.is_silent)
        self.stop_reason = await run.carry_out(first)
        if self.stop_reason is not None:
            IOStream.get_default().send(TerminationEvent(self.stop_reason, self.name, speaker.name))
        return True, None

    async def _introduce(self, chat: GroupChat) -> None:
        text = chat.introductions_msg()
        for agent in chat.agents:
            if isinstance(agent, ConversableAgent):
                await self.a_send(text, agent, request_reply=False, silent=True)

    def team(
        self, *, runtime: AgentRuntime | None = None, conversation: str = "default", **options: Any
    ) -> GroupChatTeam:
        """The same group chat as a team, for `App.team`, or for a runtime.

        Each conversation has its own messages, and members of its own; what the manager and its agents remember in this
        process is no part of them. Everybody is introduced once in a conversation. The admin is not for teams: they have
        cancellation. To go on with an earlier chat there is `resumed`.

        Args:
            runtime: The bus.
            conversation: Id of the conversation that `run` is about.
            **options: See BaseGroupChat.
        """
        chat = self._groupchat
        rules = GroupRules(
            manager=self.name,
            names=tuple(chat.agent_names),
            introduction=chat.introductions_msg() if chat.send_introductions else "",
            clears=chat.enable_clear_history,
        )
        return GroupChatTeam(
            [
                agent.as_member(rules) if isinstance(agent, ConversableAgent) else agent
                for agent in chat.agents
            ],
            name=self.name,
            description=self.description,
            new_selection=self.new_selection,
            termination=GroupChatTermination(self.is_termination_msg, self.name, chat.max_round),
            runtime=runtime,
            conversation=conversation,
            **options,
        )

    def new_selection(self) -> SpeakerSelection:
        """How speakers are chosen in a conversation of `team`."""
        return ThreadSelection(self._groupchat.for_conversation(), self)

    # Resuming

    def messages_to_string(self, messages: list[Message]) -> str:
        """Messages as JSON."""
        return json.dumps(messages)

    def messages_from_string(self, message_string: str) -> list[Message]:
        """Messages from JSON.

        Raises:
            GroupChatDeclarationError: It is no JSON (a ValueError).
        """
        messages: list[Message] = _read_json(message_string)
        return messages

    def resume(
        self,
        messages: Resumable,
        remove_termination_string: str | Callable[[str], str] | None = None,
        silent: bool | None = False,
    ) -> tuple[ConversableAgent, Message]:
        """Go on with an earlier chat; see `a_resume`."""
        return wait_for(self.a_resume(messages, remove_termination_string, silent))

    async def a_resume(
        self,
        messages: Resumable,
        remove_termination_string: str | Callable[[str], str] | None = None,
        silent: bool | None = False,
    ) -> tuple[ConversableAgent, Message]:
        """Put an earlier chat back, and say who goes on with it and how.

        It goes on with ``await last_agent.a_initiate_chat(manager, message=last_message, clear_history=False)``.
        From what `save_state` returned, in whatever process, the context variables, the number of rounds, and the cost go
        on as well; AG2 loses them. From messages alone, the rounds are counted anew.

        Args:
            messages: Messages, their JSON, or what `save_state` returned.
            remove_termination_string: What is taken out of the last message, or a function that changes its text, so that it
                does not end the chat again.
            silent: Whether nothing is shown.

        Returns:
            Who spoke last (this manager, where it was no agent of the group), and the message, which is not put back.

        Raises:
            GroupChatDeclarationError: There are no messages, or one is of an agent that is not in the group (a ValueError).
        """
        return await SavedChat.read(self, messages, remove_termination_string, silent).put_back(self)

    def resumed(
        self,
        messages: Resumable,
        remove_termination_string: str | Callable[[str], str] | None = None,
        silent: bool | None = False,
    ) -> tuple[dict[str, Any], ConversationMessage]:
        """The same for `team`: nothing of this manager changes.

        It goes on with ``await team.load_state(state)`` and ``await team.run(task=last_message)``, in whatever process, or
        with a `TeamClient`. What `save_state` returned brings context variables, rounds and cost along.

        Args:
            messages: As for `a_resume`.
            remove_termination_string: As for `a_resume`.
            silent: As for `a_resume`.

        Returns:
            The state of a team that has heard all but the last message, and that message.

        Raises:
            GroupChatDeclarationError: As for `a_resume` (a ValueError).
        """
        saved = SavedChat.read(self, messages, remove_termination_string, silent)
        return saved.team_state(self), chat_message_of(saved.messages[-1])

    async def save_state(self) -> Mapping[str, Any]:
        """The chat as plain data that fits into JSON; `resume` and `load_state` take it."""
        return SavedChat.dump(self)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        await self.a_resume(state, silent=True)


async def _run_chat(
    manager: GroupChatManager,
    messages: list[Message] | None = None,
    sender: Agent | None = None,
    config: GroupChat | None = None,
) -> tuple[bool, str | None]:
    return await manager.a_run_chat(messages, sender, config)


INTERRUPTED: Final = "Interrupted"


class GroupChatRun:
    """One run. Everybody hears each message as soon as it is said.

    Args:
        manager: Runs it.
        chat: The group chat.
        sender: Who says the first message; perhaps an agent from outside.
        rounds: How many rounds there were before.
        silent: Whether nothing is shown.
    """

    def __init__(
        self,
        manager: GroupChatManager,
        chat: GroupChat,
        sender: Agent,
        *,
        rounds: int = 0,
        silent: bool | None = False,
    ) -> None:
        self.manager = manager
        self.chat = chat
        self.speaker = sender
        self.silent = silent
        self.interrupt: KeyboardInterrupt | None = None
        self.termination = _RunTermination(self, rounds)
        self._sender = sender

    async def carry_out(self, message: Message) -> str | None:
        """Let the group chat, beginning with a message; return why it ended.

        Raises:
            KeyboardInterrupt: There was one, and the group has no admin.
            Exception: What an agent or a rule raised.
        """
        seats = [
            RunSeat(agent, self) if isinstance(agent, ConversableAgent) else agent
            for agent in self.chat.agents
        ]
        team = GroupChatTeam(
            seats,
            name=self.manager.name,
            description=self.manager.description,
            new_selection=lambda: _RunSelection(self),
            termination=self.termination,
        )
        task = ConversationMessage(data=message, source=self._sender.name)
        stop_reason: str | None = None
        try:
            async with aclosing(team.run_stream(task=task)) as items:
                async for item in items:
                    if isinstance(item, TaskResult):
                        stop_reason = item.stop_reason
        except TeamRunError as error:
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from None
            raise
        if self.interrupt is not None:
            raise self.interrupt
        return stop_reason

    async def hear(self, message: Message, source: str) -> None:
        """A message was said: the group has it, and everybody hears it but the one who said it."""
        self.speaker = self._named(source)
        self.manager.last_speaker, self.manager.rounds = self.speaker, self.termination.rounds
        self.chat.append({"role": "user", **message}, self.speaker)
        for agent in self.chat.agents:
            if agent is not self.speaker and isinstance(agent, ConversableAgent):
                await self.manager.a_send(self.chat.messages[-1], agent, request_reply=False, silent=True)

    async def tell(self, note: Note) -> None:
        """One member hears something alone."""
        agent = self.chat.agent_by_name(note.to)
        if isinstance(agent, ConversableAgent):
            await self.manager.a_send(note.message, agent, request_reply=False, silent=self.silent)

    def _named(self, name: str) -> Agent:
        if name == self._sender.name:
            return self._sender
        return self.chat.agent_by_name(name) or self.manager

    def admin(self) -> ConversableAgent | None:
        """Who speaks after a KeyboardInterrupt."""
        admin = self.chat.agent_by_name(self.chat.admin_name)
        return admin if isinstance(admin, ConversableAgent) else None

    async def reply_of(self, agent: ConversableAgent) -> tuple[ConversableAgent, Reply]:
        """The answer of an agent; of the admin, where it is interrupted."""
        try:
            return agent, await agent.a_generate_reply(sender=self.manager)
        except KeyboardInterrupt as interrupt:
            admin = self.admin()
            if admin is None:
                self.interrupt = interrupt
                return agent, None
            return admin, await admin.a_generate_reply(sender=self.manager)


class RunSeat(BaseChatAgent):
    """A member's place in a run: it has heard everything already, and is asked for its answer.

    Args:
        agent: The member.
        run: The run.
    """

    def __init__(self, agent: ConversableAgent, run: GroupChatRun) -> None:
        super().__init__(agent.name, agent.description)
        self._agent = agent
        self._run = run

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, or a StopMessage where there is no answer."""
        return (ConversationMessage, StopMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """The answer."""
        agent, reply = await self._run.reply_of(self._agent)
        if reply is None:
            return Response(chat_message=StopMessage(content=NO_REPLY, source=self.name))
        chat, manager = self._run.chat, self._run.manager
        if (
            chat.enable_clear_history
            and isinstance(reply, dict)
            and asks_to_clear(text_of(reply.get("content")))
        ):
            reply = {**reply, "content": manager.clear_agents_history(reply, chat)}
        await agent.a_send(reply, manager, request_reply=False, silent=self._run.silent)
        said = manager.chat_messages[agent][-1]
        return Response(chat_message=ConversationMessage(data=dict(said), source=agent.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """It remembers nothing."""


class _RunSelection(GroupChatSelection):
    def __init__(self, run: GroupChatRun) -> None:
        super().__init__(run.chat, run.manager)
        self._run = run

    async def last_speaker(self, floor: Floor) -> Agent:
        return self._run.speaker

    async def select(self, floor: Floor) -> Choice:
        choice = await self._chosen(floor)
        for note in self._run.chat.take_notes():
            await self._run.tell(note)
        if choice.speakers and not self._run.silent:
            IOStream.get_default().send(GroupChatRunChatEvent(choice.speakers[0]))
        return choice

    async def _chosen(self, floor: Floor) -> Choice:
        try:
            return await super().select(floor)
        except KeyboardInterrupt as interrupt:
            admin = self._run.admin()
            if admin is not None:
                return Choice([admin.name])
            self._run.interrupt = interrupt
            return Choice(stop=INTERRUPTED)


class _RunTermination(GroupChatTermination):
    def __init__(self, run: GroupChatRun, rounds: int) -> None:
        manager = run.manager
        super().__init__(manager.is_termination_msg, manager.name, run.chat.max_round, rounds=rounds)
        self._run = run

    async def heard(self, message: Message, source: str) -> None:
        await self._run.hear(message, source)


Change: TypeAlias = str | Callable[[str], str] | None

STATE: Final = "GroupChatManagerState"
UNRESUMED: Final = "The group chat can't be resumed: "


@dataclass(frozen=True)
class SavedChat:
    """An earlier chat that goes on with its last message.

    Attributes:
        messages: All of them, each with a name and a role.
        beside: What `save_state` of a manager has beside them; {}: nothing.
    """

    messages: Sequence[Message]
    beside: Mapping[str, Any]

    @classmethod
    def read(cls, manager: GroupChatManager, given: Resumable, change: Change, silent: bool | None) -> Self:
        """The chat that a manager is given, with its last message changed; see `GroupChatManager.a_resume`.

        Raises:
            GroupChatDeclarationError: There are no messages, or one is of an agent that is not in the group (a ValueError).
        """
        data = _read_json(given) if isinstance(given, str) else given
        beside = data if isinstance(data, Mapping) and data.get("type") == STATE else None
        messages = _named_messages(data if beside is None else beside.get("messages"), manager)
        _change(messages[-1], change)
        if manager.is_termination_msg(messages[-1]):
            log.warning("the last message of the resumed chat ends it again: %s", manager.name)
        if not silent:
            IOStream.get_default().send(GroupChatResumeEvent(messages[-1]["name"], messages))
        return cls(messages, beside or {})

    @staticmethod
    def dump(manager: GroupChatManager) -> dict[str, Any]:
        """The chat of a manager as plain data."""
        agents = manager.who_pays()
        return {
            "type": STATE,
            "version": "1.0.0",
            "messages": deepcopy(manager.groupchat.messages),
            "rounds": manager.rounds,
            "context_variables": {agent.name: agent.context_variables.to_dict() for agent in agents},
            "usage": {agent.name: agent.usage.dump() for agent in agents},
        }

    @property
    def rounds(self) -> int:
        """How many rounds there were: the last message is said again, as a round of its own."""
        return max(0, int(self.beside.get("rounds", 0)) - 1)

    async def put_back(self, manager: GroupChatManager) -> tuple[ConversableAgent, Message]:
        """Let the group be as if it had said and heard all but the last message; who says that, and the message."""
        for agent in manager.who_pays():
            agent.reset()
        manager.groupchat.reset()
        for message in self.messages[:-1]:
            await _replay(manager, message)
        if self.beside:
            self._restore(manager)
        manager.groupchat.send_introductions = False
        last = self.messages[-1]
        speaker = manager.groupchat.agent_by_name(last["name"])
        return speaker if isinstance(speaker, ConversableAgent) else manager, last

    def _restore(self, manager: GroupChatManager) -> None:
        variables, usage = self.beside.get("context_variables", {}), self.beside.get("usage", {})
        for agent in manager.who_pays():
            if agent.name in variables:
                agent.context_variables.clear()
                agent.context_variables.update(deepcopy(variables[agent.name]))
            if agent.name in usage:
                agent.usage = replace(ModelUsage.load(usage[agent.name]), prices=agent.usage.prices)
        manager.rounds_before = self.rounds

    def team_state(self, manager: GroupChatManager) -> dict[str, Any]:
        """The state of a manager's team in which all but the last message was said, and everybody has heard it."""
        members, messages = manager.groupchat.agents, self.messages[:-1]
        names = {agent.name for agent in members}
        own = Own(
            # An agent of another class hears it all before its first turn.
            heard={agent.name: len(messages) for agent in members if isinstance(agent, ConversableAgent)},
            by=[message["name"] if message["name"] in names else "" for message in messages],
            is_said=[True] * len(messages),
            round_start=len(messages),
            termination={"terminated": False, "rounds": self.rounds},
        )
        states: dict[str, Any] = {
            agent.name: MemberState(agent_state=self._agent_state(agent, messages)).model_dump()
            for agent in members
        }
        states[manager.name] = {
            "type": "ThreadManagerState",
            "version": VERSION,
            "message_thread": [chat_message_of(message).dump() for message in messages],
            "current_turn": 0,
            # A pattern goes on by its rule, with the variables that its agents shared.
            **({"has_begun": True, "base_variables": self._variables(manager.name)} if self.beside else {}),
            "callboard": own.model_dump(mode="json"),
        }
        return {"type": "TeamState", "version": VERSION, "agent_states": states}

    def _agent_state(self, agent: Agent, messages: Sequence[Message]) -> dict[str, Any]:
        if not isinstance(agent, ConversableAgent):
            return {}
        heard = [
            kept_message(message, "assistant" if message["name"] == agent.name else "user", message["name"])
            for message in messages
        ]
        return {
            "type": "ConversableAgentState",
            "version": VERSION,
            "messages": [message for message in heard if message is not None],
            "context_variables": self._variables(agent.name),
            "usage": deepcopy(self.beside.get("usage", {}).get(agent.name, {})),
            "introduced": True,
        }

    def _variables(self, name: str) -> dict[str, Any]:
        variables: dict[str, Any] = deepcopy(self.beside.get("context_variables", {}).get(name, {}))
        return variables


def _read_json(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        raise GroupChatDeclarationError(f"{UNRESUMED}this is no JSON: {error}.") from error


def _named_messages(given: Any, manager: GroupChatManager) -> list[Message]:
    """The messages as a copy; each has a name and a role."""
    if not isinstance(given, list | tuple) or not all(isinstance(message, dict) for message in given):
        raise GroupChatDeclarationError(
            f"{UNRESUMED}a list of messages is needed, as objects, or the JSON of one, or what save_state returned."
        )
    if not given:
        raise GroupChatDeclarationError(
            f"{UNRESUMED}there are no messages. Begin a chat with initiate_chat instead."
        )
    chat = manager.groupchat
    names = {*chat.agent_names, chat.admin_name, manager.name}
    messages = [{"role": "user", **deepcopy(message)} for message in given]
    for message in messages:
        message["name"] = message.get("name") or manager.name
        if message["name"] not in names:
            raise GroupChatDeclarationError(f"{UNRESUMED}nobody of the group is named {message['name']!r}.")
    return messages


async def _replay(manager: GroupChatManager, message: Message) -> None:
    """Everybody has said and heard it."""
    speaker: Agent = manager.groupchat.agent_by_name(message["name"]) or manager
    for agent in manager.groupchat.agents:
        if not isinstance(agent, ConversableAgent):
            continue
        if agent is speaker:
            await agent.a_send(message, manager, request_reply=False, silent=True)
        else:
            await manager.a_send(message, agent, request_reply=False, silent=True)
    manager.groupchat.messages.append(dict(message))


def _change(message: Message, change: Change) -> None:
    content = message.get("content")
    if change is None or not content:
        return
    text = text_of(content)
    message["content"] = text.replace(change, "") if isinstance(change, str) else change(text)


def chat_message_of(message: Message) -> ConversationMessage:
    """A message of a group chat as a chat message."""
    return ConversationMessage(data=dict(message), source=message["name"])
