"""A role on the bus: its agent type, one act of it, and what is committed of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from callboard.agents.base import copy_of
from callboard.broker import BrokerSettings
from callboard.broker.subscriptions import TypeSubscription
from callboard.core.context import MessageContext
from callboard.core.declaration import AgentSettings
from callboard.core.handlers import RoutedAgent, event
from callboard.core.state import Log
from callboard.runtime.runtime import RedisAgentRuntime

from .errors import RoleDeclarationError, UnknownRoleError
from .message import (
    MESSAGE_ROUTE_TO_NONE,
    MESSAGE_ROUTES,
    Memory,
    Message,
    Part,
    plain_message,
    topic_of,
)
from .role import Role
from .routing import Routing, check_hops, merged, name_is_taken, rounds_of, say_all

if TYPE_CHECKING:
    from callboard.app import App


class Acting:
    """Messages that leave with the commit of one act.

    Args:
        role: Who acts.
        news: What it answers to.
        subtask: The part of the work that it works on.
    """

    def __init__(self, role: Role, news: Sequence[Message], subtask: tuple[Part, ...]) -> None:
        self._role = role
        self._news = news
        self._subtask = subtask
        self._said: list[Message] = []

    @property
    def sender(self) -> str:
        """Who acts, as its name on the bus."""
        return self._role.agent_type

    def say(self, message: Message) -> Message:
        """Add a message, as it will be sent but for its subtask; it leaves with the commit."""
        message = plain_message(message).model_copy(update=self._circumstances(message))
        if MESSAGE_ROUTE_TO_NONE not in message.send_to:
            self._said.append(message)
        return message

    def _circumstances(self, message: Message) -> dict[str, object]:
        acts = merged(self._news)
        acts[self._role.agent_type] = acts.get(self._role.agent_type, 0) + 1
        cause = message.cause_by if message.has_cause else self._role.cause() or message.cause_by
        return {
            "cause_by": cause,
            "sent_from": message.sent_from or self._role.address,
            "acts": acts,
            "subtask": self._subtask,
            "max_rounds": rounds_of(self._news) if message.max_rounds is None else message.max_rounds,
        }

    def messages(self) -> list[Message]:
        """Everything that was said, in order.

        Several messages of one act that have one cause and go to the same are subtasks: each has its number, and is handled
        apart from the others. A single one goes on with the work at hand.
        """
        counts = Counter(_kind(message) for message in self._said)
        numbers: Counter[tuple[str, frozenset[str]]] = Counter()
        done: list[Message] = []
        for message in self._said:
            kind = _kind(message)
            numbers[kind] += 1
            if counts[kind] > 1:
                part = Part(f"{self._news[-1].id} {message.cause_by}", numbers[kind], counts[kind])
                done.append(message.model_copy(update={"subtask": (*message.subtask, part)}))
            else:
                done.append(message)
        return done


_current: ContextVar[Acting | None] = ContextVar("callboard_role_acting", default=None)


def acting_now() -> Acting | None:
    """The act that this code is part of; None outside of all."""
    return _current.get()


@contextmanager
def begin(acting: Acting) -> Iterator[None]:
    """Make it the current act for a `with` block."""
    token = _current.set(acting)
    try:
        yield
    finally:
        _current.reset(token)


def _kind(message: Message) -> tuple[str, frozenset[str]]:
    return message.cause_by, frozenset(message.send_to)


def dump_fields(role: Role) -> dict[str, JsonValue]:
    """The fields of a role that are not every role's, as far as they fit into JSON."""
    found: dict[str, JsonValue] = {}
    for name, value in _own(role).items():
        try:
            data = to_jsonable_python(value)
        except PydanticSerializationError:
            continue  # a connection, a function: it belongs to the process
        # Without a declared type of the field it is not known what the data were.
        if name in type(role).model_fields or data == value:
            found[name] = data
    return found


def load_fields(role: Role, fields: dict[str, JsonValue]) -> None:
    """Give a role its fields again, from what `dump_fields` returned; those that are not declared any more are left out.

    Raises:
        ValueError: A value does not fit its field any more.
    """
    declared, extra = type(role).model_fields, role.__pydantic_extra__
    for name, value in fields.items():
        if name in declared:
            type(role).__pydantic_validator__.validate_assignment(role, name, value)
        elif extra is not None:
            extra[name] = value


