"""The manager of a group chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from callboard.protocol import AgentRuntime
from callboard.teams.selection import SpeakerSelection

from . import resuming
from .agent import Agent, Message
from .conversable import ConversableAgent
from .events import TerminationEvent
from .group_chat import GroupChat
from .leader import Leader
from .membership import GroupRules, Membership
from .message import ConversationMessage
from .peer import Peer
from .resumed import message_of, team_state
from .run import GroupChatRun
from .selection import ThreadSelection
from .stream import IOStream
from .team import GroupChatTeam
from .termination import GroupChatTermination
from .waiting import wait_for


class GroupChatManager(Leader):
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
        # Taken now: introductions are heard in the same conversation.
        first = (self.chat_messages[speaker] if messages is None else messages)[-1]
        self.stop_reason, before, self._rounds_before = None, self._rounds_before, 0
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
            if isinstance(agent, Peer):
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
            [agent.as_member(rules) if isinstance(agent, Membership) else agent for agent in chat.agents],
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
        return resuming.to_text(messages)

    def messages_from_string(self, message_string: str) -> list[Message]:
        """Messages from JSON.

        Raises:
            ResumeError: It is no JSON (a ValueError).
        """
        messages: list[Message] = resuming.from_text(message_string)
        return messages

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
            Who spoke last (this manager, where it was nobody of the group), and the message, which is not put back.

        Raises:
            ResumeError: There are no messages, or somebody said one who is not in the group (a ValueError).
        """
        return await resuming.resume(self, messages, remove_termination_string, silent)

    def resumed(
        self,
        messages: resuming.Resumable,
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
            ResumeError: As for `a_resume` (a ValueError).
        """
        given, state = resuming.read(self, messages, remove_termination_string, silent)
        rounds = 0 if state is None else resuming.rounds_before(state)
        return team_state(self, given[:-1], state or {}, rounds), message_of(given[-1])

    async def save_state(self) -> Mapping[str, Any]:
        """The chat as plain data that fits into JSON; `resume` and `load_state` take it."""
        return resuming.dump(self, self.rounds)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        await self.a_resume(state, silent=True)
