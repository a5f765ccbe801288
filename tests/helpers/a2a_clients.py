"""Clients of A2A for tests: the protocol's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, create_client
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)

Binding = Literal["JSONRPC", "HTTP+JSON"]
BINDINGS: tuple[Binding, ...] = ("JSONRPC", "HTTP+JSON")


@asynccontextmanager
async def client(
    door: str,
    service: str,
    token: str = "ada",
    *,
    binding: Binding = "JSONRPC",
    streaming: bool = True,
) -> AsyncIterator[Client]:
    """A client of a service, which has read its card."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=40) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        made = await create_client(f"{door}/a2a/{service}", config)
        yield made


def message(text: str, *, task: str = "", context: str = "", id: str = "") -> SendMessageRequest:
    said = Message(
        message_id=id or uuid.uuid4().hex,
        role=Role.ROLE_USER,
        parts=[Part(text=text)],
        task_id=task,
        context_id=context,
    )
    return SendMessageRequest(message=said)


async def all_of(stream: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    return [one async for one in stream]


async def sent(client: Client, request: SendMessageRequest) -> Task:
    """The task, of a client that does not stream."""
    [response] = await all_of(client.send_message(request))
    return response.task


async def got(client: Client, id: str) -> Task:
    return await client.get_task(GetTaskRequest(id=id))


def subscribe(client: Client, id: str, after: str = "") -> AsyncIterator[StreamResponse]:
    context = ClientCallContext(service_parameters={"Last-Event-ID": after}) if after else None
    return client.subscribe(SubscribeToTaskRequest(id=id), context=context)


def state(task: Any) -> str:
    """Of a task, or of an update of its status."""
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


def text(task: Any) -> str:
    """Of the artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def number(one: StreamResponse) -> str:
    told = getattr(one, str(one.WhichOneof("payload")))
    return str(told.metadata["number"])


class Reader:
    """What a client has of a task that it reads: its id, the states, and the text of the artifact."""

    def __init__(self) -> None:
        self.task = ""
        self.numbers: list[int] = []
        self.states: list[str] = []
        self.said: list[str] = []
        self.text = ""

    def take(self, one: StreamResponse) -> None:
        if one.HasField("task"):
            self.task = one.task.id
            self.states.append(state(one.task))
            self.text = text(one.task)
            return
        self.numbers.append(int(number(one)))
        if one.HasField("status_update"):
            self.states.append(state(one.status_update))
            self.said += [part.text for part in one.status_update.status.message.parts if part.text]
        else:
            update = one.artifact_update
            pieces = "".join(part.text for part in update.artifact.parts)
            self.text = self.text + pieces if update.append else pieces
