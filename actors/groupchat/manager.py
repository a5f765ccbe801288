"""The manager of a group chat."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final

from callboard.agents.chat_agent import ChatAgent
from callboard.protocol import AgentRuntime

from . import resuming
from .agent import Agent, Message
from .clearing import clear_by_words
from .conversable import ConversableAgent
from .errors import GroupChatDeclarationError
from .events import TerminationEvent
from .group_chat import GroupChat
from .model_client import LLMConfig, offers_tools
from .run import GroupChatRun
from .selection import ThreadSelection
from .stream import IOStream
from .team import GroupChatTeam
from .termination import GroupChatTermination
from .waiting import wait_for

SYSTEM_MESSAGE: Final = "Group chat manager."


class GroupChatManager(ConversableAgent):
    """Runs a group chat: whoever sends it a message begins one.

    The chat is run by the turn loop of all teams. In this process everybody hears each message as soon as it is said; in
    AG2's async chat nobody hears the last one. `team` makes the same group chat for the bus, where each member may run in a
    process of its own.

    Args:
        groupchat: The group chat.
        name: A Python identifier.
        max_consecutive_auto_reply: How often it answers; None: always.
        human_input_mode: As for ConversableAgent.
        system_message: As for ConversableAgent.
        llm_config: The model that chooses speakers.
        **options: As for ConversableAgent.

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
        llm_config: LLMConfig = None,
        **options: Any,
    ) -> None:
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
        self._last_speaker: Agent | None = None
        self._rounds = 0
        self._rounds_before = 0
        self.register_reply(ChatAgent, _run_chat, config=groupchat)

    @property
    def groupchat(self) -> GroupChat:
        """The group chat."""
        return self._groupchat

    @property
    def last_speaker(self) -> Agent | None:
        """Who said the last message of the group; a member that hears something can see here from whom."""
        return self._last_speaker

    def note_speaker(self, speaker: Agent, rounds: int) -> None:
        """Somebody spoke, in this round."""
        self._last_speaker, self._rounds = speaker, rounds

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages of the group; the agent does not matter."""
        return self._groupchat.messages

    def who_pays(self) -> list[ConversableAgent]:
        """Itself and the agents of the group."""
        agents = self._groupchat.nested_agents()
        return [self, *(agent for agent in agents if isinstance(agent, ConversableAgent))]

    def prepare_chat(
        self, other: ConversableAgent, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """A chat begins; with `clear_history` the whole group forgets."""
        super().prepare_chat(other, clear_history, both=both, answers=answers)
        if clear_history:
            self._groupchat.reset()
        for agent in self._groupchat.agents:
            if isinstance(agent, ConversableAgent) and (agent is not other or both):
                agent.prepare_chat(self, clear_history, both=False, answers=answers)

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

        It ends with a message that `is_termination_msg` accepts, with the last round, and when nobody may speak or the one
        whose turn it is has no answer. What an agent or a rule raises is raised here; the messages so far remain.

        Args:
            messages: What the sender has said; None: its conversation with this manager.
            sender: Who said it; a member, or somebody from outside; None: this manager.
            config: The group chat; None: that of this manager.

        Returns:
            True and None: it has been run, and there is no answer.
        """
        chat, speaker = config or self._groupchat, sender or self
        given = self.chat_messages[speaker] if messages is None else messages
        self.stop_reason, before, self._rounds_before = None, self._rounds_before, 0
        if chat.send_introductions:
            await self._introduce(chat)
        if chat.max_round < 1:
            return True, None
        run = GroupChatRun(self, chat, speaker, rounds=before, silent=self.is_silent)
        self.stop_reason = await run.carry_out(given[-1])
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
        process is no part of them. "clear history", introductions, `resume` and the admin are not for teams: they have
        `save_state` and `load_state`, `reset`, and cancellation.

        Args:
            runtime: The bus.
            conversation: Id of the conversation that `run` is about.
            **options: See BaseGroupChat.
        """
        chat = self._groupchat
        return GroupChatTeam(
            chat.agents,
            name=self.name,
            description=self.description,
            new_selection=lambda: ThreadSelection(_for_conversation(chat), self),
            termination=GroupChatTermination(self._is_termination_msg, self.name, chat.max_round),
            runtime=runtime,
            conversation=conversation,
            **options,
        )

    # History

    def clear_agents_history(self, reply: Message, groupchat: GroupChat) -> str:
        """Clear histories, as the words "clear history" in a message ask for.

        "clear history" alone clears all messages of the group and of everybody; behind it may stand the name of an agent,
        then only that one forgets, and a number: so many messages stay, the last ones.

        Args:
            reply: The message; one that answers calls keeps the message with these calls.
            groupchat: The group chat.

        Returns:
            The text without these words. Where they name nobody of the group, the whole text: nothing is cleared then, and a
            line says so. AG2 clears everything.
        """
        return clear_by_words(reply, groupchat)

    # Resuming

    def messages_to_string(self, messages: list[Message]) -> str:
        """Messages as JSON."""
        return resuming.to_text(messages)

    def messages_from_string(self, message_string: str) -> list[Message]:
        """Messages from JSON.

        Raises:
            ResumeError: It is no JSON (a ValueError).
        """
        return resuming.from_text(message_string)

    def resume(
        self,
        messages: resuming.Resumable,
        remove_termination_string: str | Callable[[str], str] | None = None,
        silent: bool | None = False,
    ) -> tuple[ConversableAgent, Message]:
        """Go on with an earlier chat; see `a_resume`."""
        return wait_for(self.a_resume(messages, remove_termination_string, silent))

    async def a_resume(
        self,
        messages: resuming.Resumable,
        remove_termination_string: str | Callable[[str], str] | None = None,
        silent: bool | None = False,
    ) -> tuple[ConversableAgent, Message]:
        """Put an earlier chat back, and say how it goes on:
        ``await last_agent.a_initiate_chat(manager, message=last_message, clear_history=False)``.

        From what `save_state` returned, in whatever process, the context variables, the number of rounds, and the cost go
        on as well; AG2 loses them. From messages alone, the rounds are counted anew.

        Args:
            messages: Messages, their JSON, or what `save_state` returned.
            remove_termination_string: What is taken out of the last message, or a function that changes its text, so that it
                does not end the chat again.
            silent: Whether nothing is shown.

        Returns:
            Who spoke last (this manager, where it was nobody of the group), and the message, which is not put back.

        Raises:
            ResumeError: There are no messages, or somebody said one who is not in the group (a ValueError).
        """
        return await resuming.resume(self, messages, remove_termination_string, silent)

    def forget_all(self) -> None:
        """Nobody of the group remembers anything."""
        for agent in self.who_pays():
            agent.reset()
        self._groupchat.reset()

    def go_on_from_round(self, rounds: int) -> None:
        """The next run has had so many rounds already."""
        self._rounds_before = rounds

    async def save_state(self) -> Mapping[str, Any]:
        """The chat as plain data that fits into JSON; `resume` and `load_state` take it."""
        return resuming.dump(self, self._rounds)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        await self.a_resume(state, silent=True)


async def _run_chat(
    manager: GroupChatManager,
    messages: list[Message] | None = None,
    sender: Agent | None = None,
    config: Any = None,
) -> tuple[bool, str | None]:
    return await manager.a_run_chat(messages, sender, config)


def _for_conversation(chat: GroupChat) -> GroupChat:
    """The group chat with messages of its own."""
    mine = copy(chat)
    mine.messages = []
    return mine
