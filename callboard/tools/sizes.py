"""How large the result of a tool may be: one rule for functions, HTTP, MCP, LangChain and tools in other processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from callboard.errors import SettingValueError
from callboard.memory.llm_messages import Image

from .results import (
    ImageResultContent,
    ResultContent,
    TextResultContent,
    ToolResult,
    describe_image,
    size_of_image,
)
from .text import SENTENCE, cut

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
