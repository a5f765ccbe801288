"""The results of tool calls: text and images for the model, errors included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from callboard.memory.llm_messages import Image

from .base import Tool
from .errors import ToolError
from .text import clean, cut

MAX_ERROR: int = 10_000
"""Characters of an error's text that a model is shown."""


class TextResultContent(BaseModel):
    """A part that is text.

    Attributes:
        content: The text.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["TextResultContent"] = "TextResultContent"
    content: str


class ImageResultContent(BaseModel):
    """A part that is an image.

    Attributes:
        content: The image.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["ImageResultContent"] = "ImageResultContent"
    content: Image


ResultContent: TypeAlias = Annotated[TextResultContent | ImageResultContent, Field(discriminator="type")]


class ToolResult(BaseModel):
    """The result of one call of a tool of a workbench. It can be sent as a message.

    Attributes:
        name: The tool, as the caller named it.
        result: The parts, in order.
        is_error: True if the call failed; then the parts say why, so that the model can do better.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["ToolResult"] = "ToolResult"
    name: str
    result: list[ResultContent]
    is_error: bool = False

    def to_text(self, replace_image: str | None = None) -> str:
        """The parts as one text, a line break between them.

        Args:
            replace_image: Stands for each image; None: its format and size, or its address. AutoGen has the whole image
                as base64 here, which fills a model's context with what it can't read.
        """
        return "\n".join(_part_text(part, replace_image) for part in self.result)


def _part_text(part: TextResultContent | ImageResultContent, replace_image: str | None) -> str:
    if isinstance(part, TextResultContent):
        return part.content
    if replace_image is not None:
        return replace_image
    return f"[Image: {describe_image(part.content)}]"


def describe_image(image: Image) -> str:
    """An image in a few words: its address, or its format and size."""
    if image.data is None:
        return image.url or ""
    return f"{image.mime_type}, {size_of_image(image):,} bytes"


def size_of_image(image: Image) -> int:
    """Bytes of an image that is held here; 0 for one on the web."""
    data = image.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=")


def result_of(tool: Tool, name: str, value: Any) -> ToolResult:
    """The result for what a tool returned.

    Args:
        tool: The tool that returned it.
        name: The name that it was called by.
        value: The value that it returned: an image, or a list of texts and images, become parts; a ToolResult stays one;
            anything else becomes text.

    Raises:
        ToolReturnError: It can't be shown as text (a TypeError).
    """
    if isinstance(value, ToolResult):
        return value.model_copy(update={"name": name})
    if isinstance(value, list | tuple) and any(isinstance(item, Image) for item in value):
        return ToolResult(name=name, result=[_part(tool, item) for item in value])
    return ToolResult(name=name, result=[_part(tool, value)])


def _part(tool: Tool, value: Any) -> TextResultContent | ImageResultContent:
    if isinstance(value, Image):
        return ImageResultContent(content=value)
    return TextResultContent(content=clean(tool.return_value_as_string(value)))


def error_result(name: str, error: BaseException) -> ToolResult:
    """The result for a call that failed: what the model needs to know to do better."""
    text = cut(clean(describe(error)), MAX_ERROR)
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=True)


def describe(error: BaseException) -> str:
    """An error in one sentence; of a group of errors, one line each.

    AutoGen gives only the text, so that a KeyError reads `'x'`; here its class comes first, unless it is one of ours,
    whose texts are whole sentences.
    """
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(describe(one) for one in error.exceptions)
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - __str__ of a user's error may do anything
        text = f"its text can't be made: {type(broken).__name__}"
    if isinstance(error, ToolError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def texts(*contents: str) -> Sequence[TextResultContent]:
    """Text parts."""
    return [TextResultContent(content=clean(content)) for content in contents]
