"""A role on the bus: the agent that hears its messages, lets it answer, and commits what it remembers and says."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel, Field, JsonValue

from callboard.agents.copying import copy_of
from callboard.context import MessageContext
from callboard.handlers import event
from callboard.log import Log
from callboard.routed import RoutedAgent

from .acting import Acting, begin
from .fields import dump_fields, load_fields
from .memory import Memory
from .message import Message
from .posting import say_all
from .role import Role
from .routing import Routing, check_hops, merged, rounds_of


class ActorSurroundings(Protocol):
    """The environment, as far as its actors need it."""

    @property
    def routing(self) -> Routing:
        """Who gets what."""
        ...

    @property
    def max_hops(self) -> int:
        """How many acts may follow one from the other."""
        ...

    def stir(self) -> None:
        """Something happens: what was known of its being idle is over."""


class RoleState(BaseModel):
    """What one agent of a role keeps.

    Attributes:
        memory: `rc.memory`.
        waiting: Messages of subtasks that are heard together, as long as some of them are missing.
        fields: The fields that the role's class declares.
    """

    memory: Log[Message] = Log()
    waiting: Log[Message] = Log()
    fields: dict[str, JsonValue] = Field(default_factory=dict)


class RoleActor(RoutedAgent[RoleState]):
    """One agent of a role, for one subtask.

    Args:
        surroundings: The environment.
        role: The role; the agent works with a copy.
    """

    def __init__(self, surroundings: ActorSurroundings, role: Role) -> None:
        super().__init__(role.desc or role.goal or role.profile or type(role).__name__)
        self._surroundings = surroundings
        self._role = copy_of(role)
        self._fields = dump_fields(self._role)
        self._memory: Memory | None = None

    @event
    async def on_news(self, message: Message, ctx: MessageContext) -> None:
        """Answer to a message, and say what follows from it, in one commit."""
        self._surroundings.stir()
        post = self._surroundings.routing[self.type]
        if not post.may_act(message) or self._has_answered(message):
            return
        news = self._complete(message)
        if not news:
            return
        role, acting = self._prepared(news), Acting(self._role, news, post.subtask_of(message))
        with begin(acting):
            answer = await role.answer(news)
            if answer is not None:
                acting.say(answer)
        # What it said is checked here, so that nothing leaves when a part of it can't.
        messages = acting.messages()
        for one in messages:
            self._surroundings.routing.check(one)
        await say_all(self.runtime, self._surroundings.routing, messages, self.id)
        fields = dump_fields(role)
        if fields != self.state.fields:
            self.state.fields = fields
        self._surroundings.stir()

    def _has_answered(self, message: Message) -> bool:
        """Whether a message of somebody else came before, by another way: to all and by name, for example."""
        self._memory = self._memory or Memory(self.state.memory)
        # guard: a message is answered to once
        return message in self._memory and message.sent_from != self._role.address

    def _prepared(self, news: list[Message]) -> Role:
        """The role as the last commit left it, and how often it has acted before."""
        role, acts = self._role, merged(news)
        check_hops(acts, self._surroundings.max_hops, self.type)
        # guard: what a failed attempt left in the role is gone
        load_fields(role, self.state.fields or self._fields)
        role.rc.memory = self._memory or Memory(self.state.memory)
        role.rc.round, role.rc.max_rounds = acts.get(self.type, 0) + 1, rounds_of(news)
        return role

    def _complete(self, message: Message) -> list[Message]:
        """What is answered to now: the message, or all that are heard together; nothing as long as some are missing."""
        if message.cause_by not in self._role.rc.joined or not message.subtask:
            return [message]
        waiting, group = self.state.waiting, self._group_of(message)
        together = {one.subtask[-1].number: one for one in waiting if self._group_of(one) == group}
        together[message.subtask[-1].number] = message
        # guard: what is heard together is heard when all of it is there
        if len(together) < message.subtask[-1].of:
            waiting.append(message)
            return []
        others = [one for one in waiting if self._group_of(one) != group]
        waiting.clear()
        waiting.extend(others)
        return [together[number] for number in sorted(together)]

    def _group_of(self, message: Message) -> tuple[str, str, int]:
        """What goes together: the same split, the same action, the same round of who did it."""
        sender = self._surroundings.routing.type_called(message.sent_from)
        return message.subtask[-1].split, message.cause_by, message.acts.get(sender, 0)
