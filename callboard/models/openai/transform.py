"""Messages as the chat API takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.models.errors import UnsupportedFeatureError
from callboard.models.family import ModelFamily

from .calls_in_text import call_as_text
from .names import SpeakerNames
from .placing import WireDict, placed
from .settings import OpenAISettings

BLANK: Final = " "  # in place of an empty text where none is taken
# Without this sentence small models take the result for a question, and make the same call again and again. It is part of
# every result and not only of the last, so that what a server has read stays the same.
AFTER_RESULTS: Final = "Now answer my question with this, or call another tool if something is still missing."


@dataclass(frozen=True, slots=True)
class Transformer:
    """Turns messages into those of the API, as a model and the client's settings have it."""

    settings: OpenAISettings

    def messages(
        self, messages: Sequence[LLMMessage], instructions: str | None = None, closing: str | None = None
    ) -> list[WireDict]:
        """The messages of a request.

        Args:
            messages: the conversation.
            instructions: of the client's own, the same in every request of a conversation.
            closing: of the client's own, for this request.

        Raises:
            UnsupportedFeatureError: an image for a model that sees none.
        """
        names = SpeakerNames()
        wire = [part for message in messages for part in self._message(message, names)]
        several = self.settings.info.get("multiple_system_messages", False)
        wire = placed(wire, several=several, instructions=instructions, closing=closing)
        return self._as_the_family_has_it(wire)

    def _message(self, message: LLMMessage, names: SpeakerNames) -> Iterator[WireDict]:
        if isinstance(message, SystemMessage):
            yield {"role": "system", "content": message.content}
        elif isinstance(message, UserMessage):
            yield {
                "role": "user",
                "content": self._user_content(message),
                **self._name(message.source, names),
            }
        elif isinstance(message, AssistantMessage):
            yield {
                "role": "assistant",
                **self._name(message.source, names),
                **self._assistant_content(message),
            }
        else:
            yield from self._results(message)

    def _user_content(self, message: UserMessage) -> str | list[WireDict]:
        prefix = f"{message.source} said:\n" if self.settings.add_name_prefixes else ""
        if isinstance(message.content, str):
            return prefix + message.content
        parts: list[WireDict] = [{"type": "text", "text": prefix}] if prefix else []
        return parts + [self._part(part) for part in message.content]

    def _part(self, part: str | Image) -> WireDict:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if not self.settings.info["vision"]:
            raise UnsupportedFeatureError(self.settings.model, "it takes no images (model_info['vision'])")
        return part.to_openai_format()

    def _assistant_content(self, message: AssistantMessage) -> WireDict:
        if isinstance(message.content, str):
            return {"content": message.content}
        if self.settings.tells_tools_in_text:
            return {"content": "\n".join(call_as_text(call) for call in message.content)}
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.content
        ]
        return {"content": message.thought, "tool_calls": calls}

    def _results(self, message: FunctionExecutionResultMessage) -> Iterator[WireDict]:
        if not self.settings.tells_tools_in_text:
            for result in message.content:
                yield {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
            return
        told = [
            f"{'Error' if result.is_error else 'Result'} of {result.name}: {result.content}"
            for result in message.content
        ]
        yield {"role": "user", "content": "\n".join((*told, AFTER_RESULTS))}

    def _name(self, source: str, names: SpeakerNames) -> Mapping[str, str]:
        if not self.settings.include_name_in_message or ModelFamily.is_mistral(self.settings.info["family"]):
            return {}
        return {"name": names.of(source)}

    def _as_the_family_has_it(self, wire: list[WireDict]) -> list[WireDict]:
        """Servers of Anthropic and Google refuse empty texts, Anthropic's also space at the end of the last answer.

        It is taken from every answer: the last one of this request is in the middle of the next.
        """
        family = self.settings.info["family"]
        if ModelFamily.is_claude(family):
            wire = [_without_space_at_end(message) for message in wire]
        if ModelFamily.is_claude(family) or ModelFamily.is_gemini(family):
            return [{**message, "content": message["content"] or BLANK} for message in wire]
        return wire


def _without_space_at_end(message: WireDict) -> WireDict:
    if message["role"] != "assistant":
        return message
    return {**message, "content": (message["content"] or "").rstrip()}
