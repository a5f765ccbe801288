"""Anthropic's API: its messages, its events, and what it refuses (docs.anthropic.com, Messages)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callboard.models.anthropic import AnthropicChatCompletionClient

from .dialects import REQUEST_ID, SIGNATURE, Failure, Request, Said, Turn, pieces, sse
from .openai_server import Asked

ERRORS = {
    "rate": (429, "rate_limit_error", "This request would exceed your rate limit"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "server": (500, "api_error", "Internal server error"),
    "key": (401, "authentication_error", "invalid x-api-key"),
    "model": (404, "not_found_error", "model: claude-none"),
    "long": (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    "money": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API"),
    "request": (400, "invalid_request_error", "it can't work"),
}


class AnthropicDialect:
    name = "Anthropic"
    signs = True
    counts_reasoning = True
    counts_cached = True
    has_errors = True
    has_refusals = True
    number: Mapping[str, str] = {"request-id": REQUEST_ID}
    within = True
    takes_addresses = True
    writes_arguments = True
    model = "claude-sonnet-4-6"

    def client(self, url: str, **options: Any) -> AnthropicChatCompletionClient:
        return AnthropicChatCompletionClient(
            **{"model": self.model, "base_url": url, "api_key": "sk-ant-secret", **options}
        )

    def is_stream(self, asked: Asked) -> bool:
        return bool(asked.body.get("stream"))

    # What comes

    def objection(self, asked: Asked) -> str | None:
        body = asked.body
        if asked.path != "/v1/messages":
            return f"no such path: {asked.path}"
        keys = (asked.headers.get("x-api-key"), asked.headers.get("authorization"))
        if not {"sk-ant-secret", "Bearer sk-ant-secret"} & set(keys):
            return "a key is required"
        if "anthropic-version" not in asked.headers:
            return "anthropic-version: header is required"
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: Field required"
        messages = body["messages"]
        if not messages or messages[0]["role"] != "user":
            return "messages: first message must use the user role"
        if messages[-1]["role"] != "user":
            return "This model does not support assistant message prefill"
        return next((wrong for wrong in map(_wrong, _pairs(messages)) if wrong), None) or _unsigned(body)

    def read(self, asked: Asked) -> Request:
        body = asked.body
        system = body.get("system") or ""
        text = system if isinstance(system, str) else "\n".join(block["text"] for block in system)
        turns = [Turn(role="system", text=text)] if text else []
        for message in body["messages"]:
            turns += _turns(message)
        return Request(
            turns=turns,
            tools=[tool["name"] for tool in body.get("tools", ())],
            choice=body.get("tool_choice"),
            schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
            limit=body["max_tokens"],
        )

    # What goes back

    def whole(self, said: Said) -> Any:
        return {**_head(said), "content": _blocks(said), **_end(said), "usage": _usage(said)}

    def events(self, said: Said) -> Sequence[str]:
        return [sse(event, event["type"]) for event in _events(said)]

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]:
        status, type_, message = ERRORS[failure.kind]
        body = {"type": "error", "error": {"type": type_, "message": message}, "request_id": REQUEST_ID}
        headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return status, body, headers

    def failure_within(self, failure: Failure) -> str:
        return sse(self.failure(failure)[1], "error")


def _blocks_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _pairs(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    nothing: Mapping[str, Any] = {"role": "", "content": []}
    return zip([nothing, *messages], messages, strict=False)


def _wrong(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str | None:
    before, message = pair
    blocks = _blocks_of(message)
    if not blocks:
        return "all messages must have non-empty content"
    if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
        return "text content blocks must contain non-whitespace text"
    called = {block["id"] for block in _blocks_of(before) if block["type"] == "tool_use"}
    answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    if called != answered:
        return f"tool_use ids were found without tool_result blocks immediately after: {called ^ answered}"
    return None


def _unsigned(body: Mapping[str, Any]) -> str | None:
    """A thinking model wants its signed thoughts back in a tool loop."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return None
    for message in body["messages"]:
        blocks = _blocks_of(message)
        if message["role"] == "assistant" and any(block["type"] == "tool_use" for block in blocks):
            first = blocks[0]
            if first["type"] != "thinking" or first["signature"] != SIGNATURE:
                return "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    return None


def _turns(message: Mapping[str, Any]) -> list[Turn]:
    turns: list[Turn] = []
    blocks = _blocks_of(message)
    for block in blocks:
        if block["type"] == "tool_result":
            content = block["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            failed = bool(block.get("is_error"))
            turns.append(Turn(role="tool", text=text, call=block["tool_use_id"], is_error=failed))
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    images = sum(block["type"] == "image" for block in blocks)
    signed = any(block["type"] == "thinking" and block["signature"] == SIGNATURE for block in blocks)
    if texts or calls or images:
        text = "\n".join(texts)
        turns.append(Turn(role=message["role"], text=text, calls=calls, images=images, is_signed=signed))
    return turns


def _head(said: Said) -> dict[str, Any]:
    return {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}


def _end(said: Said) -> dict[str, Any]:
    reason = {"length": "max_tokens", "refused": "refusal"}.get(said.ending)
    return {"stop_reason": reason or ("tool_use" if said.calls else "end_turn"), "stop_sequence": None}


def _usage(said: Said) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "input_tokens": said.read - said.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": said.cached,
        "output_tokens": said.written,
    }
    if said.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": said.reasoning}
    return usage


def _blocks(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thought:
        blocks.append({"type": "thinking", "thinking": said.thought, "signature": SIGNATURE})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in said.calls
    ]
    return blocks


def _events(said: Said) -> Iterator[dict[str, Any]]:
    begun = {**_usage(said), "output_tokens": 1}
    begun.pop("output_tokens_details", None)
    open_ = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**_head(said), "content": [], **open_, "usage": begun}}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(said)):
        empty, deltas = _deltas(block, said)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": _end(said), "usage": _usage(said)}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any], said: Said) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [
            {"type": "text_delta", "text": piece} for piece in pieces(block["text"])
        ]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    text = next(call.text for call in said.calls if call.id == block["id"])
    return {**block, "input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]
    ]
