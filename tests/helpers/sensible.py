"""A model without weights for the examples of the docs: it answers what was asked for, with the smallest that fits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from .openai_server import Answer, Asked, Call, OpenAIServer

SMALLEST: Mapping[str, Any] = {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "null": None}


class SensibleModel:
    """A behaviour of the test server.

    It calls the first tool, or says what came of it; it gives an object of a schema; else it repeats the question.
    """

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        return await self._answer(asked.body)(asked, server)

    def _answer(self, body: Mapping[str, Any]) -> Answer:
        last = body["messages"][-1]
        format_ = body.get("response_format") or {}
        if format_.get("type") == "json_schema":
            schema = format_["json_schema"]["schema"]
            return Answer(json.dumps(example(schema, schema)))
        if last["role"] == "tool":
            return Answer(f"The result is {last['content']}.")
        if body.get("tools") and body.get("tool_choice") != "none":
            function = body["tools"][0]["function"]
            arguments = example(function["parameters"], function["parameters"])
            return Answer(None, [Call(function["name"], json.dumps(arguments))])
        if format_.get("type") == "json_object":
            return Answer('{"answer": 1}')
        return Answer(f"You asked: {_text(last['content'])}")


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content if part["type"] == "text")


def example(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """A small value that fits a schema. The first choice of several."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], root)
    if schema.get("type") == "object":
        return {name: example(part, root) for name, part in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [example(schema["items"], root)] if isinstance(schema.get("items"), Mapping) else []
    return SMALLEST[schema.get("type", "string")]
