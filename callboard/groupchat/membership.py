"""A `ConversableAgent` as a member of a team, in whatever process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Final, Self

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.copying import copy_of
from callboard.cancellation import CancellationToken
from callboard.memory.contexts.conversation import Conversation
from callboard.memory.llm_messages import UserMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage

from .agent import Message
from .cleared import as_metadata, forget, kept_after, read_order
from .content import text_of
from .histories import kept_message
from .history_commands import ClearHistory, asks_to_clear
from .message import ConversationMessage, as_message
from .notes import is_for
from .peer import Peer
from .sharing import changes, snapshot, take_over
from .usage import ModelUsage

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