def _own(role: BaseModel) -> dict[str, object]:
    declared = {
        name: getattr(role, name) for name in type(role).model_fields if name not in Role.model_fields
    }
    return {**declared, **(role.__pydantic_extra__ or {})}


class Cast:
    """Roles by name, who gets what among them, and whether anything has happened to them in this process.

    Args:
        max_hops: How many acts may follow one from the other.

    Attributes:
        max_hops: See above.
        changes: How often something happened: what was known of their being idle before is over.
    """

    def __init__(self, max_hops: int) -> None:
        self.max_hops = max_hops
        self.changes = 0
        self._roles: dict[str, Role] = {}
        self._routing: Routing | None = None

    def elsewhere(self) -> Cast:
        """The same roles, in another project."""
        cast = Cast(self.max_hops)
        cast._roles = self._roles
        return cast

    def stir(self) -> None:
        """Note that something happens."""
        self.changes += 1

    def add(self, role: Role) -> None:
        """Add a role.

        Raises:
            RoleDeclarationError: There is one of its name, or of its class when it has no name; or its name is one of those
                that stand for all, none or oneself (a ValueError).
        """
        if role.name in MESSAGE_ROUTES:
            raise RoleDeclarationError(
                "a role",
                f"can't be called {role.name!r}: that name stands for all roles, none, or the sender",
            )
        # guard: no role takes the place of another
        if role.agent_type in self._roles:
            raise name_is_taken(role.agent_type)
        self._roles[role.agent_type] = role
        self._routing = None

    @property
    def roles(self) -> Mapping[str, Role]:
        """The roles, by their names on the bus."""
        return self._roles

    def called(self, name: str) -> Role:
        """One of them, by a name that it has in `send_to`.

        Raises:
            UnknownRoleError: There is none (a LookupError).
        """
        found = self.routing.type_called(name)
        if not found:
            raise UnknownRoleError(name, tuple(self._roles))
        return self._roles[found]

    @property
    def routing(self) -> Routing:
        """Who gets what."""
        if self._routing is None:
            self._routing = Routing(role.post for role in self._roles.values())
        return self._routing


class RoleState(BaseModel):
    """State of one agent of a role.

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
        cast: The roles of its environment.
        role: The role; the agent works with a copy.
    """

    def __init__(self, cast: Cast, role: Role) -> None:
        super().__init__(role.desc or role.goal or role.profile or type(role).__name__)
        self._cast = cast
        self._role = copy_of(role)
        self._fields = dump_fields(self._role)
        self._memory: Memory | None = None

    @event
    async def on_news(self, message: Message, ctx: MessageContext) -> None:
        """Answer to a message, and say what follows from it, in one commit."""
        self._cast.stir()
        post = self._cast.routing[self.type]
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
            self._cast.routing.check(one)
        await say_all(self.runtime, self._cast.routing, messages, self.id)
        fields = dump_fields(role)
        if fields != self.state.fields:
            self.state.fields = fields
        self._cast.stir()

    def _has_answered(self, message: Message) -> bool:
        """Whether a message of another role came before, by another way: to all and by name, for example."""
        self._memory = self._memory or Memory(self.state.memory)
        # A message to all that also names this role comes twice, in either order. The second delivery is another entry,
        # so the bus does not know it for a repeat: without this look the work would be done, paid and said twice.
        # guard: a message is answered to once
        return message in self._memory and message.sent_from != self._role.address

    def _prepared(self, news: list[Message]) -> Role:
        """The role as the last commit left it, and how often it has acted before."""
        role, acts = self._role, merged(news)
        check_hops(acts, self._cast.max_hops, self.type)
        # An attempt that raised, or whose commit a newer owner fenced off, has changed the object all the same. The
        # next one in this process would begin with these fields, and commit what never happened.
        # guard: what a failed attempt left in the role is gone
        load_fields(role, self.state.fields or self._fields)
        role.rc.memory = self._memory or Memory(self.state.memory)
        role.rc.round, role.rc.max_rounds = acts.get(self.type, 0) + 1, rounds_of(news)
        return role

    def _complete(self, message: Message) -> list[Message]:
        """The messages to answer now: this one, or all that are heard together; none as long as some are missing."""
        if message.cause_by not in self._role.rc.joined or not message.subtask:
            return [message]
        waiting, group = self.state.waiting, self._group_of(message)
        together = {one.subtask[-1].number: one for one in waiting if self._group_of(one) == group}
        together[message.subtask[-1].number] = message
        # The subtasks end in any order, in processes of their own, and each comes as a delivery of its own. The actor
        # takes one at a time, so exactly one delivery finds the set complete; the others leave theirs in the state.
        # guard: what is heard together is heard when all of it is there
        if len(together) < message.subtask[-1].of:
            waiting.append(message)
            return []
        others = [one for one in waiting if self._group_of(one) != group]
        waiting.clear()
        waiting.extend(others)
        return [together[number] for number in sorted(together)]

    def _group_of(self, message: Message) -> tuple[str, str, int]:
        """The key of messages that go together: the same split, action, and round of the role that acted."""
        sender = self._cast.routing.type_called(message.sent_from)
        return message.subtask[-1].split, message.cause_by, message.acts.get(sender, 0)


