"""Group chats for tests: agents who say what they are told, and somebody who answers questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from callboard.groupchat import ChatEvent, ConversableAgent, GroupChat, GroupChatManager, IOStream
from callboard.models import ReplayChatCompletionClient

CLEARINGS: Final = (
    ("clear history", "", [0, 0, 0, 0]),
    ("clear history bob", "", [6, 6, 0, 6]),
    ("clear history 2", "", [2, 2, 2, 2]),
    ("clear history bob 2", "", [6, 6, 2, 6]),
    ("clear history 2 bob", "", [6, 6, 2, 6]),
    ("clear history bob. ok", "ok", [6, 6, 0, 6]),
    ("clear history 3.", "", [3, 3, 3, 3]),
    ("clear history 0", "", [0, 0, 0, 0]),
    ("please CLEAR HISTORY now", "please now", [0, 0, 0, 0]),
    ("a clear b clear history 1 tail", "a clear b tail", [1, 1, 1, 1]),
    ("clear history 100", "", [6, 6, 6, 6]),
    # An error: nothing is cleared, and nothing is cut.
    ("clear history nobody 1", "clear history nobody 1", [6, 6, 6, 6]),
    ("the unclear history", "the unclear history", [6, 6, 6, 6]),
)
"""What alice, bob or carol says to clear histories of six messages; what is left of it, and how many messages are left of
the group's history and of theirs."""


class Scripted(IOStream):
    """A stream with answers, which keeps what it is shown."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.events: list[ChatEvent] = []
        self.questions: list[str] = []

    def send(self, event: ChatEvent) -> None:
        self.events.append(event)

    async def input(self, prompt: str) -> str:
        self.questions.append(prompt)
        return self.answers.pop(0)

    @property
    def kinds(self) -> list[str]:
        """The types of the events."""
        return [event.type for event in self.events]

    def only(self, kind: str) -> list[Any]:
        """The events of one type."""
        return [event for event in self.events if event.type == kind]


def an_agent(name: str, *says: Any, **options: Any) -> ConversableAgent:
    """An agent who says these, one after the other, and its own name when they are used up; an error is raised."""
    options = {"description": f"the agent {name}", "human_input_mode": "NEVER", "silent": True, **options}
    agent = ConversableAgent(name, **options)
    left = list(says)

    def reply(recipient: ConversableAgent, messages: Any, sender: Any, config: Any) -> tuple[bool, Any]:
        said = left.pop(0) if left else name
        if isinstance(said, BaseException):
            raise said
        return True, said

    agent.register_reply([ConversableAgent, lambda sender: True], reply)
    return agent


def agents(names: Sequence[str] = "abc") -> list[ConversableAgent]:
    """One agent for each name."""
    return [an_agent(name) for name in names]


def a_manager(chat: GroupChat, *answers: Any, **options: Any) -> GroupChatManager:
    """A manager whose model gives these answers."""
    model = ReplayChatCompletionClient(list(answers)) if answers else None
    return GroupChatManager(chat, **{"llm_config": model, "silent": True, **options})


def a_group(names: Sequence[str] = "abc", **options: Any) -> GroupChat:
    """A group of agents who speak in turn."""
    return GroupChat(agents(names), **{"speaker_selection_method": "round_robin", **options})


def said(messages: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Who said what."""
    return [(message["name"], message["content"]) for message in messages]
