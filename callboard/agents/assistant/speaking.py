"""What an assistant says, as messages."""

from __future__ import annotations

from typing import Any

from callboard.agents.guardrails.verdicts import Refused
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage, TextMessage
from callboard.messages.structured import StructuredMessage
from callboard.models.types import CreateResult

from .setup import Setup


def spoken(setup: Setup, answer: CreateResult, message_id: str) -> BaseChatMessage:
    """A text of the model as what the assistant says.

    Raises:
        ValueError: It does not fit the model of its answers (pydantic's ValidationError).
    """
    content = str(answer.content)
    known: dict[str, Any] = {"source": setup.name, "models_usage": answer.usage, "id": message_id}
    if setup.output_type is None:
        return TextMessage(content=content, **known)
    value = setup.output_type.model_validate_json(content)
    cls: Any = StructuredMessage[setup.output_type]  # type: ignore[name-defined]
    message: BaseChatMessage = cls(content=value, format_string=setup.output_format, **known)
    return message


def refusal(refused: Refused, source: str) -> BaseChatMessage:
    """The answer to a task that was refused."""
    cls = StopMessage if refused.stops else TextMessage
    return cls(content=refused.reason, source=source)
