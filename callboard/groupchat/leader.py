"""What the manager of a group chat knows; running one is in manager.py."""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any, Final

from callboard.agents.chat_agent import ChatAgent

from .agent import Agent, Message
from .clearing import clear_by_words
from .conversable import ConversableAgent
from .errors import GroupChatDeclarationError
from .group_chat import GroupChat
from .model_client import ModelConfig, offers_tools
from .peer import Peer

SYSTEM_MESSAGE: Final = "Group chat manager."


class Leader(ConversableAgent):
    """The part of a `GroupChatManager` that knows its group, and runs nothing."""

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
        self._last_speaker: Agent | None = None
        self._rounds = 0
        self._rounds_before = 0
        self.register_reply([ChatAgent, None], _run_chat, config=groupchat)

    @abstractmethod
    async def a_run_chat(
        self,
        messages: list[Message] | None = None,
        sender: Agent | None = None,
        config: GroupChat | None = None,
    ) -> tuple[bool, str | None]:
        """Let the group chat."""
        ...

    @property
    def groupchat(self) -> GroupChat:
        """The group chat."""
        return self._groupchat

    @property
    def last_speaker(self) -> Agent | None:
        """Who said the last message of the group; a member that hears something can see here from whom."""
        return self._last_speaker

    @property
    def rounds(self) -> int:
        """How many messages the last run had."""
        return self._rounds

    def note_speaker(self, speaker: Agent, rounds: int) -> None:
        """Somebody spoke, in this round."""
        self._last_speaker, self._rounds = speaker, rounds

    def go_on_from_round(self, rounds: int) -> None:
        """The next run has had so many rounds already."""
        self._rounds_before = rounds

    def chat_messages_for_summary(self, agent: Agent) -> list[Message]:
        """The messages of the group; the agent does not matter."""
        return self._groupchat.messages

    def who_pays(self) -> list[Peer]:
        """Itself and the agents of the group."""
        return [self, *(agent for agent in self._groupchat.nested_agents() if isinstance(agent, Peer))]

    def prepare_chat(
        self, other: Peer, clear_history: bool, *, both: bool = True, answers: bool = True
    ) -> None:
        """A chat begins; with `clear_history` the whole group forgets."""
        super().prepare_chat(other, clear_history, both=both, answers=answers)
        if clear_history:
            self._groupchat.reset()
        for agent in self._groupchat.agents:
            if isinstance(agent, Peer) and (agent is not other or both):
                agent.prepare_chat(self, clear_history, both=False, answers=answers)

    def forget_all(self) -> None:
        """Nobody of the group remembers anything."""
        for agent in self.who_pays():
            agent.reset()
        self._groupchat.reset()

    def clear_agents_history(self, reply: Message, groupchat: GroupChat) -> str:
        """Clear histories, as the words "clear history" in a message ask for.

        "clear history" alone clears all messages of the group and of everybody; behind it may stand the name of an agent,
        then only that one forgets, and a number: so many messages stay, the last ones.

        Args:
            reply: The message; one that answers calls keeps the message with these calls.
            groupchat: The group chat.

        Returns:
            The text without these words. Where they name nobody of the group, the whole text: nothing is cleared then, and
            an event says so. AG2 clears everything.
        """
        return clear_by_words(reply, groupchat)


async def _run_chat(
    leader: Leader,
    messages: list[Message] | None = None,
    sender: Agent | None = None,
    config: GroupChat | None = None,
) -> tuple[bool, str | None]:
    return await leader.a_run_chat(messages, sender, config)
