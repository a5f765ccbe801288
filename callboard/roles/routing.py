"""The way of a message: who gets it, how it is sent, and how often it may go round."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from callboard.broker import AgentId, TopicId
from callboard.core.cancellation import UNSET, Unset
from callboard.core.protocol import AgentRuntime

from .errors import HopLimitError, RoleDeclarationError, UnknownRoleError
from .message import (
    MESSAGE_ROUTE_TO_ALL,
    MESSAGE_ROUTE_TO_NONE,
    MESSAGE_ROUTE_TO_SELF,
    Message,
    Part,
    check_content,
    topic_of,
)

logger = logging.getLogger("callboard.roles")


def check_count(name: str, value: object) -> None:
    """Refuse what is no whole number of 1 or more.

    Raises:
        RoleDeclarationError: It is none (a ValueError).
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RoleDeclarationError(name, f"has to be 1 or more, and not {value!r}")


def is_amount(value: object) -> bool:
    """Whether it is an amount of money: a finite number of 0 or more."""
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < math.inf


def name_is_taken(name: str) -> RoleDeclarationError:
    """Two roles of an environment have one name."""
    advice = "give this one another name=, or run the other in several processes to share its work"
    return RoleDeclarationError(f"the role {name!r}", f"there is one of this name already: {advice}")


BROAD: Final = {MESSAGE_ROUTE_TO_ALL, MESSAGE_ROUTE_TO_NONE, MESSAGE_ROUTE_TO_SELF}


@dataclass(frozen=True, slots=True)
class Post:
    """A role, as far as it gets messages.

    Attributes:
        agent_type: Its name on the bus.
        addresses: What it may be called in `send_to`.
        watch: The actions that it hears.
        joined: Those of them whose subtasks it hears together.
    """

    agent_type: str
    addresses: frozenset[str]
    watch: frozenset[str]
    joined: frozenset[str]

    def may_act(self, message: Message) -> bool:
        """Whether the rounds of a message are not over for it."""
        # guard: the number of rounds is a bound
        return message.max_rounds is None or message.acts.get(self.agent_type, 0) < message.max_rounds

    def subtask_of(self, message: Message) -> tuple[Part, ...]:
        """The subtask whose agent gets a message: where it is heard together with others, the one that was split."""
        return message.subtask[:-1] if message.cause_by in self.joined else message.subtask


@dataclass(frozen=True, slots=True)
class PostDestination:
    """Where a message goes: to a topic, or to one role.

    Attributes:
        topic: Topic type; "": to `agent_type` alone.
        agent_type: The role; "": to all who watch the topic.
        part: The subtask whose agents get it.
    """

    topic: str
    agent_type: str
    part: str


class Routing:
    """Who gets what, among some roles.

    Args:
        posts: The roles.

    Raises:
        RoleDeclarationError: Two have one name (a ValueError).
    """

    def __init__(self, posts: Iterable[Post] = ()) -> None:
        self._posts: dict[str, Post] = {}
        for post in posts:
            self.add(post)

    def add(self, post: Post) -> None:
        """Add a role.

        Raises:
            RoleDeclarationError: There is one of its name (a ValueError).
        """
        if post.agent_type in self._posts:
            raise name_is_taken(post.agent_type)
        self._posts[post.agent_type] = post

    def __getitem__(self, agent_type: str) -> Post:
        return self._posts[agent_type]

    def type_called(self, address: str) -> str:
        """The agent type of a role by one of its addresses; "" when there is none."""
        return next((post.agent_type for post in self._posts.values() if address in post.addresses), "")

    def check(self, message: Message) -> None:
        """Refuse a message that can't be sent.

        Raises:
            UnknownRoleError: It names a role that is not there (a LookupError).
            MessageDataError: The class of its content is not known (a ValueError).
        """
        check_content(message.instruct_content)
        # guard: who is not there is not written to
        for address in sorted(message.send_to - BROAD):
            if not self.type_called(address):
                raise UnknownRoleError(address, tuple(self._posts))

    def is_heard(self, message: Message, sender: str = "") -> bool:
        """Whether anybody gets a message; else it is a result."""
        return any(post.may_act(message) for post in self._recipients(message, sender))

    def is_cut_short(self, message: Message) -> bool:
        """Whether those who would get a message have no rounds left, all of them."""
        sender = self.type_called(message.sent_from)
        recipients = list(self._recipients(message, sender))
        return bool(recipients) and not any(post.may_act(message) for post in recipients)

    def destinations(self, message: Message, sender: str = "") -> Sequence[PostDestination]:
        """Where a message goes; nowhere, when it is a result.

        Args:
            message: As it is sent: with its acts, its rounds and its subtask.
            sender: Agent type of the role that sends it; "": it comes from outside.
        """
        return list(dict.fromkeys(self._destinations(message, sender)))

    def _destinations(self, message: Message, sender: str) -> Iterator[PostDestination]:
        for post in self._recipients(message, sender):
            if not post.may_act(message):
                continue
            part = part_of(post.subtask_of(message))
            if MESSAGE_ROUTE_TO_ALL in message.send_to and message.cause_by in post.watch:
                topic = topic_of(message.cause_by, joined=message.cause_by in post.joined)
                yield PostDestination(topic, "", part)
            else:
                yield PostDestination("", post.agent_type, part)

    def _recipients(self, message: Message, sender: str) -> Iterator[Post]:
        if MESSAGE_ROUTE_TO_NONE in message.send_to:
            return
        for post in self._posts.values():
            is_heard = MESSAGE_ROUTE_TO_ALL in message.send_to and message.cause_by in post.watch
            is_itself = MESSAGE_ROUTE_TO_SELF in message.send_to and post.agent_type == sender
            if is_heard or is_itself or post.addresses & message.send_to:
                yield post


