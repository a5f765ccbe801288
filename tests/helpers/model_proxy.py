"""A server before a real model, which keeps what was asked and said, and can hold a stream in the middle of a sentence."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.responses import Response, StreamingResponse

from .openai_server import Asked, OpenAIServer

EVENT = "data: "
LONGEST = 60.0  # seconds that a real model may take for a piece


@dataclass
class Exchange:
    """One request, and the text that went back to who asked.

    Attributes:
        asked: the messages of the request.
        said: the pieces that went back.
        is_whole: the answer was passed on to its end.
    """

    asked: list[dict[str, Any]]
    said: list[str] = field(default_factory=list)
    is_whole: bool = False

    @property
    def text(self) -> str:
        return "".join(self.said)


class ModelProxy:
    """A behaviour of OpenAIServer that passes streams on, piece by piece.

    Args:
        url: base_url of the model.
        hold: number of the request, from 0, whose answer stops after `after` pieces of text until its client hangs up.
        after: see `hold`.
    """

    def __init__(self, url: str, *, hold: int | None = None, after: int = 5) -> None:
        self.exchanges: list[Exchange] = []
        self._url = url
        self._hold = hold
        self._after = after

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        exchange = Exchange(asked.body["messages"])
        is_held = len(self.exchanges) == self._hold
        self.exchanges.append(exchange)
        return StreamingResponse(
            self._passed_on(asked.body, exchange, server, is_held), media_type="text/event-stream"
        )

    async def _passed_on(
        self, body: Any, exchange: Exchange, server: OpenAIServer, is_held: bool
    ) -> AsyncIterator[str]:
        async with aclosing(self._lines(body)) as lines:
            async for line in lines:
                yield f"{line}\n"
                exchange.said += texts(line)
                if is_held and len(exchange.said) >= self._after:
                    await server.wait_for_release()
        exchange.is_whole = True

    async def _lines(self, body: Any) -> AsyncGenerator[str, None]:
        async with (
            httpx2.AsyncClient(timeout=LONGEST) as client,
            client.stream("POST", f"{self._url}/chat/completions", json=body) as response,
        ):
            async for line in response.aiter_lines():
                yield line


def texts(line: str) -> list[str]:
    """The pieces of text in one line of a stream."""
    if not line.startswith(EVENT) or "[DONE]" in line:
        return []
    choices = json.loads(line.removeprefix(EVENT)).get("choices", [])
    return [text for choice in choices if (text := choice["delta"].get("content"))]
