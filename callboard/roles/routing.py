"""Who gets a message: decided from the roles that there are, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .contents import check_content
from .errors import DuplicateRoleError, HopLimitError, UnknownRoleError
from .message import Message, Part
from .names import MESSAGE_ROUTE_TO_ALL, MESSAGE_ROUTE_TO_NONE, MESSAGE_ROUTE_TO_SELF, topic_of

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
class Destination:
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
        DuplicateRoleError: Two have one name (a ValueError).
    """

    def __init__(self, posts: Iterable[Post] = ()) -> None:
        self._posts: dict[str, Post] = {}
        for post in posts:
            self.add(post)

    def add(self, post: Post) -> None:
        """Add a role.

        Raises:
            DuplicateRoleError: There is one of its name (a ValueError).
        """
        if post.agent_type in self._posts:
            raise DuplicateRoleError(post.agent_type)
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
            UnknownContentError: The class of its content is not known (a ValueError).
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

    def destinations(self, message: Message, sender: str = "") -> Sequence[Destination]:
        """Where a message goes; nowhere, when it is a result.

        Args:
            message: As it is sent: with its acts, its rounds and its subtask.
            sender: Agent type of the role that sends it; "": it comes from outside.
        """
        return list(dict.fromkeys(self._destinations(message, sender)))

    def _destinations(self, message: Message, sender: str) -> Iterator[Destination]:
        for post in self._recipients(message, sender):
            if not post.may_act(message):
                continue
            part = part_of(post.subtask_of(message))
            if MESSAGE_ROUTE_TO_ALL in message.send_to and message.cause_by in post.watch:
                topic = topic_of(message.cause_by, joined=message.cause_by in post.joined)
                yield Destination(topic, "", part)
            else:
                yield Destination("", post.agent_type, part)

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
