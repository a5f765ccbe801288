"""What agents say to each other."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from callboard.broker.encoding.registry import message
from callboard.memory.llm_messages import (
    FunctionCall,
    FunctionExecutionResult,
    Image,
    LLMMessage,
    UserMessage,
)

from .base import BaseChatMessage, BaseTextChatMessage


@message(name="callboard.TextMessage")
class TextMessage(BaseTextChatMessage):
    """A text."""

    type: Literal["TextMessage"] = "TextMessage"


@message(name="callboard.MultiModalMessage")
class MultiModalMessage(BaseChatMessage):
    """Texts and pictures in their order.

    Attributes:
        content: The texts and pictures. AutoGen's can't be read back from JSON; these can.
    """

    content: list[str | Image]
    type: Literal["MultiModalMessage"] = "MultiModalMessage"

    def to_model_text(self, image_placeholder: str | None = "[image]") -> str:
        """The texts, and for each picture a blank and a placeholder.

        Args:
            image_placeholder: Stands for a picture; None: the picture itself as base64, or its address.
        """
        return "".join(
            part if isinstance(part, str) else f" {_shown(part, image_placeholder)}" for part in self.content
        )

    def to_text(self, iterm: bool = False) -> str:
        """The parts, each on a line of its own.

        Args:
            iterm: Show pictures as iTerm2 does, instead of ``<image>``.
        """
        return "\n".join(
            part if isinstance(part, str) else _for_terminal(part, iterm) for part in self.content
        )

    def to_model_message(self) -> UserMessage:
        """Texts and pictures, said by `source`."""
        return UserMessage(content=self.content, source=self.source)


def _shown(image: Image, placeholder: str | None) -> str:
    return placeholder if placeholder is not None else (image.data or image.url or "")


def _for_terminal(image: Image, iterm: bool) -> str:
    if not iterm or image.data is None:
        return "<image>"
    return f"\033]1337;File=inline=1:{image.data}\a\n"


@message(name="callboard.StopMessage")
class StopMessage(BaseTextChatMessage):
    """Says that a conversation is to end; its content is the reason."""

    type: Literal["StopMessage"] = "StopMessage"


@message(name="callboard.HandoffMessage")
class HandoffMessage(BaseTextChatMessage):
    """Hands the conversation over to another agent.

    Attributes:
        target: Name of the agent who goes on.
        context: What that agent's model is to know beside the content, such as the results of other calls.
    """

    target: str
    context: list[LLMMessage] = Field(default_factory=list)
    type: Literal["HandoffMessage"] = "HandoffMessage"


@message(name="callboard.ToolCallSummaryMessage")
class ToolCallSummaryMessage(BaseTextChatMessage):
    """Says what tools returned, as the answer of an agent.

    Attributes:
        tool_calls: The calls.
        results: What each of them returned.
    """

    tool_calls: list[FunctionCall]
    results: list[FunctionExecutionResult]
    type: Literal["ToolCallSummaryMessage"] = "ToolCallSummaryMessage"