def part_of(subtask: Sequence[Part]) -> str:
    """A subtask as text: see `Message.part`."""
    return ".".join(str(part.number) for part in subtask)


def merged(news: Sequence[Message]) -> dict[str, int]:
    """How often each role has acted in what led to one of several messages."""
    acts: dict[str, int] = {}
    for message in news:
        for name, count in message.acts.items():
            acts[name] = max(acts.get(name, 0), count)
    return acts


def rounds_of(news: Sequence[Message]) -> int | None:
    """The bound that several messages carry: the smallest; None: none does."""
    given = [message.max_rounds for message in news if message.max_rounds is not None]
    return min(given) if given else None


def check_hops(acts: Mapping[str, int], limit: int, role: str) -> None:
    """Refuse an act that follows from too many others.

    Raises:
        HopLimitError: There are as many as `limit`.
    """
    hops = sum(acts.values())
    # guard: a circle without a bound of rounds ends
    if hops >= limit:
        raise HopLimitError(role, hops, limit)


ROUNDS: Final = 3  # as often as MetaGPT's Team runs


class Rounds:
    """The bound of an environment for messages that say nothing else.

    It tells once of each message that was not answered because the usual number of rounds was over. Who has chosen a number,
    for all or for each message, knows what it does.

    Args:
        most: How often each role acts in what follows from a message; None: without end; UNSET: the usual number.

    Raises:
        RoleDeclarationError: It is below 1 (a ValueError).
    """

    def __init__(self, most: int | Unset | None) -> None:
        self._most: int | None = ROUNDS
        self._is_chosen = False
        self._bounded, self._left = 0, 0  # messages that got this bound, and that had one of their own
        self._told: set[str] = set()
        if not isinstance(most, Unset):
            self.most = most

    @property
    def most(self) -> int | None:
        """The bound."""
        return self._most

    @most.setter
    def most(self, most: int | None) -> None:
        if most is not None:
            check_count("max_rounds", most)
        self._most, self._is_chosen = most, True

    def alike(self) -> Rounds:
        """The same for another project."""
        return Rounds(self._most if self._is_chosen else UNSET)

    def bounded(self, message: Message) -> Message:
        """The message with this bound, unless it has one of its own."""
        if message.max_rounds is not None:
            self._left += 1
            return message
        self._bounded += 1
        return message.model_copy(update={"max_rounds": self._most})

    def tell(self, project: str, cut_short: Sequence[Message]) -> None:
        """Warn of those that are new."""
        if self._is_chosen or (self._left and not self._bounded):
            return
        new = [one for one in cut_short if one.max_rounds == ROUNDS and one.id not in self._told]
        if not new:
            return
        self._told.update(one.id for one in new)
        logger.warning(
            "project %s: %d messages were not answered, such as one of %s: each role has acted its max_rounds=%d times. "
            "`cut_short` of the Environment has them; for more give it max_rounds, or Team.run n_round",
            project,
            len(new),
            new[0].sent_from or "a user",
            ROUNDS,
        )


SEPARATOR = "/"


def key_of(project: str, part: str) -> str:
    """The key of the agents that work on a part of a project; "": on the whole of it."""
    return f"{project}{SEPARATOR}{part}" if part else project


def project_of(key: str) -> str:
    """The project of an agent, from its key."""
    return key.partition(SEPARATOR)[0]


async def say_all(
    runtime: AgentRuntime, routing: Routing, messages: Sequence[Message], sender: AgentId
) -> None:
    """Send what a role said in one act; everything leaves with the commit of its handler."""
    project = project_of(sender.key)
    if messages:
        await runtime.write_run(project, messages)
    for message in messages:
        for destination in routing.destinations(message, sender.type):
            # A role that watches its own action wants to hear itself, and the bus leaves that out where it knows the sender.
            is_own = destination.topic and message.cause_by in routing[sender.type].watch
            await _send(runtime, destination, message, project, None if is_own else sender, None)


async def bring_in(
    runtime: AgentRuntime, routing: Routing, messages: Sequence[Message], project: str
) -> None:
    """Send messages that come from outside, at once and in order; one with the id of an earlier one is not sent."""
    # The history first: a caller that dies in between sends them again, and the history shows each id once.
    await runtime.write_run(project, messages)
    await asyncio.gather(
        *(
            _send(
                runtime, one, message, project, None, f"{project}:{message.id}:{one.topic or one.agent_type}"
            )
            for message in messages
            for one in routing.destinations(message)
        )
    )


async def _send(
    runtime: AgentRuntime,
    destination: PostDestination,
    message: Message,
    project: str,
    sender: AgentId | None,
    message_id: str | None,
) -> None:
    key = key_of(project, destination.part)
    if destination.topic:
        topic = TopicId(destination.topic, key)
        await runtime.publish_message(message, topic, sender=sender, message_id=message_id, strict=False)
    else:
        await runtime.tell(
            message, AgentId(destination.agent_type, key), sender=sender, message_id=message_id
        )
