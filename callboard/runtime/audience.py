"""Who hears what this process publishes: where nobody would, it says so, once.

What its own agent types subscribe to and handle is known here, and is nearly always enough. Only for a topic and a class of
messages that none of them hears the server is asked, once and beside the publishing, which never waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Any, NamedTuple

from callboard.broker import AgentId, SubscriptionTable, TopicId
from callboard.broker.errors import BrokerError, UndeliverableError
from callboard.broker.redis.client.subscribers import subscribers_of
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.subscriptions import TypeSubscription
from callboard.errors import UnheardError, did_you_mean

from .local_agents import LocalAgents

logger = logging.getLogger("callboard.actors")

REMEMBERED = 10_000  # cases that are known; then they are looked at again
AT_ONCE = 50  # cases that the server is asked about together; more are looked at when they come again
PAUSE = 1.0  # seconds between two times that the server is asked
PATIENCE = 1.0  # seconds that closing waits for what was asked


class Case(NamedTuple):
    """What is published: all messages of one case are heard alike.

    Attributes:
        topic: topic type.
        message_class: class of the message.
        own_type: agent type of the sender, if its own key is the topic's source, so that it would not hear it; else None.
    """

    topic: str
    message_class: type[Any]
    own_type: str | None


class Audience:
    """Knows who hears what.

    Args:
        transport: the connection to the server.
        subscriptions: those of this process.
        agents: its agent types.
    """

    def __init__(
        self, transport: RedisTransport, subscriptions: SubscriptionTable, agents: LocalAgents
    ) -> None:
        self._transport = transport
        self._subscriptions = subscriptions
        self._agents = agents
        self._most_kept = transport.settings.max_unclaimed
        self._known: set[Case] = set()
        self._told: set[str] = set()
        self._known_types: set[str] = set()
        self._open: list[Case] = []
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None

    def notice(self, message: Any, topic_id: TopicId, sender: AgentId | None) -> None:
        """Looks at a message that is published; warns, a little later, if nobody hears it."""
        own_type = sender.type if sender is not None and sender.key == topic_id.source else None
        # A plain tuple is equal to the Case, and made in a quarter of the time.
        if (topic_id.type, message.__class__, own_type) not in self._known:
            self._look_at(Case(topic_id.type, message.__class__, own_type))

    async def check(self, message: Any, topic_id: TopicId, sender: AgentId | None) -> None:
        """Refuses a message that nobody would hear.

        Raises:
            UnheardError: nobody would.
            ServerUnavailableError, CommandError: the server has to know it, and can't be asked.
        """
        own_type = sender.type if sender is not None and sender.key == topic_id.source else None
        reason = await self.silence(Case(topic_id.type, message.__class__, own_type))
        if reason is not None:
            raise UnheardError(str(topic_id), reason)

    async def check_type(self, agent_type: str) -> None:
        """Refuses a message to an agent of a type that no process ever declared. The server is asked once for each type.

        Raises:
            UndeliverableError: there is no such agent type (a LookupError).
            ServerUnavailableError, CommandError: the server has to know it, and can't be asked.
        """
        if agent_type in self._agents or agent_type in self._known_types:
            return
        name = self._transport.keys.of("types")
        if not await self._transport.admin.command("HEXISTS", name, agent_type):
            raise UndeliverableError(agent_type)
        if len(self._known_types) >= REMEMBERED:
            self._known_types.clear()
        self._known_types.add(agent_type)

    async def silence(self, case: Case) -> str | None:
        """Why nobody hears messages of a case; None when somebody may."""
        if self._is_heard(case, self._subscribers_here(case.topic)):
            return None
        subscribers = (await subscribers_of(self._transport.admin, [case.topic]))[case.topic]
        reason = self._reason_if_unheard(case, subscribers)
        if reason is not None:
            self._told.add(reason)
        return reason

    def _look_at(self, case: Case) -> None:
        if len(self._open) >= AT_ONCE:
            return  # it is looked at when it comes again
        if len(self._known) >= REMEMBERED:
            self._known.clear()
            self._told.clear()
        self._known.add(case)
        if self._is_heard(case, self._subscribers_here(case.topic)):
            return
        self._open.append(case)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="callboard-audience")

    def _subscribers_here(self, topic: str) -> set[str]:
        topic_id = TopicId(topic, "")
        return {one.agent_type for one in self._subscriptions if one.is_match(topic_id)}

    def _reason_if_unheard(self, case: Case, subscribers: Collection[str]) -> str | None:
        return None if self._is_heard(case, subscribers) else self._reason(case, subscribers)

    def _is_heard(self, case: Case, subscribers: Collection[str]) -> bool:
        # Of a type that runs elsewhere it can't be known what it handles: it may be this.
        return any(
            self._agents.hears(agent_type, case.message_class) is not False
            for agent_type in subscribers
            if agent_type != case.own_type
        )

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._open:
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
            self._not_before = loop.time() + PAUSE
            await self._ask()

    async def _ask(self) -> None:
        while self._open:
            cases = list(self._open)
            topics = list(dict.fromkeys(case.topic for case in cases))
            # Who can't be asked says nothing; publishing itself tells of it.
            with contextlib.suppress(BrokerError):
                subscribers = await subscribers_of(self._transport.admin, topics)
                for case in cases:
                    self._tell(self._reason_if_unheard(case, subscribers[case.topic]))
            del self._open[: len(cases)]

    def _tell(self, reason: str | None) -> None:
        if reason is not None and reason not in self._told:
            self._told.add(reason)
            logger.warning("%s", reason)

    def _reason(self, case: Case, subscribers: Collection[str]) -> str:
        topic, message_class, own_type = case
        others = sorted(set(subscribers) - {own_type})
        if others:
            who = ", ".join(others)
            name = message_class.__name__
            return (
                f"{name} is published to {topic!r}, and of its subscribers ({who}) none handles it: "
                f"give one of them a method with @event and `message: {name}`"
            )
        if own_type is not None and subscribers:
            return (
                f"{own_type} publishes to {topic!r} what only it itself would hear, and an agent does not hear what it "
                "publishes: await self.remind(message) sends a message to itself"
            )
        kept = f"what is published there waits for who subscribes first, the newest {self._most_kept:,} of it"
        return f"nothing subscribes to the topic {topic!r} ({kept}). {self._advice(topic)}".rstrip()

    def _advice(self, topic: str) -> str:
        known = {one.topic_type for one in self._subscriptions if isinstance(one, TypeSubscription)}
        advice = did_you_mean(topic, known)
        return advice if advice.startswith("Did") else ""

    async def close(self) -> None:
        """Asks what is still to be asked, without a pause, so that a short program is told as well."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._ask()
