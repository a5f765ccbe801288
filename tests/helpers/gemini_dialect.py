"""Google's Gemini API: its contents, its chunks, and what it refuses (ai.google.dev, Generate content)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from callboard.models.gemini import GeminiChatCompletionClient

from .dialects import INFO, SIGNATURE, Call, Failure, Request, Said, Turn, pieces, sse
from .openai_server import Asked

ERRORS = {
    "rate": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please retry in a moment."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "server": (500, "INTERNAL", "An internal error has occurred."),
    "key": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "model": (404, "NOT_FOUND", "models/m is not found for API version v1beta"),
    "long": (400, "INVALID_ARGUMENT", "The input token count (2000000) exceeds the maximum number of tokens"),
    "money": (402, "FAILED_PRECONDITION", "Your prepayment credits are depleted."),
    "request": (400, "INVALID_ARGUMENT", "it can't work"),
}
FINISH = {"length": "MAX_TOKENS", "refused": "SAFETY"}
PATH = "/v1beta/models/gemini-3-flash-preview"


class GeminiDialect:
    name = "Gemini"
    signs = True
    counts_reasoning = True
    counts_cached = True
    has_errors = True
    has_refusals = True
    number: Mapping[str, str] = {}
    within = True
    takes_addresses = False
    writes_arguments = False

    def client(self, url: str, **options: Any) -> GeminiChatCompletionClient:
        given = {"model": "gemini-3-flash-preview", "base_url": url, "api_key": "AIza-secret"}
        return GeminiChatCompletionClient(**{**given, "model_info": INFO, **options})

    def is_stream(self, asked: Asked) -> bool:
        return asked.path.endswith(":streamGenerateContent")

    # What comes

    def objection(self, asked: Asked) -> str | None:
        way = "streamGenerateContent" if asked.query.get("alt") == "sse" else "generateContent"
        if asked.path != f"{PATH}:{way}":
            return f"no such path: {asked.path}"
        if asked.headers.get("x-goog-api-key") != "AIza-secret":
            return "Method doesn't allow unregistered callers"
        contents = asked.body["contents"]
        if not contents or contents[-1]["role"] != "user":
            return "Please ensure that the last turn is a user turn"
        called: list[Mapping[str, Any]] = []
        for content in contents:
            wrong = _wrong(content, called)
            if wrong:
                return wrong
            called = [part for part in content["parts"] if "functionCall" in part]
        return None

    def read(self, asked: Asked) -> Request:
        body = asked.body
        config = body.get("generationConfig") or {}
        system = "\n".join(part["text"] for part in (body.get("systemInstruction") or {}).get("parts", ()))
        turns = [Turn(role="system", text=system)] if system else []
        for content in body["contents"]:
            turns += _turns(content)
        declared = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
        return Request(
            turns=turns,
            tools=[one["name"] for one in declared],
            choice=body.get("toolConfig"),
            schema=config.get("responseJsonSchema") or config.get("responseSchema"),
            limit=config.get("maxOutputTokens"),
        )

    # What goes back

    def whole(self, said: Said) -> Any:
        return {**_chunk(_parts(said), said), **_usage(said)}

    def events(self, said: Said) -> Sequence[str]:
        *before, last = _pieces(said)
        chunks = [_chunk([part]) for part in before]
        return [*map(sse, chunks), sse({**_chunk([last], said), **_usage(said)})]

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]:
        code, status, message = ERRORS[failure.kind]
        details: list[Any] = []
        if failure.kind == "key":
            details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"})
        if failure.retry_after is not None:
            pause = f"{failure.retry_after:g}s"
            details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": pause})
        error = {"code": code, "message": message, "status": status, "details": details}
        return code, {"error": error}, {}

    def failure_within(self, failure: Failure) -> str:
        return sse(self.failure(failure)[1])


def _wrong(content: Mapping[str, Any], called: Sequence[Mapping[str, Any]]) -> str | None:
    parts = content["parts"]
    if not parts:
        return "contents.parts must not be empty"
    if any("text" in part and not part["text"] for part in parts):
        return "Unable to submit request because it must have a text parameter"
    answered = [part for part in parts if "functionResponse" in part]
    if len(answered) != len(called):
        return "the number of function response parts must equal that of the function call parts"
    calls = [part for part in parts if "functionCall" in part]
    if calls and "thoughtSignature" not in calls[0]:
        return f"Function call `{calls[0]['functionCall']['name']}` is missing a thought_signature"
    return None


def _turns(content: Mapping[str, Any]) -> list[Turn]:
    parts, turns = content["parts"], []
    for part in parts:
        if "functionResponse" in part:
            response = part["functionResponse"]["response"]
            (text,) = response.values()
            failed = "error" in response
            turns.append(
                Turn(role="tool", text=text, call=part["functionResponse"].get("id", ""), is_error=failed)
            )
    texts = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    calls = [part["functionCall"].get("id", "") for part in parts if "functionCall" in part]
    images = sum("inlineData" in part for part in parts)
    signed = any(part.get("thoughtSignature") == SIGNATURE for part in parts)
    if texts or calls or images:
        role = "assistant" if content["role"] == "model" else "user"
        turns.append(Turn(role=role, text="\n".join(texts), calls=calls, images=images, is_signed=signed))
    return turns


def _parts(said: Said) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": said.thought, "thought": True}] if said.thought else []
    parts += [{"text": said.text}] if said.text else []
    return [*parts, *_calls(said)]


def _pieces(said: Said) -> list[dict[str, Any]]:
    thoughts = [{"text": piece, "thought": True} for piece in pieces(said.thought)]
    texts = [{"text": piece} for piece in pieces(said.text)]
    return [*thoughts, *texts, *_calls(said)] or [{"text": ""}]


def _calls(said: Said) -> Iterator[dict[str, Any]]:
    for number, call in enumerate(said.calls):
        # Of several calls at once the first is signed.
        signed = {} if number else {"thoughtSignature": SIGNATURE}
        yield {"functionCall": _call(call), **signed}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": dict(call.arguments)}


def _chunk(parts: Sequence[Mapping[str, Any]], said: Said | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if said is not None:
        candidate["finishReason"] = FINISH.get(said.ending, "STOP")
    return {
        "candidates": [candidate],
        "modelVersion": "gemini-3-flash-preview",
        "responseId": "r-1",
    }


def _usage(said: Said) -> dict[str, Any]:
    usage = {
        "promptTokenCount": said.read,
        "candidatesTokenCount": said.written - said.reasoning,
        "totalTokenCount": said.read + said.written,
    }
    if said.cached:
        usage["cachedContentTokenCount"] = said.cached
    if said.reasoning:
        usage["thoughtsTokenCount"] = said.reasoning
    return {"usageMetadata": usage}