def topics_of(role: Role) -> list[str]:
    """The topics that a role subscribes to."""
    post = role.post
    return sorted(topic_of(cause, joined=cause in post.joined) for cause in post.watch)


def declare_roles(
    app: App,
    cast: Cast,
    processes: Mapping[str, int],
    settings: AgentSettings,
) -> None:
    """Declare the agent types of roles in an App."""
    for role in cast.roles.values():
        app.register(
            role.agent_type,
            partial(RoleActor, cast, role),
            expected_class=RoleActor,
            subscriptions=topics_of(role),
            processes=processes.get(role.agent_type, 1),
            settings=settings,
        )


async def register_role(runtime: RedisAgentRuntime, cast: Cast, role: Role) -> None:
    """Register the agent type of a role with a runtime."""
    runtime.add_message_types([Message])
    name = role.agent_type
    await runtime.register_factory(name, partial(RoleActor, cast, role), expected_class=RoleActor)
    for topic in topics_of(role):
        await runtime.add_subscription(TypeSubscription(topic, name))


class OwnRuntime:
    """A runtime that an environment starts when it is first needed, and which ends with it, or with the event loop.

    Args:
        url: The server; None: CALLBOARD_URL, else REDIS_URL, else the embedded server.
        namespace: None: CALLBOARD_NAMESPACE, else one that is thrown away.
        settings: Everything else; None: from the environment variables.
    """

    def __init__(self, url: str | None, namespace: str | None, settings: BrokerSettings | None) -> None:
        self.runtime = RedisAgentRuntime(url, namespace=namespace, settings=settings)
        self._keeping: asyncio.Task[None] | None = None
        self._hosted: set[str] = set()

    async def host(self, cast: Cast) -> None:
        """Register the roles that it does not host yet."""
        for name in cast.roles.keys() - self._hosted:
            await register_role(self.runtime, cast, cast.roles[name])
            self._hosted.add(name)

    async def start(self) -> None:
        """Connect, and begin to work."""
        try:
            await self.runtime.open()
            self.runtime.start()
            await self.runtime.ready()
        except BaseException:
            await self.runtime.close()
            raise
        self._keeping = asyncio.create_task(self._keep(), name="callboard-environment")

    @property
    def is_open(self) -> bool:
        """Whether it works; not any more when its event loop has ended."""
        return self._keeping is None or not self._keeping.done()

    async def _keep(self) -> None:
        # Who writes `asyncio.run(main())` and closes nothing leaves nothing behind all the same: at its end the loop
        # cancels this task and waits for it.
        try:
            await asyncio.Event().wait()
        finally:
            await self.runtime.close()

    async def close(self) -> None:
        """Finish what runs, and disconnect."""
        if self._keeping is None:
            await self.runtime.close()
            return
        self._keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._keeping
