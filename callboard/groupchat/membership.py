"""An agent as a member of a group, in whatever process: it hears and speaks, and "clear history" clears what it heard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.base import BaseChatAgent, Response
from callboard.core.cancellation import CancellationToken
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import UserMessage
from callboard.messages.chat import BaseChatMessage, StopMessage

from .errors import GroupChatDeclarationError
from .events import ClearAgentsHistoryEvent, HistoryNotClearedEvent, IOStream
from .messages import (
    ConversationMessage,
    Histories,
    Message,
    as_message,
    is_for,
    kept_message,
    text_of,
)

_PHRASE: Final = "CLEAR HISTORY"
_COMMAND: Final = "CLEAR"
_NUMBER: Final = re.compile(r"(\d+)[^\d\w]?$")


@dataclass(frozen=True)
class ClearHistory:
    """An order to clear histories.

    Attributes:
        agent: Name of the one whose history it is; None: the group's and everybody's.
        keep: How many messages stay, the last ones.
        has_number: Whether the words said so.
        text: What is left of the words.
    """

    agent: str | None
    keep: int
    has_number: bool
    text: str


def asks_to_clear(text: str) -> bool:
    """Whether a text says "clear history", in upper or lower case. In AG2 "unclear history" is an error."""
    return _PHRASE in text.upper() and _COMMAND in text.upper().split()


def read_clear_history(text: str, names: Sequence[str]) -> ClearHistory | None:
    """Read the command in a text: its last word "clear", the word behind it, and up to two arguments in any order.

    An argument is the name of an agent or a number, and may have a sign such as a dot at its end. What follows is the
    rest of the text. A word that is neither, in front of one that is, was meant as a name: that is an error, where AG2
    clears everything and cuts another word out of the text.

    Args:
        text: What was said.
        names: Of the agents.

    Returns:
        None: it has no word "clear".

    Raises:
        GroupChatDeclarationError: It names none of them (a ValueError).
    """
    words = text.split()
    places = [place for place, word in enumerate(words) if word.upper() == _COMMAND]
    if not places:
        return None
    before, arguments, after = words[: places[-1]], words[places[-1] + 2 :][:2], words[places[-1] + 4 :]
    agent: str | None = None
    number: int | None = None
    while arguments:
        if number is None and (found := _number(arguments[0])) is not None:
            number = found
        elif agent is None and (name := _name(arguments[0], names)):
            agent = name
        else:
            break
        arguments.pop(0)
    if len(arguments) == 2 and (_number(arguments[1]) is not None or _name(arguments[1], names)):
        raise GroupChatDeclarationError(
            f"Nothing was cleared: nobody of the group is named {arguments[0]!r}. The names are {', '.join(names)}."
        )
    return ClearHistory(agent, number or 0, number is not None, " ".join([*before, *arguments, *after]))


def _number(word: str) -> int | None:
    found = _NUMBER.match(word)
    return None if found is None else int(found[1])


def _name(word: str, names: Sequence[str]) -> str | None:
    return next(
        (name for name in names if word == name or (word[:-1] == name and not word[-1].isalnum())), None
    )


KEPT_WITH_RESPONSES: Final = 1  # the message with the calls, which has to stand before their results
CLEARS: Final = "clear_history"  # in the metadata of a message


def read_order(reply: Message, names: list[str]) -> ClearHistory | None:
    """The order in a message, from its words and its results; an event says what is cleared, or why nothing is.

    Args:
        reply: The message.
        names: Of the agents.

    Returns:
        None: nothing, and nothing is cut out of its text.
    """
    try:
        command = read_clear_history(text_of(reply.get("content")), names)
    except GroupChatDeclarationError as error:
        IOStream.get_default().send(HistoryNotClearedEvent(str(error)))
        return None
    if command is None:
        return None
    keep = command.keep or (KEPT_WITH_RESPONSES if "tool_responses" in reply else 0)
    IOStream.get_default().send(ClearAgentsHistoryEvent(command.agent, keep or None))
    return ClearHistory(command.agent, keep, command.has_number, command.text)


def as_metadata(order: ClearHistory | None) -> dict[str, str]:
    """Metadata of a message that clears."""
    return {} if order is None else {CLEARS: json.dumps({"agent": order.agent, "keep": order.keep})}


def kept_after(said: BaseChatMessage, name: str | None) -> int | None:
    """How many messages stay with an agent that hears this one, the last ones before it.

    Args:
        said: The message.
        name: Who hears it; None: the group.

    Returns:
        None: all of them.
    """
    order: Any = said.metadata.get(CLEARS)
    if order is None:
        return None
    order = json.loads(order)
    return int(order["keep"]) if order["agent"] in (None, name) else None


def forget(messages: list[Message], keep: int) -> None:
    """Leave as many messages, the last ones."""
    del messages[: max(0, len(messages) - keep)]


NO_REPLY: Final = "No reply generated"
GROUP: Final = "group"


@dataclass(frozen=True)
class GroupRules:
    """Rules of a group for its members, which may be in other processes.

    Attributes:
        manager: Name of its manager.
        names: Of the members, in their order.
        introduction: What everybody is told first; "": nothing.
        clears: Whether "clear history" in an answer clears histories.
    """

    manager: str
    names: Sequence[str]
    introduction: str = ""
    clears: bool = False


class GroupPeer(BaseChatAgent):
    """An agent that is elsewhere, by name; it says nothing itself.

    Args:
        name: Its name.
    """

    def __init__(self, name: str = GROUP) -> None:
        super().__init__(name, "")

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """None."""
        return ()

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """It is somewhere else."""
        return Response(chat_message=StopMessage(content=NO_REPLY, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """It remembers nothing."""


class GroupMember:
    """An agent as a member of one group, in whatever process: what it hears and says there, and what is cleared of that.

    Args:
        name: Of the agent.
        histories: Of the agent. The one with the group is there as well.
        rules: Of the group; None: it has none, or needs none.

    Attributes:
        group: Whom the agent talks to as a member.
        rules: See above.
        is_introduced: Whether it was told who takes part.
    """

    def __init__(self, name: str, histories: Histories, rules: GroupRules | None = None) -> None:
        self.group = GroupPeer()
        self.rules = rules
        self.is_introduced = False
        self._name = name
        self._histories = histories
        self._log: Conversation | None = None

    @property
    def messages(self) -> list[Message]:
        """The conversation with the group."""
        return self._histories[self.group]

    def hear_who_takes_part(self) -> None:
        """Be told, before the first turn of a conversation."""
        rules = self.rules
        if rules is not None and rules.introduction and not self.is_introduced:
            self.is_introduced = True
            self._keep(rules.introduction, "user", rules.manager)

    def take_note(self, said: BaseChatMessage) -> None:
        """Hear a message, if it is for this member."""
        if not is_for(self._name, said):
            return
        self._clear(said)
        self._keep(as_message(said), "assistant" if said.source == self._name else "user", said.source)

    def say(self, reply: str | Message, changed: Mapping[str, str]) -> ConversationMessage:
        """The message that an answer becomes; a command in it clears histories, of this member at once.

        Args:
            reply: The answer.
            changed: Context variables that the agent changed, as metadata.
        """
        order = None if isinstance(reply, str) else self._order_in(reply)
        if order is not None and not isinstance(reply, str):
            reply = {**reply, "content": order.text}
        said = ConversationMessage(data={}, source=self._name, metadata={**as_metadata(order), **changed})
        self._clear(said)
        kept = self._keep(reply, "assistant", self._name)
        said.data = {**kept, "role": kept["role"] if kept["role"] in ("tool", "function") else "user"}
        return said

    def reset(self) -> None:
        """Be as before the first message; the histories are the agent's to clear."""
        self.is_introduced = False
        if self._log is not None:
            self._log.clear()

    def keep_in(self, log: Conversation) -> None:
        """Keep the conversation in a list as well, as JSON, and take over what is there."""
        self._log = log
        self.messages[:] = [json.loads(str(message.content)) for message in log]

    def load(self, messages: Sequence[Message]) -> None:
        """Take over a conversation."""
        self.messages[:] = messages
        self._write_anew()

    def _order_in(self, reply: Message) -> ClearHistory | None:
        """The order in an answer; None: it clears nothing."""
        rules = self.rules
        if rules is None or not rules.clears or not asks_to_clear(text_of(reply.get("content"))):
            return None
        return read_order(reply, list(rules.names))

    def _clear(self, said: BaseChatMessage) -> None:
        """Forget what a message clears that is said now."""
        keep = None if self.rules is None else kept_after(said, self._name)
        if keep is None:
            return
        forget(self.messages, keep)
        self._write_anew()

    def _write_anew(self) -> None:
        if self._log is not None:
            self._log.clear()
            self._log.extend(
                [UserMessage(content=json.dumps(one), source=one["name"]) for one in self.messages]
            )

    def _keep(self, message: str | Message, role: str, author: str) -> Message:
        kept = kept_message(message, role, author) or {"content": "", "role": role, "name": author}
        self.messages.append(kept)
        if self._log is not None:
            self._log.append(UserMessage(content=json.dumps(kept), source=author))
        return kept
