"""A response of pydantic-ai's models as an answer of a server, whole or in chunks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, TypeAdapter

from callboard.models.openai.answer import ServerAnswer, WireAnswer, make_call
from callboard.models.types import RequestUsage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.usage import RequestUsage as MakersUsage

logger = logging.getLogger("callboard.models")

RESPONSE: Final = "pydantic_ai"
"""Where what is kept of an answer has the whole response, in the form in which pydantic-ai stores its messages."""
FINISH: Final[Mapping[str, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_calls",
    "content_filter": "content_filter",
}
NOT_KEPT: Final = frozenset(
    {
        "usage",
        "timestamp",
        "model_id",
        "run_id",
        "conversation_id",
        "metadata",
        "workspace_ref",
        "history_digest",
        "failed_attempts",
    }
)
PLAIN: Final = frozenset({"part_kind", "content", "tool_name", "args", "tool_call_id", "timestamp"})
"""Fields of a part that the messages of agents have as well."""
OF_TEXT: Final = PLAIN | {"id", "provider_name"}
"""The same of a text: no maker wants its number back."""


def answer_of(response: ModelResponse) -> ServerAnswer:
    """The answer of a whole response."""
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    _note(response)
    parts = response.parts
    text = "".join(part.content for part in parts if isinstance(part, TextPart))
    return ServerAnswer(
        text=text,
        reasoning="".join(part.content for part in parts if isinstance(part, ThinkingPart)),
        refusal="" if text else _refusal(response),
        calls=tuple(
            make_call(part.tool_call_id, part.tool_name, part.args_as_json_str())
            for part in parts
            if isinstance(part, ToolCallPart)
        ),
        finish=finish_of(response),
        usage=_usage(response.usage),
        beside=beside(response),
        citations=_citations(response),
    )


def finish_of(response: ModelResponse) -> str | None:
    """Why the answer ended, in OpenAI's word or the maker's; None: it did not come to its end."""
    known = FINISH.get(response.finish_reason or "")
    own = (response.provider_details or {}).get("finish_reason")
    return known or (str(own) if own else None)


def beside(response: ModelResponse) -> dict[str, Any]:
    """What the maker may want back: all of the response, where it has more than what agents keep of it."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    (dumped,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    kept = {name: value for name, value in dumped.items() if value is not None and name not in NOT_KEPT}
    kept["parts"] = [
        {name: value for name, value in part.items() if value is not None} for part in kept["parts"]
    ]
    has_more = any(
        part.keys() - (OF_TEXT if part["part_kind"] == "text" else PLAIN) for part in kept["parts"]
    )
    return {RESPONSE: kept} if has_more else {}


def _refusal(response: ModelResponse) -> str:
    return str((response.provider_details or {}).get("refusal") or "")


def _citations(response: ModelResponse) -> list[JsonValue]:
    from pydantic_ai.messages import Citation, TextPart

    named = [one for part in response.parts if isinstance(part, TextPart) for one in part.citations or ()]
    plain: list[JsonValue] = TypeAdapter(list[Citation]).dump_python(named, mode="json", exclude_none=True)
    return plain


def _usage(usage: MakersUsage) -> RequestUsage:
    read, written = usage.input_tokens, usage.output_tokens
    reasoning = usage.output_reasoning_tokens or 0
    return RequestUsage(read, written, min(usage.cache_read_tokens, read), min(reasoning, written))


def _note(response: ModelResponse) -> None:
    """The maker's number of an answer, which its support asks for."""
    logger.debug("%s answered as %s", response.model_name, response.provider_response_id)


# Streams


class ChunkWriter:
    """Writes the events of one stream as chunks of OpenAI's chat API."""

    def __init__(self) -> None:
        self._read = 0

    def chunks(self, event: ModelResponseStreamEvent, usage: MakersUsage) -> Iterator[WireAnswer]:
        """The chunk of an event, if it has one.

        Args:
            event: what came.
            usage: as far as the maker has counted: only what it read is sure before the end.
        """
        delta = _delta(event)
        told: dict[str, Any] = {}
        if usage.input_tokens and usage.input_tokens != self._read:
            self._read = usage.input_tokens
            told["usage"] = {"prompt_tokens": self._read}
        if delta is not None:
            told["choices"] = [{"delta": delta}]
        if told:
            yield WireAnswer.model_validate(told)

    def last(self, response: ModelResponse) -> WireAnswer:
        """The chunk at the end: why the answer ended, what it used, and what its maker wants back."""
        _note(response)
        usage = _usage(response.usage)
        has_text = any(part.part_kind == "text" and part.content for part in response.parts)
        delta = {
            "refusal": None if has_text else _refusal(response) or None,
            "citations": _citations(response),
            **beside(response),
        }
        told = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        }
        choice = {"delta": delta, "finish_reason": finish_of(response)}
        return WireAnswer.model_validate({"choices": [choice], "usage": told})


def _delta(event: ModelResponseStreamEvent) -> dict[str, Any] | None:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent

    if isinstance(event, PartStartEvent):
        return _beginning(event)
    return _continuation(event) if isinstance(event, PartDeltaEvent) else None


def _beginning(event: Any) -> dict[str, Any] | None:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    part = event.part
    if isinstance(part, TextPart):
        return {"content": part.content}
    if isinstance(part, ThinkingPart):
        return {"reasoning": part.content}
    if isinstance(part, ToolCallPart):
        return _call(event.index, part.tool_call_id, part.tool_name, part.args)
    return None


def _continuation(event: Any) -> dict[str, Any] | None:
    from pydantic_ai.messages import TextPartDelta, ThinkingPartDelta, ToolCallPartDelta

    delta = event.delta
    if isinstance(delta, TextPartDelta):
        return {"content": delta.content_delta}
    if isinstance(delta, ThinkingPartDelta):
        return {"reasoning": delta.content_delta}
    if isinstance(delta, ToolCallPartDelta):
        return _call(event.index, delta.tool_call_id, delta.tool_name_delta, delta.args_delta)
    return None


def _call(index: int, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}
