"""What clients of OpenAI's API log of their calls, at DEBUG: what is said stands in it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from callboard.logging import EVENT_LOGGER_NAME, LLMCallEvent, LLMStreamEndEvent, LLMStreamStartEvent
from callboard.models.types import CreateResult

events: Final = logging.getLogger(EVENT_LOGGER_NAME)


def log_call(arguments: Mapping[str, Any], result: CreateResult) -> None:
    """A request was answered."""
    if events.isEnabledFor(logging.DEBUG):
        usage = result.usage
        events.debug(
            LLMCallEvent(
                messages=arguments["messages"],
                tools=arguments.get("tools", []),
                response=result.model_dump(mode="json"),
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )
        )


def log_stream_start(arguments: Mapping[str, Any]) -> None:
    """A stream was asked for."""
    if events.isEnabledFor(logging.DEBUG):
        events.debug(LLMStreamStartEvent(messages=arguments["messages"], tools=arguments.get("tools", [])))


def log_stream_end(result: CreateResult) -> None:
    """A stream came to its end."""
    if events.isEnabledFor(logging.DEBUG):
        usage = result.usage
        events.debug(
            LLMStreamEndEvent(
                response=result.model_dump(mode="json"),
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )
        )
