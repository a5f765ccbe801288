"""A request, written for OpenAI's chat API, as pydantic-ai's models take it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from callboard.models.errors import BadRequestError

from .answers import RESPONSE

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        UserContent,
    )
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from .maker import Maker

Wire = Mapping[str, Any]

NO_TEXT: Final = "(no text)"  # makers refuse an empty text, and one that is blank
LIMITS: Final = ("max_completion_tokens", "max_tokens")
ANY_OBJECT: Final = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class MakerRequest:
    """The three arguments of a request of pydantic-ai's."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters

    @classmethod
    def of(cls, arguments: Wire, maker: Maker, model: Model) -> MakerRequest:
        """Translate the arguments of a request.

        Raises:
            BadRequestError: an image that the maker can't be given, or a kept response that this pydantic-ai can't read.
        """
        messages = _Messages(maker, model, arguments["model"])
        return cls(
            list(messages.translated(arguments["messages"])),
            _settings(arguments, maker),
            _parameters(arguments, model),
        )


# Messages


@dataclass(frozen=True, slots=True)
class _Messages:
    maker: Maker
    model: Model
    name: str

    def translated(self, wire: Sequence[Wire]) -> Iterator[ModelMessage]:
        """The messages: what is said to the model between two of its answers is one request."""
        from pydantic_ai.messages import ModelRequest

        tools = {call["id"]: call["function"]["name"] for one in wire for call in one.get("tool_calls", ())}
        parts: list[ModelRequestPart] = []
        for message in wire:
            if message["role"] != "assistant":
                parts.append(self._part(message, tools))
                continue
            response = self._response(message)
            if not response.parts:
                continue
            if parts:
                yield ModelRequest(parts=parts)
                parts = []
            yield response
        if parts:
            yield ModelRequest(parts=parts)

    def _part(self, message: Wire, tools: Mapping[str, str]) -> ModelRequestPart:
        from pydantic_ai.messages import SystemPromptPart, ToolReturnPart, UserPromptPart

        role, content = message["role"], message["content"]
        if role == "system":
            return SystemPromptPart(content=content)
        if role == "tool":
            call = message["tool_call_id"]
            return ToolReturnPart(
                tool_name=tools.get(call, ""),
                content=content if content.strip() else NO_TEXT,
                tool_call_id=call,
                outcome="failed" if message.get("is_error") else "success",
            )
        if isinstance(content, str):
            return UserPromptPart(content=content if content.strip() else NO_TEXT)
        return UserPromptPart(content=[self._content(part) for part in content if _says_something(part)])

    def _content(self, part: Wire) -> UserContent:
        from pydantic_ai.messages import BinaryContent, ImageUrl

        if part["type"] == "text":
            return str(part["text"])
        address = part["image_url"]["url"]
        head, found, data = address.partition(";base64,")
        if found and head.startswith("data:"):
            return BinaryContent(data=base64.b64decode(data), media_type=head.removeprefix("data:"))
        # guard: nothing that a message names is fetched by this process
        if self.maker.fetches_images:
            reason = f"{self.maker.name} takes images as their bytes, not as addresses: Image.from_bytes"
            raise BadRequestError(self.name, reason)
        return ImageUrl(url=address)

    def _response(self, message: Wire) -> ModelResponse:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        kept = _kept(message, self.name)
        if kept is not None:
            return kept
        text = message.get("content") or ""
        parts: list[ModelResponsePart] = [TextPart(content=text)] if text.strip() else []
        parts += [
            ToolCallPart(call["function"]["name"], _arguments(call["function"]["arguments"]), call["id"])
            for call in message.get("tool_calls", ())
        ]
        return ModelResponse(parts=parts, provider_name=self.model.system)


def _says_something(part: Wire) -> bool:
    return part["type"] != "text" or bool(part["text"].strip())


def _arguments(text: str) -> str:
    """Arguments of a call as a JSON object, whatever the model wrote."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else json.dumps({"arguments": text})


def _kept(message: Wire, model: str) -> ModelResponse | None:
    """The response as the maker sent it; None: it is not kept, or an agent has changed what it said."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

    if RESPONSE not in message:
        return None
    try:
        (response,) = ModelMessagesTypeAdapter.validate_json(json.dumps([message[RESPONSE]]))
    except ValidationError as error:
        reason = "an answer that was kept can't be read: install the pydantic-ai-slim that wrote it, or a newer one"
        raise BadRequestError(model, reason) from error
    if not isinstance(response, ModelResponse):
        return None
    calls = [part.tool_call_id for part in response.parts if isinstance(part, ToolCallPart)]
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    said = [call["id"] for call in message.get("tool_calls", ())], (message.get("content") or "").strip()
    return response if said == (calls, text.strip()) else None


# What is asked for


def _settings(arguments: Wire, maker: Maker) -> ModelSettings:
    settings = {setting: arguments[name] for name, setting in maker.settings.items() if name in arguments}
    # A budget counts with the one that the request has, whatever the client has.
    if limits := [arguments[name] for name in LIMITS if arguments.get(name) is not None]:
        settings["max_tokens"] = min(limits)
    choice = arguments.get("tool_choice")
    if choice is not None:
        settings["tool_choice"] = choice if isinstance(choice, str) else [choice["function"]["name"]]
    return cast("ModelSettings", settings)


def _parameters(arguments: Wire, model: Model) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(
            name=tool["function"]["name"],
            description=tool["function"]["description"],
            parameters_json_schema=tool["function"]["parameters"],
            strict=tool["function"].get("strict") or None,
        )
        for tool in arguments.get("tools", ())
    ]
    given = _output(arguments.get("response_format") or {}, model)
    return ModelRequestParameters(function_tools=tools, **given)


def _output(given: Wire, model: Model) -> dict[str, Any]:
    """The form of the answer: by the API's schema where the model has that, else told in words."""
    from pydantic_ai.output import OutputObjectDefinition

    kind = given.get("type")
    if kind == "json_object":
        return {
            "output_mode": "prompted",
            "output_object": OutputObjectDefinition(json_schema=dict(ANY_OBJECT)),
        }
    if kind != "json_schema":
        return {}
    schema = given["json_schema"]
    has_schemas = model.profile.get("supports_json_schema_output", False)
    is_native = bool(schema.get("strict")) and has_schemas
    output = OutputObjectDefinition(
        json_schema=dict(schema["schema"]), name=schema["name"], strict=True if is_native else None
    )
    return {"output_mode": "native" if is_native else "prompted", "output_object": output}
