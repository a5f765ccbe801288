"""A real HTTP server that speaks the chat API of OpenAI and does what a script says.

`with OpenAIServer() as server: server.script(Answer("Hello"), rate_limited(retry_after=1))`, and a client with
base_url=server.url; `server.requests` has what came.

Scripted behaviours are played once each, in order; without a script `server.default` answers everything. `reset` makes
a server as good as new for the next test: starting and ending one takes 0.16 s, a reset next to nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

PATHS = re.compile(
    r"(/v1|/openai/deployments/[^/]+)/(chat/completions|embeddings)"
)  # OpenAI's own, and Azure's
PATIENCE = 5.0  # seconds until clients have closed their connections
PIECE = 4  # characters of a text or of a call's arguments in one chunk of a stream


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire; header names are in lower case."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


class Behaviour(Protocol):
    """What the server does with one request."""

    def __call__(self, asked: Asked, server: OpenAIServer) -> Awaitable[Response]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    prompt: int = 7
    completion: int = 3

    def as_json(self) -> dict[str, int]:
        total = self.prompt + self.completion
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": total}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model: whole, or in pieces if the request asks for a stream.

    Args:
        content: its text, None for none.
        calls: its tool calls.
        reasoning: what `reasoning_field` holds.
        finish: the reason to stop; by default the one that fits.
        logprobs: one entry per token, as the API has them.
        beside: further fields of the message.
    """

    content: str | None = None
    calls: Sequence[Call] = ()
    reasoning: str | None = None
    reasoning_field: str = "reasoning_content"
    refusal: str | None = None
    finish: str | None = None
    usage: Usage | None = field(default_factory=Usage)
    logprobs: Sequence[Mapping[str, Any]] | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        if not asked.body.get("stream"):
            return JSONResponse(self._whole(asked.body["model"]))
        with_usage = (asked.body.get("stream_options") or {}).get("include_usage", False)
        return event_stream(
            chunk_events(self._deltas(), self.usage if with_usage else None, asked.body["model"])
        )

    @property
    def _finish(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def _whole(self, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.content, **self.beside}
        if self.refusal is not None:
            message["refusal"] = self.refusal
        if self.reasoning is not None:
            message[self.reasoning_field] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                    **call.beside,
                }
                for call in self.calls
            ]
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": self._finish}
        if self.logprobs is not None:
            choice["logprobs"] = {"content": list(self.logprobs), "refusal": None}
        usage = self.usage.as_json() if self.usage else None
        return {**_envelope("chat.completion", model), "choices": [choice], "usage": usage}

    def _deltas(self) -> list[dict[str, Any]]:
        choices: list[dict[str, Any]] = [{"delta": {"role": "assistant", "content": ""}}]
        for name, value in self.beside.items():
            split = value if isinstance(value, list) else [value]
            choices += [{"delta": {name: [one] if isinstance(value, list) else one}} for one in split]
        choices += [{"delta": {self.reasoning_field: text}} for text in pieces(self.reasoning)]
        choices += [{"delta": {"content": text}} for text in pieces(self.content)]
        choices += [{"delta": {"refusal": text}} for text in pieces(self.refusal)]
        for index, call in enumerate(self.calls):
            start = {"index": index, "id": call.id, "type": "function", **call.beside}
            choices.append(
                {"delta": {"tool_calls": [{**start, "function": {"name": call.name, "arguments": ""}}]}}
            )
            choices += [
                {"delta": {"tool_calls": [{"index": index, "function": {"arguments": text}}]}}
                for text in pieces(call.arguments)
            ]
        if self.logprobs is not None:
            choices += [{"delta": {}, "logprobs": {"content": [entry]}} for entry in self.logprobs]
        return [*choices, {"delta": {}, "finish_reason": self._finish}]


def pieces(text: str | None) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text or ""), PIECE)] if text else []


def _envelope(kind: str, model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1763700000, "model": model}


def chunk_events(choices: Sequence[Mapping[str, Any]], usage: Usage | None, model: str = "m") -> list[str]:
    """The events of a stream, one for each choice; usage comes last, in a chunk without choices."""
    head = _envelope("chat.completion.chunk", model)
    chunks = [{**head, "choices": [{"index": 0, "finish_reason": None, **choice}]} for choice in choices]
    if usage:
        chunks.append({**head, "choices": [], "usage": usage.as_json()})
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]


def event_stream(events: Sequence[str]) -> Response:
    async def sent() -> AsyncIterator[str]:
        for event in events:
            yield event

    return StreamingResponse(sent(), media_type="text/event-stream")


@dataclass(frozen=True, slots=True)
class Chunks:
    """A stream with exactly these choices, for what a server may do and `Answer` does not."""

    choices: Sequence[Mapping[str, Any]]
    usage: Usage | None = None

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        return event_stream(chunk_events(self.choices, self.usage))


@dataclass(frozen=True, slots=True)
class Events:
    """A stream with exactly these lines, which ends as an ordinary stream does."""

    events: Sequence[str]

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        return event_stream(self.events)


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """The first `after` events of an answer's stream; then the connection is closed."""

    answer: Answer
    after: int = 3

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        async def break_off() -> None:
            raise ConnectionAbortedError

        return _interrupted(await self.answer(asked, server), self.after, break_off)


