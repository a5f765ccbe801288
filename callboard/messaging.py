"""What every agent can do with messages: ask others, tell them, publish, and remind itself."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Unpack, overload

from callboard.broker.ids import AgentId, TopicId

from .cancellation import CancellationToken
from .protocol import AgentRuntime
from .requests import Request, ResponseT
from .send_options import PublishOptions, ReminderOptions, RequestOptions, TellOptions


class Messaging:
    """The part of an agent that sends; its runtime does it, in its name."""

    @property
    def id(self) -> AgentId:
        """The agent's address."""
        raise NotImplementedError

    @property
    def runtime(self) -> AgentRuntime:
        """The runtime that the agent lives in."""
        raise NotImplementedError

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        recipient: AgentId | str,
        *,
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
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send a request to another agent and wait for its response; see `AgentRuntime.send_message`.

        Args:
            message: The request.
            recipient: The agent to ask: an AgentId, or its text, such as ``"clerk/ada"``.
            cancellation_token: Pass `ctx.cancellation_token` on, so that cancelling reaches this request as
                well.
            message_id: An id of your own; None: one that is the same in every attempt.
            **options: See RequestOptions.

        Returns:
            The response.
        """
        return await self.runtime.send_message(
            message,
            recipient,
            sender=self.id,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    def publish_message(
        self,
        message: Any,
        topic_id: TopicId | str,
        *,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> Coroutine[Any, Any, None]:
        """Publish a message to a topic; see `AgentRuntime.publish_message`.

        An agent does not hear what it publishes itself, as in AutoGen: `remind` is for that.

        Args:
            message: The message.
            topic_id: Where to: a TopicId; its text, such as ``"orders/ada"``; or a topic type alone, whose source is
                then the key of the agent that handles a message, as in DefaultTopicId.
            cancellation_token: Cancels the call as long as the message has not left.
            message_id: An id of your own; None: one that is the same in every attempt.
            **options: See PublishOptions.

        Returns:
            To be awaited. It is that of the runtime: one of its own would cost as much again.
        """
        return self.runtime.publish_message(
            message,
            topic_id,
            sender=self.id,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    def tell(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        message_id: str | None = None,
        **options: Unpack[TellOptions],
    ) -> Coroutine[Any, Any, None]:
        """Send a message to one agent, now or later, without waiting; an `@event` or `@message_handler` handles it.

        In a handler it leaves with the handler's commit: with a failed attempt it is gone, and another attempt sends
        the same one. To tell itself is allowed. The recipient gets it in the order in which everything for it was sent,
        topics included.

        Args:
            message: The message; its context has this agent as `sender` and no topic.
            recipient: The agent: an AgentId, or its text, such as ``"clerk/ada"``; it is created when it does not
                exist yet.
            message_id: An id of your own; a second message with the same id is dropped. None: one that is the
                same in every attempt.
            **options: See TellOptions.

        Returns:
            To be awaited, as that of `publish_message`.

        Raises:
            UndeliverableError: There is no such agent type (a LookupError).
            ScheduleError: The time can't be meant so (a ValueError).
        """
        return self.runtime.tell(message, recipient, sender=self.id, message_id=message_id, **options)

    async def remind(
        self, message: Any, *, message_id: str | None = None, **options: Unpack[ReminderOptions]
    ) -> None:
        """Send a message to this agent itself, now or later; an `@event` or `@message_handler` handles it.

        In a handler it leaves with the handler's commit: with a failed attempt it is gone, and another attempt sends
        the same one. It waits in Redis, whichever process runs the agent by then. Nothing takes it back: put into the
        state what you wait for, and let the handler pass over a reminder that is no longer needed.

        ```python
        await self.remind(CheckPayment(order=message.order), after=3600)
        ```

        Args:
            message: The message; its context has this agent as `sender` and no topic.
            message_id: An id of your own; a second message with the same id is dropped. None: one that is the
                same in every attempt.
            **options: When; see ReminderOptions. At once without.

        Raises:
            ScheduleError: The time can't be meant so (a ValueError).
        """
        await self.runtime.remind(message, self.id, message_id=message_id, **options)
