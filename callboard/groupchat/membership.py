"""An agent as a member of a team, in whatever process: it hears, answers, clears its history and saves its state."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Final, Self

from callboard.agents.base import BaseChatAgent, Response, copy_of
from callboard.core.cancellation import CancellationToken
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import UserMessage
from callboard.messages.chat import BaseChatMessage, StopMessage

from .context_variables import changes, snapshot, take_over
from .errors import ClearHistoryError
from .events import ClearAgentsHistoryEvent, HistoryNotClearedEvent, IOStream
from .messages import ConversationMessage, Message, as_message, is_for, kept_message, text_of
from .model import ModelUsage
from .peer import Peer

_PHRASE: Final = "CLEAR HISTORY"
_COMMAND: Final = "CLEAR"
_NUMBER: Final = re.compile(r"(\d+)[^\d\w]?$")


@dataclass(frozen=True)
class ClearHistory:
    """What is to be cleared.

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
    """Whether somebody says "clear history", in upper or lower case. In AG2 "unclear history" is an error."""
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
        ClearHistoryError: It names nobody of them (a ValueError).
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
        raise ClearHistoryError(arguments[0], ", ".join(names))
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
    """What a message clears, as its words and its results say; an event says so, or why it clears nothing.

    Args:
        reply: The message.
        names: Of the agents.

    Returns:
        None: nothing, and nothing is cut out of its text.
    """
    try:
        command = read_clear_history(text_of(reply.get("content")), names)
    except ClearHistoryError as error:
        IOStream.get_default().send(HistoryNotClearedEvent(str(error)))
        return None
    if command is None:
        return None
    keep = command.keep or (KEPT_WITH_RESPONSES if "tool_responses" in reply else 0)
    IOStream.get_default().send(ClearAgentsHistoryEvent(command.agent, keep or None))
    return ClearHistory(command.agent, keep, command.has_number, command.text)


def as_metadata(order: ClearHistory | None) -> dict[str, str]:
    """What is added to a message that clears."""
    return {} if order is None else {CLEARS: json.dumps({"agent": order.agent, "keep": order.keep})}


def kept_after(said: BaseChatMessage, name: str | None) -> int | None:
    """How many messages stay with somebody who hears this one, the last ones before it.

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
    """What a member has to know of its group, which may be in other processes.

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
    """Somebody who is somewhere else, by name; it says nothing itself.

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


class Membership(Peer):
    """The part of a `ConversableAgent` that makes it a chat agent: what it hears comes from one group."""

    _log: Conversation | None = None
    _group: GroupPeer | None = None
    _rules_of_group: GroupRules | None = None
    _is_introduced = False

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """A message, or a StopMessage where it has no answer."""
        return (ConversationMessage, StopMessage)

    @property
    def group(self) -> GroupPeer:
        """Whom it talks to as a member of a team."""
        if self._group is None:
            self._group = GroupPeer()
        return self._group

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer what was said since its last answer. Where it has no answer, it says a StopMessage."""
        self._hear_who_takes_part()
        for message in messages:
            if not isinstance(message, StopMessage):
                self.take_note(message)
        before = None if self.part is None else snapshot(self.context_variables)
        reply = await self.a_generate_reply(sender=self.group)
        if reply is None:
            return Response(chat_message=StopMessage(content=NO_REPLY, source=self.name))
        order = None if isinstance(reply, str) else self._order_in(reply)
        if order is not None and not isinstance(reply, str):
            reply = {**reply, "content": order.text}
        changed = {} if before is None else changes(before, self.context_variables)
        said = ConversationMessage(data={}, source=self.name, metadata={**as_metadata(order), **changed})
        self._clear(said)
        kept = self._hear(reply, "assistant", self.name)
        said.data = {**kept, "role": kept["role"] if kept["role"] in ("tool", "function") else "user"}
        return Response(chat_message=said)

    def take_note(self, message: BaseChatMessage) -> None:
        """Hear something without an answer; what it said itself is put back by those who resume a chat."""
        if self.part is not None:
            take_over(self.context_variables, message.metadata)
        if not is_for(self.name, message):
            return
        self._clear(message)
        self._hear(
            as_message(message), "assistant" if message.source == self.name else "user", message.source
        )

    def as_member(self, rules: GroupRules) -> Self:
        """This agent as a member of a group that may be in other processes, with context variables of its own."""
        member = copy(self)
        member.context_variables = deepcopy(self.context_variables)
        member._rules_of_group = rules
        return member

    def _hear_who_takes_part(self) -> None:
        rules = self._rules_of_group
        if rules is not None and rules.introduction and not self._is_introduced:
            self._is_introduced = True
            self._hear(rules.introduction, "user", rules.manager)

    def _order_in(self, reply: Message) -> ClearHistory | None:
        """What an answer clears; None: nothing."""
        rules = self._rules_of_group
        if rules is None or not rules.clears or not asks_to_clear(text_of(reply.get("content"))):
            return None
        return read_order(reply, list(rules.names))

    def _clear(self, said: BaseChatMessage) -> None:
        """Forget what a message clears that is said now."""
        keep = None if self._rules_of_group is None else kept_after(said, self.name)
        if keep is None:
            return
        messages = self.chat_messages[self.group]
        forget(messages, keep)
        self._write_anew(messages)

    def _write_anew(self, messages: Sequence[Message]) -> None:
        if self._log is not None:
            self._log.clear()
            self._log.extend([UserMessage(content=json.dumps(one), source=one["name"]) for one in messages])

    def _hear(self, message: str | Message, role: str, author: str) -> Message:
        kept = kept_message(message, role, author) or {"content": "", "role": role, "name": author}
        self.chat_messages[self.group].append(kept)
        if self._log is not None:
            self._log.append(UserMessage(content=json.dumps(kept), source=author))
        return kept

    def for_conversation(self) -> Self:
        """An agent like this one that remembers nothing; reply functions, models and tools are shared."""
        bare = copy(self)
        bare.begin_anew()
        bare._group = bare._log = None
        bare._is_introduced = False
        return copy_of(bare)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget all conversations and counts."""
        self.reset()
        self._is_introduced = False
        if self._log is not None:
            self._log.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """What it heard and said as a member, and what it counts."""
        beside = await self.save_beside_context() or {}
        return {**beside, "messages": list(self.chat_messages[self.group])}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        messages = self.chat_messages[self.group]
        messages[:] = [dict(message) for message in state.get("messages", ())]
        self._write_anew(messages)
        await self.load_beside_context(state)

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what it hears and says in a list, as JSON, one message in each."""
        self._log = messages
        heard = self.chat_messages[self.group]
        heard[:] = [json.loads(str(message.content)) for message in messages]

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """What it counts, and its context variables."""
        return {
            "type": "ConversableAgentState",
            "version": "1.0.0",
            "replies": self.auto_replies(self.group),
            "context_variables": self.context_variables.to_dict(),
            "usage": self.usage.dump(),
            **({"introduced": True} if self._is_introduced else {}),
        }

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        self.set_auto_replies(self.group, int(state.get("replies", 0)))
        self.context_variables.clear()
        self.context_variables.update(state.get("context_variables", {}))
        self.usage = ModelUsage.load(state.get("usage", {}))
        self._is_introduced = bool(state.get("introduced"))
