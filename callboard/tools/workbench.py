"""Workbenches: sets of tools, listed and called in one way within time limits; and those with a fixed list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from callboard.core.cancellation import CancellationToken
from callboard.errors import SettingValueError
from callboard.foundation.component import ComponentBase
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult, Image

from .approval import NeedsApproval
from .base import SENTENCE, Tool, check_finite, clean, cut, validated
from .call import CheckedArguments
from .errors import ToolError, UnknownToolError
from .json_model import given_arguments, model_of_parameters
from .schema import ToolSchema, to_parameters

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

    @property
    def images(self) -> list[Image]:
        """The images among the parts."""
        return [part.content for part in self.result if isinstance(part, ImageResultContent)]

    def for_model(self, call: FunctionCall) -> FunctionExecutionResult:
        """The result as the model sees it that has asked for it."""
        return FunctionExecutionResult(
            content=self.to_text(),
            name=call.name,
            call_id=call.id,
            is_error=self.is_error,
            images=self.images,
        )

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


LEAST_TEXT: Final = 2 * SENTENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLimits:
    """How large the result of one call may be.

    What is longer is cut, with a sentence that says how much is missing. With the defaults a result always fits into a
    message and into a record of its handler (`max_payload`, 1 MiB).

    Attributes:
        max_text: characters, of all text parts together; at least 200.
        max_image: bytes, of all images together; 0: no images.

    Raises:
        SettingValueError: A number that can't work (a ValueError).
    """

    max_text: int = 50_000
    max_image: int = 500_000

    def __post_init__(self) -> None:
        if self.max_text < LEAST_TEXT:
            raise SettingValueError("max_text", repr(self.max_text), f"at least {LEAST_TEXT}")
        if self.max_image < 0:
            raise SettingValueError("max_image", repr(self.max_image), "at least 0")

    def within(self, result: ToolResult) -> ToolResult:
        """The result, cut to these limits."""
        parts = list(self._with_small_images(result.result))
        if _characters(parts) > self.max_text:
            parts = list(self._with_short_texts(parts))
        return result if parts == result.result else result.model_copy(update={"result": parts})

    def _with_small_images(self, parts: list[ResultContent]) -> Iterator[ResultContent]:
        room = self.max_image
        for part in parts:
            size = 0 if isinstance(part, TextResultContent) else size_of_image(part.content)
            if isinstance(part, ImageResultContent) and size > room:
                yield TextResultContent(content=_left_out(part.content, self.max_image))
            else:
                room -= size
                yield part

    def _with_short_texts(self, parts: list[ResultContent]) -> Iterator[ResultContent]:
        room = self.max_text
        for number, part in enumerate(parts):
            size = _characters([part])
            if size > room - SENTENCE:
                text = part.content if isinstance(part, TextResultContent) else ""
                yield TextResultContent(content=cut(text, room, _characters(parts[number:])))
                return
            room -= size
            yield part


def _left_out(image: Image, limit: int) -> str:
    return f"[Image left out: {describe_image(image)}; those of one result may have {limit:,} bytes together]"


def _characters(parts: list[ResultContent]) -> int:
    return sum(
        len(part.content) if isinstance(part, TextResultContent) else len(part.content.url or "")
        for part in parts
    )


DEFAULT_LIMITS: Final = ResultLimits()


class Workbench(ABC, ComponentBase[BaseModel]):
    """Lists tools and calls them by name; errors of tools are results, so that the model can read them.

    Ask `list_tools` before each call of a model: the list may change. As a context manager it starts and stops.
    """

    component_type = "workbench"

    @abstractmethod
    async def list_tools(self) -> list[ToolSchema]:
        """The tools that can be called now."""
        ...

    @abstractmethod
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool. All our workbenches take a whole FunctionCall of a model as `name`, too.

        Args:
            name: As `list_tools` has it.
            arguments: By name, as plain data; None: none.
            cancellation_token: Ends the tool when it is cancelled.
            call_id: The id that the model gave to the call.

        Returns:
            The result. A tool that does not exist, raises, takes too long, or is given arguments that are no JSON or
            don't fit, gives a result with `is_error` that says so.

        Raises:
            asyncio.CancelledError: The token, or the caller, was cancelled.
            FencedError: This worker has lost the message that it handles; another one has it.
            ServerUnavailableError: The server of the bus was lost in the middle of it.
        """
        ...

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end. Here: only the result.

        Close it (``aclose``) if you don't read it to its end: that ends the tool.
        """
        yield await self.call_tool(name, arguments, cancellation_token, call_id)

    def approval_of(self, name: str) -> NeedsApproval:
        """Which calls of a tool a person has to allow: here none. A workbench around others hands theirs on.

        Args:
            name: As `list_tools` has it; there may be no such tool.
        """
        return False

    async def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The arguments with which a call would run, before it is made: rules and people are asked about these.

        Here by the schema that `list_tools` has. A workbench around others hands on what theirs say.

        Args:
            name: As `list_tools` has it.
            arguments: As the model wrote them.

        Raises:
            UnknownToolError: There is no such tool (a LookupError).
            ToolArgumentsError: They don't fit (a ValueError).
        """
        return checked_by_schema(name, arguments, await self.list_tools())

    async def start(self) -> None:
        """Get ready: connect, start processes. Safe to repeat."""

    async def stop(self) -> None:
        """Give back what `start` took. Safe to repeat."""

    async def reset(self) -> None:
        """Go back to how it was after `start`."""

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the workbench and its tools, as plain data."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def checked_by_schema(
    name: str, arguments: Mapping[str, Any], schemas: Sequence[ToolSchema]
) -> CheckedArguments:
    """The arguments as the schema of a tool takes them; see `Workbench.check_arguments`."""
    known = {one["name"]: one for one in schemas}
    if name not in known:
        raise UnknownToolError(name, list(known))
    parameters = to_parameters(dict(known[name].get("parameters", {})), name)
    checked = validated(model_of_parameters(parameters, name), arguments, name)
    given = given_arguments(checked, parameters)
    check_finite(given, name)
    return CheckedArguments(given, given, arguments)


class StreamWorkbench(Workbench):
    """A workbench whose tools may yield something on the way: a name of AutoGen's to ask for with isinstance."""
