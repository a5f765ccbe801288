"""Pages of AG-UI for tests: what a page has of a conversation, read with the protocol's own types."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)


def said(text: str, thread: str, run: str = "", **more: Any) -> RunAgentInput:
    """The input of a page in which somebody says something."""
    message = {"id": uuid.uuid4().hex, "role": "user", "content": text}
    given = {"thread_id": thread, "run_id": run or uuid.uuid4().hex, "messages": [message], **more}
    return RunAgentInput.model_validate(given)


def answer(thread: str, question: str, value: Any, status: str = "resolved") -> RunAgentInput:
    resume = [{"interruptId": question, "status": status, "payload": value}]
    return said("", thread, messages=[], resume=resume)


class Page:
    """A page: it reads streams, and has the messages that count.

    Args:
        service: The team.
        token: Whose it is.
    """

    def __init__(self, service: str, token: str = "ada") -> None:
        self.place = ""
        self.types: list[str] = []
        self.numbers: list[int] = []
        self.messages: dict[str, str] = {}
        self.last: Any = None
        self._service, self._token = service, token

    @asynccontextmanager
    async def stream(
        self, door: str, asked: RunAgentInput, path: str = "", after: str = ""
    ) -> AsyncIterator[httpx.Response]:
        headers = {"Authorization": f"Bearer {self._token}", "content-type": "application/json"}
        headers |= {"Last-Event-ID": after} if after else {}
        async with (
            httpx.AsyncClient(timeout=30) as http,
            http.stream(
                "POST",
                f"{door}/agui/{self._service}{path}",
                content=asked.model_dump_json(by_alias=True),
                headers=headers,
            ) as response,
        ):
            yield response

    async def read(
        self, door: str, asked: RunAgentInput, path: str = "", after: str = "", until: str = ""
    ) -> None:
        """Read a stream to its end, or until a text has come."""
        async with self.stream(door, asked, path, after) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    self.place = line[4:]
                    self.numbers.append(int(line.rpartition(":")[2]))
                elif line.startswith("data: "):
                    self._take(EVENTS.validate_python(json.loads(line[6:])))
                    if until and any(until in text for text in self.messages.values()):
                        return

    def _take(self, event: Any) -> None:
        assert not event.model_extra, "a field that the protocol does not know"
        self.types.append(event.type.value)
        self.last = event
        match event.type.value:
            case "TEXT_MESSAGE_START":
                self.messages[event.message_id] = ""
            case "TEXT_MESSAGE_CONTENT":
                self.messages[event.message_id] += event.delta
            case "MESSAGES_SNAPSHOT":
                self.messages = {one.id: one.content or "" for one in event.messages}
            case "CUSTOM" if event.name == "void":
                del self.messages[event.value["messageId"]]
            case _:
                pass

    @property
    def texts(self) -> list[str]:
        return list(self.messages.values())