def _interrupted(response: Response, after: int, by: Callable[[], Awaitable[None]]) -> Response:
    """A stream in which something happens behind its first events."""
    assert isinstance(response, StreamingResponse)
    whole = response.body_iterator

    async def sent() -> AsyncIterator[Any]:
        count = 0
        async for event in whole:
            if count == after:
                await by()
            count += 1
            yield event

    return StreamingResponse(sent(), media_type="text/event-stream")


@dataclass(frozen=True, slots=True)
class Cut:
    """Half of a body that was announced whole; then the connection is closed."""

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        async def sent() -> AsyncIterator[bytes]:
            yield b'{"id": "chatcmpl-1", "cho'
            raise ConnectionAbortedError

        return StreamingResponse(sent(), media_type="application/json")


@dataclass(frozen=True, slots=True)
class Raw:
    """Any response."""

    body: str
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        return Response(self.body, self.status, dict(self.headers), self.content_type)


@dataclass(frozen=True, slots=True)
class Slow:
    """Nothing until `server.release()`, or for ever; the first `events` of a stream come at once.

    `server.hung_up` is set when the client goes away instead.
    """

    then: Behaviour = field(default_factory=lambda: Answer("late"))
    events: int = 0

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        if self.events:
            return _interrupted(await self.then(asked, server), self.events, server.wait_for_release)
        await server.wait_for_release()
        return await self.then(asked, server)


@dataclass(frozen=True, slots=True)
class Refused:
    """An error as OpenAI reports it."""

    status: int
    message: str = "it does not work"
    code: str | None = None
    type: str = "invalid_request_error"
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return JSONResponse({"error": error}, self.status, dict(self.headers))


def rate_limited(retry_after: float | str | None = None) -> Refused:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Refused(429, "Rate limit reached for requests", "rate_limit_exceeded", "requests", headers=headers)


def overloaded(status: int = 503, retry_after: float | None = None) -> Refused:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Refused(status, "The engine is currently overloaded", None, "server_error", headers=headers)


def bad_key() -> Refused:
    return Refused(401, "Incorrect API key provided: sk-wrong.", "invalid_api_key")


def too_long() -> Refused:
    text = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    )
    return Refused(400, text, "context_length_exceeded", param="messages")


def filtered() -> Refused:
    text = "The response was filtered due to the prompt triggering content management policy."
    return Refused(400, text, "content_filter", type="", param="prompt")


class OpenAIServer(AbstractContextManager["OpenAIServer"]):
    """The server, in a thread of this process, on a free port of the loopback.

    Attributes:
        requests: all that came, in order.
        default: answers when nothing is scripted.
        paths: where the API is.
        hung_up: set when a client went away while `Slow` waited.
    """

    def __init__(self, default: Behaviour | None = None, paths: re.Pattern[str] = PATHS) -> None:
        self.paths = paths
        self.requests: list[Asked] = []
        self.default: Behaviour | None = default
        self._first_default = default
        self.hung_up = threading.Event()
        self._script: deque[Behaviour] = deque()
        self._released = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        application = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        config = uvicorn.Config(
            application, log_level="critical", lifespan="off", ws="none", access_log=False
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    @property
    def last(self) -> Asked:
        return self.requests[-1]

    def script(self, *behaviours: Behaviour) -> None:
        """Plays these behaviours for the next requests."""
        self._script.extend(behaviours)

    def reset(self) -> None:
        """Forgets the script and the requests, once all clients have closed their connections.

        A request of the last test that was still on its way would otherwise be seen, and answered, in the next one.

        Raises:
            AssertionError: a client is still open.
        """
        self._released.set()
        state, deadline = self._server.server_state, time.monotonic() + PATIENCE
        while state.connections or state.tasks:
            assert time.monotonic() < deadline, "a client of the model server was left open"
            time.sleep(0.001)
        self.requests = []
        self.default = self._first_default
        self._script.clear()
        self._released.clear()
        self.hung_up.clear()

    def release(self) -> None:
        """Lets `Slow` go on."""
        self._released.set()

    async def wait_for_release(self) -> None:
        """For behaviours: until `release`, or until the client hangs up or the server stops."""
        released, hung_up = self._released, self.hung_up  # of this test: `reset` makes others
        try:
            # Released from another thread; an asyncio.Event would belong to this loop.
            while not released.is_set() and not self._server.should_exit:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            hung_up.set()
            raise

    async def _answer(self, request: Request) -> Response:
        raw = await request.body()
        asked = Asked(
            request.url.path,
            dict(request.query_params),
            dict(request.headers),
            json.loads(raw) if raw else None,
        )
        self.requests.append(asked)
        if not self.paths.fullmatch(asked.path):
            return Response("<html><body>Not here</body></html>", 404, media_type="text/html")
        behaviour = self._script.popleft() if self._script else self.default
        if behaviour is None:
            return JSONResponse({"error": {"message": "nothing is scripted"}}, 418)
        return await self._while_connected(request, behaviour(asked, self))

    async def _while_connected(self, request: Request, answer: Awaitable[Response]) -> Response:
        """The answer; given up when the client hangs up, which starlette does only for streams."""
        task = asyncio.ensure_future(answer)
        gone = asyncio.ensure_future(_disconnected(request))
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if task.done():
            return task.result()
        task.cancel()
        return Response(status_code=499)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
