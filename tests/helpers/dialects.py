"""Makers' APIs as a scripted server speaks them: what a model says, or how it fails, in one form for all of them.

A `Dialect` writes it as its maker does, refuses what its maker refuses, and reads requests into one form again.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from starlette.responses import JSONResponse, Response, StreamingResponse

from callboard.models import ChatCompletionClient, ModelInfo

from .openai_server import Asked, OpenAIServer

INFO = ModelInfo(
    vision=True, function_calling=True, json_output=True, structured_output=True, family="unknown"
)
Ending = Literal["stop", "length", "refused"]
Kind = Literal["rate", "overloaded", "server", "key", "model", "long", "money", "request"]
ANYWHERE = re.compile(r"/.*")
REQUEST_ID = "req_callboard_1"
SIGNATURE = "c2lnbmVkLWJ5LXRoZS1tYWtlcg=="


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the model's.

    Attributes:
        written: the arguments as a stream has them, where they are no JSON.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = "call_1"
    written: str = ""

    @property
    def text(self) -> str:
        return self.written or json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer of a model.

    Attributes:
        thought: its reasoning, signed where its maker signs.
        read: tokens of the prompt, those from the cache included.
        written: tokens of the answer, those of the reasoning included.
    """

    text: str = ""
    thought: str = ""
    calls: Sequence[Call] = ()
    ending: Ending = "stop"
    read: int = 30
    written: int = 12
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a maker."""

    kind: Kind
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that a request tells the model.

    Attributes:
        role: who said it: "system", "user", "assistant" or "tool".
        call: the id of the call that it is the result of.
    """

    role: str
    text: str = ""
    calls: Sequence[str] = ()
    call: str = ""
    images: int = 0
    is_signed: bool = False
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, read."""

    turns: Sequence[Turn]
    tools: Sequence[str] = ()
    choice: Any = None
    schema: Mapping[str, Any] | None = None
    limit: int | None = None

    def of(self, role: str) -> list[Turn]:
        return [turn for turn in self.turns if turn.role == role]


class Dialect(Protocol):
    """The API of a maker.

    Attributes:
        name: of the maker.
        signs: whether it signs thoughts, and wants them back.
        counts_reasoning: whether it says how many tokens were reasoning.
        counts_cached: the same of its cache.
        has_errors: whether results of tools can be marked as errors.
        has_refusals: whether an answer can be a refusal.
        number: the header with the number that it gives a request; empty: it gives none, or the client does not say it.
        within: whether a stream can end with a failure.
        takes_addresses: whether images can be given as addresses.
        writes_arguments: whether streams have a call's arguments as the text that the model writes.
    """

    name: str
    signs: bool
    counts_reasoning: bool
    counts_cached: bool
    has_errors: bool
    has_refusals: bool
    number: Mapping[str, str]
    within: bool
    takes_addresses: bool
    writes_arguments: bool

    def client(self, url: str, **options: Any) -> ChatCompletionClient: ...

    def is_stream(self, asked: Asked) -> bool: ...

    def objection(self, asked: Asked) -> str | None:
        """What the maker has against a request; None: nothing."""
        ...

    def whole(self, said: Said) -> Any: ...

    def events(self, said: Said) -> Sequence[str]: ...

    def failure(self, failure: Failure) -> tuple[int, Any, Mapping[str, str]]: ...

    def failure_within(self, failure: Failure) -> str:
        """The event of a stream that fails after its beginning."""
        ...

    def read(self, asked: Asked) -> Request: ...


@dataclass(frozen=True, slots=True)
class Script:
    """What a server of a dialect does with one request.

    Attributes:
        breaks_after: events of a stream after which the connection breaks; None: it does not.
        fails_after: events after which the stream reports `failure`.
        ends_after: events after which the stream just ends.
    """

    dialect: Dialect
    said: Said = field(default_factory=Said)
    failure: Failure | None = None
    breaks_after: int | None = None
    fails_after: int | None = None
    ends_after: int | None = None

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        objection = self.dialect.objection(asked)
        if objection is not None:
            _, body, _ = self.dialect.failure(Failure("request"))
            text = json.dumps(body).replace("it can't work", objection)
            return Response(text, 400, self.dialect.number, "application/json")
        if self.failure is not None and self.fails_after is None:
            status, body, headers = self.dialect.failure(self.failure)
            return JSONResponse(body, status, {**self.dialect.number, **headers})
        if not self.dialect.is_stream(asked):
            return JSONResponse(self.dialect.whole(self.said), headers=self.dialect.number)
        kind = "application/x-ndjson" if self.dialect.name == "Ollama" else "text/event-stream"
        return StreamingResponse(self._events(), media_type=kind)

    async def _events(self) -> AsyncIterator[str]:
        for number, event in enumerate(self.dialect.events(self.said)):
            if number == self.breaks_after:
                raise ConnectionAbortedError
            if number == self.ends_after:
                return
            if number == self.fails_after and self.failure is not None:
                yield self.dialect.failure_within(self.failure)
                return
            yield event


def sse(data: Any, event: str = "") -> str:
    """One event of a stream."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def pieces(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]
