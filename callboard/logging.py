"""Records of calls for logs, with the names and fields of `autogen_core.logging`.

The records are logged under `EVENT_LOGGER_NAME`, at DEBUG, because what is said stands in them; AutoGen logs them at
INFO. The text of each is JSON. Model clients log LLMCallEvent, LLMStreamStartEvent and LLMStreamEndEvent, tools
ToolCallEvent, and a runtime the others, if the logger is at DEBUG when it opens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from callboard.core.context import handling

if TYPE_CHECKING:
    from callboard.broker.ids import AgentId, TopicId

ROOT_LOGGER_NAME: Final = "callboard"
"""Every logger of Callboard is below this one."""
EVENT_LOGGER_NAME: Final = "callboard.events"
"""The logger of the records of this module."""
TRACE_LOGGER_NAME: Final = "callboard.trace"
"""A logger for people who look for an error, as AutoGen has it; Callboard's own logs are below `callboard`."""


class LogEvent:
    """One record.

    Attributes:
        kwargs: its fields, as plain data; `type` says what it is.
    """

    def __init__(self, type: str, **fields: Any) -> None:
        self.kwargs: dict[str, Any] = {**fields, "type": type}

    def __str__(self) -> str:
        """JSON; what JSON does not have is its text."""
        return json.dumps(self.kwargs, default=str)


class _UsageEvent(LogEvent):
    @property
    def prompt_tokens(self) -> int:
        """Tokens that the model read."""
        tokens: int = self.kwargs["prompt_tokens"]
        return tokens

    @property
    def completion_tokens(self) -> int:
        """Tokens that it wrote."""
        tokens: int = self.kwargs["completion_tokens"]
        return tokens


class LLMCallEvent(_UsageEvent):
    """A model was asked, and answered.

    Args:
        messages: What it was asked, as plain data.
        response: Its answer, as plain data.
        prompt_tokens: Tokens that it read.
        completion_tokens: Tokens that it wrote.
        kwargs: Anything else.
    """

    def __init__(
        self,
        *,
        messages: Sequence[Mapping[str, Any]],
        response: Mapping[str, Any],
        prompt_tokens: int,
        completion_tokens: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            **kwargs,
            type="LLMCall",
            messages=messages,
            response=response,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            agent_id=_agent_here(),
        )


class LLMStreamStartEvent(LogEvent):
    """A model was asked for a stream.

    Args:
        messages: What it was asked, as plain data.
        kwargs: Anything else.
    """

    def __init__(self, *, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> None:
        super().__init__(**kwargs, type="LLMStreamStart", messages=messages, agent_id=_agent_here())


class LLMStreamEndEvent(_UsageEvent):
    """The stream of a model ended.

    Args:
        response: The whole answer, as plain data.
        prompt_tokens: Tokens that it read.
        completion_tokens: Tokens that it wrote.
        kwargs: Anything else.
    """

    def __init__(
        self, *, response: Mapping[str, Any], prompt_tokens: int, completion_tokens: int, **kwargs: Any
    ) -> None:
        super().__init__(
            **kwargs,
            type="LLMStreamEnd",
            response=response,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            agent_id=_agent_here(),
        )


class ToolCallEvent(LogEvent):
    """A tool was called.

    Args:
        tool_name: Its name.
        arguments: By name, as plain data.
        result: What the model gets to read.
    """

    def __init__(self, *, tool_name: str, arguments: Mapping[str, Any], result: str) -> None:
        super().__init__(
            "ToolCall", tool_name=tool_name, arguments=dict(arguments), result=result, agent_id=_agent_here()
        )


class MessageKind(Enum):
    """The way of a message."""

    DIRECT = 1
    PUBLISH = 2
    RESPOND = 3


class DeliveryStage(Enum):
    """How far a message is on its way."""

    SEND = 1
    DELIVER = 2


class MessageEvent(LogEvent):
    """A message was sent or delivered.

    Args:
        payload: What it holds, as text.
        sender: Its sender; None: from outside any agent.
        receiver: The agent or the topic; None: there is none.
        kind: Its way.
        delivery_stage: Which of the two.
        kwargs: Anything else.
    """

    def __init__(
        self,
        *,
        payload: str,
        sender: AgentId | None,
        receiver: AgentId | TopicId | None,
        kind: MessageKind,
        delivery_stage: DeliveryStage,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            **kwargs,
            type="Message",
            payload=payload,
            sender=_text(sender),
            receiver=_text(receiver),
            kind=str(kind),
            delivery_stage=str(delivery_stage),
        )


class MessageDroppedEvent(LogEvent):
    """A message was dropped. The arguments are those of MessageEvent."""

    def __init__(
        self,
        *,
        payload: str,
        sender: AgentId | None,
        receiver: AgentId | TopicId | None,
        kind: MessageKind,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            **kwargs,
            type="MessageDropped",
            payload=payload,
            sender=_text(sender),
            receiver=_text(receiver),
            kind=str(kind),
        )


class MessageHandlerExceptionEvent(LogEvent):
    """A handler raised.

    Args:
        payload: What its message holds, as text.
        handling_agent: The agent.
        exception: What it raised.
        kwargs: Anything else.
    """

    def __init__(
        self, *, payload: str, handling_agent: AgentId, exception: BaseException, **kwargs: Any
    ) -> None:
        super().__init__(
            **kwargs,
            type="MessageHandlerException",
            payload=payload,
            handling_agent=str(handling_agent),
            exception=str(exception),
        )


class AgentConstructionExceptionEvent(LogEvent):
    """A factory raised.

    Args:
        agent_id: The agent that it was to make.
        exception: What it raised.
        kwargs: Anything else.
    """

    def __init__(self, *, agent_id: AgentId, exception: BaseException, **kwargs: Any) -> None:
        super().__init__(
            **kwargs, type="AgentConstructionException", agent_id=str(agent_id), exception=str(exception)
        )


def _agent_here() -> str | None:
    """The agent whose handler is running."""
    return _text(handling.get(None))


def _text(id: AgentId | TopicId | None) -> str | None:
    return None if id is None else str(id)
