"""The part of the runtime that programs and agents send through, and read along with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from callboard.broker import AgentId, TopicId
from callboard.broker.redis.client.transport import RedisTransport
from callboard.cancellation import CancellationToken
from callboard.requests import Request, ResponseT
from callboard.send_options import (
    USUAL,
    PublishOptions,
    ReminderOptions,
    RequestOptions,
    SendOptions,
    TellOptions,
)

from .addressing import agent_of, topic_of
from .audience import Case
from .lifecycle import RuntimeLifecycle

if TYPE_CHECKING:
    from .following import Following


class RuntimeMessages(RuntimeLifecycle):
    """A runtime as those see it who send messages."""

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> ResponseT: ...

    @overload
    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Sends a request to one agent and waits for its response; see AgentRuntime.send_message.

        Args:
            message: the request.
            recipient: the agent to ask.
            sender: who asks.
            cancellation_token: cancels the wait.
            message_id: an id of your own; the request is carried out once, and sending it again gets the same reply.
            **options: see RequestOptions.

        Raises:
            RequestTimeoutError: no reply in time; the request may still be carried out.
        """
        sending = self._sender or await self._open_sender()
        how = SendOptions.of_request(message_id, options) if options or message_id is not None else USUAL
        agent = recipient if isinstance(recipient, AgentId) else agent_of(recipient)
        return await sending.send(message, agent, sender, cancellation_token, how)

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Publishes a message; see AgentRuntime.publish_message. In a handler it leaves with the handler's commit."""
        sending = self._sender or await self._open_sender()
        how = SendOptions.of_event(message_id, options) if options or message_id is not None else USUAL
        topic = topic_id if isinstance(topic_id, TopicId) else topic_of(topic_id)
        posted = sending.publish(message, topic, sender, cancellation_token, how)
        if posted is not None:
            await posted

    async def unheard(self, message_class: type[Any], topic_id: TopicId | str) -> str | None:
        """Why nobody would hear messages of a class that a program publishes to a topic; None: somebody may."""
        sending = self._sender or await self._open_sender()
        return await sending.audience.silence(Case(topic_of(topic_id).type, message_class, None))

    async def tell(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        message_id: str | None = None,
        **options: Unpack[TellOptions],
    ) -> None:
        """Sends a message to one agent; see AgentRuntime.tell. In a handler it leaves with the handler's commit.

        Raises:
            UndeliverableError: there is no such agent type (a LookupError).
            ScheduleError: the time can't be meant so (a ValueError).
        """
        sending = self._sender or await self._open_sender()
        how = SendOptions.of_tell(message_id, options) if options or message_id is not None else USUAL
        agent = recipient if isinstance(recipient, AgentId) else agent_of(recipient)
        await sending.tell(message, agent, sender, how)

    async def remind(
        self,
        message: Any,
        agent: AgentId,
        *,
        message_id: str | None = None,
        **options: Unpack[ReminderOptions],
    ) -> None:
        """Sends an agent a message from itself; see BaseAgent.remind. In a handler it leaves with the handler's commit.

        Raises:
            ScheduleError: the time can't be meant so (a ValueError).
            UndeliverableError: there is no such agent type (a LookupError).
        """
        sending = self._sender or await self._open_sender()
        itself = agent_of(agent)
        await sending.tell(message, itself, itself, SendOptions.of_reminder(message_id, options))

    def follow(
        self,
        topic: TopicId | str,
        *,
        key: str | None = None,
        last: int = 0,
        from_start: bool = False,
    ) -> Following:
        """Reads what is published to a topic, as long as it is read: for windows that come and go.

        ```python
        async for message, ctx in runtime.follow("pieces", key="ada"):
            ...
        ```

        It takes nothing from the agents that subscribe, leaves nothing in the server, and begins anew each time; see
        Following.

        Args:
            topic: A TopicId, or its text; a topic type alone stands for all of its sources.
            key: Only messages of this source.
            last: Begin with so many that are there already, at most; 0: with what comes next.
            from_start: Begin with everything that the stream still has.

        Raises:
            InvalidIdError: The topic is not valid (a ValueError).
            SettingValueError: `last` is no number, or `from_start` or another key is given as well (a ValueError).
        """
        from .following import Following, Place, Start

        following = Following(
            self._connected, self.registry, Place.of(topic, key), Start.of(last, from_start)
        )
        self._followings.add(following)
        return following

    async def _connected(self) -> RedisTransport:
        await self.open()
        return self.transport
