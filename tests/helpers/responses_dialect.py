"""OpenAI's Responses API: its items, its events, and what it refuses (platform.openai.com, Responses)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callboard.models.openai_responses import OpenAIResponsesChatCompletionClient

from .dialects import REQUEST_ID, SIGNATURE, Failure, Request, Said, Turn, pieces, sse
from .openai_dialects import ERRORS
from .openai_server import Asked

MODEL = "gpt-5.4"
INCOMPLETE = {"length": "max_output_tokens", "refused": "content_filter"}


class ResponsesDialect:
    name = "Responses"
    signs = True
    counts_reasoning = True
    counts_cached = True
    has_errors = True
    has_refusals = True
    number: Mapping[str, str] = {"x-request-id": REQUEST_ID}
    within = True
    takes_addresses = True
    writes_arguments = True

    def client(self, url: str, **options: Any) -> OpenAIResponsesChatCompletionClient:
        given = {"model": MODEL, "base_url": f"{url}/v1", "api_key": "sk-secret"}
        return OpenAIResponsesChatCompletionClient(**{**given, **options})

    def is_stream(self, asked: Asked) -> bool:
        return bool(asked.body.get("stream"))

    # What comes

    def objection(self, asked: Asked) -> str | None:
        body = asked.body
        if asked.path != "/v1/responses":
            return f"no such path: {asked.path}"
        if asked.headers.get("authorization") != "Bearer sk-secret":
            return "You didn't provide an API key"
        if body.get("store") is not False or "reasoning.encrypted_content" not in body.get("include", ()):
            return "what was thought is kept here, and not sent along"
        items = body["input"]
        called = {item["call_id"] for item in items if item.get("type") == "function_call"}
        answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
        if called != answered:
            return f"No tool output found for function call {called ^ answered}"
        return None

    def read(self, asked: Asked) -> Request:
        body = asked.body
        turns = [Turn(role="system", text=body["instructions"])] if body.get("instructions") else []
        return Request(
            turns=[*turns, *_turns(body["input"])],
            tools=[tool["name"] for tool in body.get("tools", ())],
            choice=body.get("tool_choice"),
            schema=((body.get("text") or {}).get("format") or {}).get("schema"),
            limit=body.get("max_output_tokens"),
        )

    # What goes back

    def whole(self, said: Said) -> Any:
        return _response(said, [item for item, _ in _items(said)])

    def events(self, said: Said) -> Sequence[str]:
        events = [{**event, "sequence_number": number} for number, event in enumerate(_events(said))]
        return [sse(event, event["type"]) for event in events]

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]:
        status, code, message = ERRORS[failure.kind]
        headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return status, {"error": {"message": message, "code": code, "type": code, "param": None}}, headers

    def failure_within(self, failure: Failure) -> str:
        _, code, message = ERRORS[failure.kind]
        event = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 9}
        return sse(event, "error")


def _turns(items: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The items as turns: what the model thought, said and called in a row is one."""
    turns: list[Turn] = []
    said: list[Mapping[str, Any]] = []
    for item in [*items, {"role": "end", "content": ""}]:
        if item.get("type") in ("reasoning", "function_call") or item.get("role") == "assistant":
            said.append(item)
            continue
        if said:
            turns.append(_spoken(said))
            said = []
        if item.get("type") == "function_call_output":
            turns.append(_answered(item))
        else:
            turns.append(_told(item))
    return turns[:-1]


def _answered(item: Mapping[str, Any]) -> Turn:
    """A result: the API has no mark for one that failed, so it is written as JSON."""
    output = item["output"]
    failed = output.startswith('{"error":')
    text = json.loads(output)["error"] if failed else output
    return Turn(role="tool", text=text, call=item["call_id"], is_error=failed)


def _spoken(items: Sequence[Mapping[str, Any]]) -> Turn:
    texts = [_text(item["content"]) for item in items if item.get("role") == "assistant"]
    signed = any(item.get("encrypted_content") == SIGNATURE for item in items)
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    return Turn(role="assistant", text="\n".join(texts), calls=calls, is_signed=signed)


def _told(item: Mapping[str, Any]) -> Turn:
    content = item["content"]
    images = 0 if isinstance(content, str) else sum(part["type"] == "input_image" for part in content)
    role = "system" if item["role"] in ("system", "developer") else item["role"]
    return Turn(role=role, text=_text(content), images=images)


def _text(content: Any) -> str:
    return (
        content
        if isinstance(content, str)
        else "\n".join(part.get("text", "") for part in content if "text" in part)
    )


def _response(said: Said | None, output: Sequence[Any]) -> dict[str, Any]:
    reason = INCOMPLETE.get(said.ending) if said else None
    status = "in_progress" if said is None else "incomplete" if reason else "completed"
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_795_000_000,
        "status": status,
        "model": MODEL,
        "output": list(output),
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if said is None else _usage(said),
    }


def _usage(said: Said) -> dict[str, Any]:
    return {
        "input_tokens": said.read,
        "input_tokens_details": {"cached_tokens": said.cached},
        "output_tokens": said.written,
        "output_tokens_details": {"reasoning_tokens": said.reasoning},
        "total_tokens": said.read + said.written,
    }


def _items(said: Said) -> Iterator[tuple[dict[str, Any], str]]:
    """The items of an answer, and the text of each that a stream has in pieces."""
    if said.thought:
        summary = [{"type": "summary_text", "text": said.thought}]
        yield (
            {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": SIGNATURE},
            said.thought,
        )
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        yield {**message, "content": content}, said.text
    for number, call in enumerate(said.calls):
        head = {"type": "function_call", "id": f"fc_{number}", "call_id": call.id, "name": call.name}
        yield {**head, "arguments": call.text, "status": "completed"}, call.text


def _events(said: Said) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": _response(None, [])}
    for number, (item, text) in enumerate(_items(said)):
        at = {"item_id": item["id"], "output_index": number}
        begun, before, delta = _pieced(item, at)
        yield {"type": "response.output_item.added", "output_index": number, "item": begun}
        yield from before
        for piece in pieces(text):
            yield {"type": f"{delta}.delta", "delta": piece, **at, "content_index": 0, "summary_index": 0}
        yield {"type": "response.output_item.done", "output_index": number, "item": item}
    end = "incomplete" if said.ending in INCOMPLETE else "completed"
    output = [item for item, _ in _items(said)]
    yield {"type": f"response.{end}", "response": _response(said, output)}


def _pieced(item: dict[str, Any], at: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """An item at its beginning, the event before its pieces, and the kind of those."""
    if item["type"] == "reasoning":
        part = {"type": "summary_text", "text": ""}
        before = {"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part, **at}
        begun = {**item, "summary": [], "encrypted_content": None}
        return begun, [before], "response.reasoning_summary_text"
    if item["type"] == "message":
        said = {"type": "output_text", "text": "", "annotations": []}
        before = {"type": "response.content_part.added", "content_index": 0, "part": said, **at}
        return {**item, "content": [], "status": "in_progress"}, [before], "response.output_text"
    return {**item, "arguments": "", "status": "in_progress"}, [], "response.function_call_arguments"
