"""OpenAI's chat API and Ollama's own, as dialects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from callboard.models.ollama import OllamaChatCompletionClient
from callboard.models.openai import OpenAIChatCompletionClient

from .dialects import INFO, Failure, Request, Said, Turn, pieces, sse
from .openai_server import Asked

ERRORS = {
    "rate": (429, "rate_limit_exceeded", "Rate limit reached"),
    "overloaded": (503, "server_is_overloaded", "The engine is currently overloaded"),
    "server": (500, "server_error", "The server had an error"),
    "key": (401, "invalid_api_key", "Incorrect API key provided"),
    "model": (404, "model_not_found", "The model does not exist"),
    "long": (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
    "money": (429, "insufficient_quota", "You exceeded your current quota"),
    "request": (400, None, "it can't work"),
}
FINISH = {"length": "length", "refused": "content_filter"}


class OpenAIDialect:
    name = "OpenAI"
    signs = False
    counts_reasoning = True
    counts_cached = True
    has_errors = False
    has_refusals = True
    number: Mapping[str, str] = {}
    within = True
    takes_addresses = True
    writes_arguments = True

    def client(self, url: str, **options: Any) -> OpenAIChatCompletionClient:
        given = {"model": "m", "base_url": f"{url}/v1", "api_key": "sk-secret", "model_info": INFO}
        return OpenAIChatCompletionClient(**{**given, **options})

    def is_stream(self, asked: Asked) -> bool:
        return bool(asked.body.get("stream"))

    def objection(self, asked: Asked) -> str | None:
        return None if asked.path == "/v1/chat/completions" else f"no such path: {asked.path}"

    def read(self, asked: Asked) -> Request:
        body = asked.body
        given = (body.get("response_format") or {}).get("json_schema") or {}
        return Request(
            turns=[_turn(message) for message in body["messages"]],
            tools=[tool["function"]["name"] for tool in body.get("tools", ())],
            choice=body.get("tool_choice"),
            schema=given.get("schema"),
            limit=body.get("max_completion_tokens") or body.get("max_tokens"),
        )

    def whole(self, said: Said) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
        if said.thought:
            message["reasoning_content"] = said.thought
        if said.calls:
            message["tool_calls"] = [_call(call) for call in said.calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish(said)}
        return {"object": "chat.completion", "choices": [choice], "usage": _usage(said)}

    def events(self, said: Said) -> Sequence[str]:
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        deltas += [{"reasoning_content": piece} for piece in pieces(said.thought)]
        deltas += [{"content": piece} for piece in pieces(said.text)]
        for index, call in enumerate(said.calls):
            head = {**_call(call), "index": index, "function": {"name": call.name, "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            for piece in pieces(call.text):
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(said)}]})
        chunks.append({"choices": [], "usage": _usage(said)})
        return [*map(sse, chunks), "data: [DONE]\n\n"]

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]:
        status, code, message = ERRORS[failure.kind]
        headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return status, {"error": {"message": message, "code": code, "type": code}}, headers

    def failure_within(self, failure: Failure) -> str:
        return sse(self.failure(failure)[1])


class OllamaDialect:
    name = "Ollama"
    signs = False
    counts_reasoning = False
    counts_cached = False
    has_errors = False
    has_refusals = False
    number: Mapping[str, str] = {}
    within = False
    takes_addresses = False
    writes_arguments = False

    def client(self, url: str, **options: Any) -> OllamaChatCompletionClient:
        return OllamaChatCompletionClient(**{"model": "m", "host": url, "model_info": INFO, **options})

    def is_stream(self, asked: Asked) -> bool:
        return bool(asked.body["stream"])

    def objection(self, asked: Asked) -> str | None:
        return None if asked.path == "/api/chat" else f"no such path: {asked.path}"

    def read(self, asked: Asked) -> Request:
        body = asked.body
        schema = body.get("format")
        return Request(
            turns=[_turn(message) for message in body["messages"]],
            tools=[tool["function"]["name"] for tool in body.get("tools", ())],
            schema=schema if isinstance(schema, dict) else None,
            limit=(body.get("options") or {}).get("num_predict"),
        )

    def whole(self, said: Said) -> Any:
        calls = [
            {"id": call.id, "function": {"name": call.name, "arguments": dict(call.arguments)}}
            for call in said.calls
        ]
        return {"message": _said(said.text, said.thought, calls), **_end(said)}

    def events(self, said: Said) -> Sequence[str]:
        thoughts = [_said("", piece, []) for piece in pieces(said.thought)]
        texts = [_said(piece, "", []) for piece in pieces(said.text)]
        calls = [self.whole(Said(calls=[call]))["message"] for call in said.calls]
        lines = [{"message": message, "done": False} for message in (*thoughts, *texts, *calls)]
        return [json.dumps(line) + "\n" for line in (*lines, {"message": _said("", "", []), **_end(said)})]

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]:
        status, _, message = ERRORS[failure.kind]
        headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return 403 if failure.kind == "key" else status, {"error": message}, headers

    def failure_within(self, failure: Failure) -> str:
        return json.dumps(self.failure(failure)[1]) + "\n"


def _turn(message: Mapping[str, Any]) -> Turn:
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return Turn(
        role=message["role"],
        text="\n".join(texts),
        calls=[call["id"] for call in message.get("tool_calls", ())],
        call=message.get("tool_call_id", ""),
        images=len(parts) - len(texts) + len(message.get("images", ())),
    )


def _call(call: Any) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _finish(said: Said) -> str:
    return FINISH.get(said.ending) or ("tool_calls" if said.calls else "stop")


def _usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.read,
        "completion_tokens": said.written,
        "prompt_tokens_details": {"cached_tokens": said.cached},
        "completion_tokens_details": {"reasoning_tokens": said.reasoning},
    }


def _said(text: str, thought: str, calls: Sequence[Any]) -> dict[str, Any]:
    given = {"thinking": thought, "tool_calls": calls}
    return {"role": "assistant", "content": text, **{name: value for name, value in given.items() if value}}


def _end(said: Said) -> dict[str, Any]:
    reason = "length" if said.ending == "length" else "stop"
    return {"done": True, "done_reason": reason, "prompt_eval_count": said.read, "eval_count": said.written}
