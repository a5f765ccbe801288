"""The agent that stands for one elsewhere, which speaks A2A."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from callboard.core.cancellation import CancellationToken
from callboard.foundation import MissingPackageError
from callboard.messages.chat import BaseChatMessage, TextMessage
from callboard.runtime.steps import NumberedStep

from .base import BaseChatAgent, Response
from .errors import AgentError, AgentSettingError, RemoteAgentUnreachableError, RemoteTaskError

if TYPE_CHECKING:
    from a2a.client import Client
    from a2a.types import Task

DESCRIPTION: Final = "An agent elsewhere."
FIRST_PAUSE: Final = 0.5  # seconds between two looks at a task whose agent has no streams
LONGEST_PAUSE: Final = 10.0
PATIENCE_TO_CANCEL: Final = 5.0  # seconds
PASSING: Final = (408, 425, 429)  # statuses of HTTP that say: not now
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class A2AAgentState(BaseModel):
    """The state of an A2AAgent.

    Attributes:
        context: The conversation there; "": there is none yet.
        task: The task that waits for an answer; "": none does.
    """

    type: Literal["A2AAgentState"] = "A2AAgentState"
    version: str = "1.0.0"
    context: str = ""
    task: str = ""


class _Sent(BaseModel):
    """What became of a message: it is recorded before anything is waited for.

    Attributes:
        task: The task that it began, or goes on with; "": it was answered at once.
        context: The conversation there.
        text: The answer, of one that was answered at once.
    """

    task: str = ""
    context: str = ""
    text: str = ""


class A2AAgent(BaseChatAgent):
    """Stands for an agent elsewhere that speaks A2A 1.0: what is new is sent to it, and its result is the answer.

    The other one remembers the conversation, as a context of its own. Where it asks something, the question is the answer
    here, and what is said after that answers it.

    In a handler on the bus the id of the task is recorded before it is waited for: a process that dies afterwards does not
    send anything again, and the next one waits for the same task. One that dies while it sends, sends the same message
    again, with the same id; an agent that heeds it, as those of `callboard serve` do, works once.

    It needs the extra `a2a`.

    Args:
        name: A Python identifier.
        url: Where the other one's card is, without ``/.well-known/agent-card.json``. Nothing is sent to another host,
            whatever the card says.
        description: What it can do, for those who choose who speaks.
        token: Sent as a bearer token.
        timeout: Seconds in which a request is answered. A task may take as long as it takes.
        binding: How it is spoken to.

    Raises:
        AgentSettingError: The address is none of HTTP, or the timeout is not above 0 (a ValueError).
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        description: str = DESCRIPTION,
        token: str | SecretStr | None = None,
        timeout: float = 60.0,
        binding: Literal["JSONRPC", "HTTP+JSON"] = "JSONRPC",
    ) -> None:
        super().__init__(name, description)
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
            # It is not shown: it may have a password.
            raise AgentSettingError(
                f"url of {name!r} is no address of an agent: it begins with https:// or http://, and has no name or password"
            )
        if not timeout > 0:
            raise AgentSettingError(f"timeout={timeout} is no number of seconds above 0")
        self._url = url.rstrip("/")
        self._token = SecretStr(token) if isinstance(token, str) else token
        self._timeout = timeout
        self._binding = binding
        self._state = A2AAgentState()

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Send what is new, and wait for the result. Where the token is cancelled, the task is, too.

        Raises:
            RemoteTaskError: The task failed, was cancelled there, or is not known there any more (a RuntimeError).
            RemoteAgentUnreachableError: It gives no answer (a ConnectionError).
            MissingPackageError: The extra `a2a` is not installed (an ImportError).
        """
        # The process dies while the other one works: the next attempt would begin the work a second time.
        # guard: an agent elsewhere is given its task once
        step = NumberedStep.begin(f"a2a:{self.name}")
        key = uuid.uuid4().hex if step is None else step.context.idempotency_key(step.full_name)
        text = _text_of(messages)
        async with self._client() as client:
            sending = (
                self._send(client, text, key) if step is None else step.run(self._send, client, text, key)
            )
            sent = _Sent.model_validate(await sending)
            self._state = A2AAgentState(context=sent.context)
            if sent.task:
                task = await self._result(client, sent.task, cancellation_token)
                sent.text = self._said(task)
        return Response(chat_message=TextMessage(content=sent.text, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Begin a new conversation there with the next message."""
        self._state = A2AAgentState()

    async def save_state(self) -> Mapping[str, Any]:
        """Which conversation it has there."""
        return self._state.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ValueError: It is no such state.
        """
        self._state = A2AAgentState.model_validate(state)

    # Steps

    async def _send(self, client: Client, text: str, key: str) -> dict[str, Any]:
        from a2a.types import Message, Part, Role, SendMessageConfiguration, SendMessageRequest

        message = Message(
            message_id=key,
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            context_id=self._state.context,
            task_id=self._state.task,
        )
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=True)
        )
        [answer] = [one async for one in client.send_message(request)]
        if answer.HasField("message"):
            said = answer.message
            return _Sent(context=said.context_id, text=_text_in(said)).model_dump()
        return _Sent(task=answer.task.id, context=answer.task.context_id).model_dump()

    async def _result(self, client: Client, task_id: str, token: CancellationToken) -> Task:
        waiting = asyncio.ensure_future(self._settled(client, task_id))
        try:
            return await token.link_future(waiting)
        except asyncio.CancelledError:
            # Not where this process ends: then another one goes on with it.
            if token.is_cancelled():
                await self._cancel(client, task_id)
            raise

    async def _settled(self, client: Client, task_id: str) -> Task:
        from a2a.types import GetTaskRequest

        pause = FIRST_PAUSE
        while True:
            task = await client.get_task(GetTaskRequest(id=task_id, history_length=1))
            if _is_settled(task):
                return task
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _cancel(self, client: Client, task_id: str) -> None:
        from a2a.types import CancelTaskRequest
        from a2a.utils.errors import A2AError

        with suppress(A2AError, TimeoutError):  # it is not waited for any more, whatever becomes of it
            async with asyncio.timeout(PATIENCE_TO_CANCEL):
                await client.cancel_task(CancelTaskRequest(id=task_id))

    def _said(self, task: Task) -> str:
        """The result of a task, or its question, which the next message answers."""
        from a2a.types import TaskState

        state, said = task.status.state, _text_in(task.status.message)
        if state == TaskState.TASK_STATE_COMPLETED:
            texts = [_text_in(artifact) for artifact in task.artifacts]
            return "\n".join(filter(None, texts)) or said
        if state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED):
            self._state.task = task.id
            return said
        raise RemoteTaskError(self.name, task.id, f"{TaskState.Name(state)}{said and ': '}{said}")

    # The way to it

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        """A client, whose errors are ours."""
        try:
            import a2a as _  # noqa: F401
            import httpx
            from a2a.client import ClientConfig, ClientFactory
            from a2a.client.card_resolver import A2ACardResolver
            from a2a.client.errors import A2AClientError
            from a2a.utils.errors import A2AError
        except ImportError:
            raise MissingPackageError("a2a", "a2a") from None
        token = self._token
        headers = {} if token is None else {"Authorization": f"Bearer {token.get_secret_value()}"}
        try:
            async with httpx.AsyncClient(timeout=self._timeout, headers=headers) as http:
                card = await A2ACardResolver(http, self._url).get_agent_card()
                # A card that was changed would have the token, and what is said here, sent to somebody else.
                # guard: what is meant for an agent elsewhere goes to its own host
                here = [one for one in card.supported_interfaces if _origin(one.url) == _origin(self._url)]
                del card.supported_interfaces[:]
                card.supported_interfaces.extend(here)
                if not any(one.protocol_binding == self._binding for one in here):
                    raise AgentSettingError(
                        f"the card of {self.name!r} at {self._url} names no address of its own host for {self._binding}"
                    )
                config = ClientConfig(
                    streaming=False, httpx_client=http, supported_protocol_bindings=[self._binding]
                )
                yield ClientFactory(config).create(card)
        except A2AClientError as error:
            raise self._unreachable(error) from error
        except A2AError as error:
            raise RemoteTaskError(self.name, "", str(error)) from error

    def _unreachable(self, error: Exception) -> AgentError:
        """The error of a request that was not answered, or refused by its status."""
        import httpx

        cause = error.__cause__
        is_away = isinstance(cause, httpx.RequestError)
        if isinstance(cause, httpx.HTTPStatusError):
            status = cause.response.status_code
            is_away = status >= 500 or status in PASSING
        if is_away:
            return RemoteAgentUnreachableError(self.name, self._url, str(error))
        return RemoteTaskError(self.name, "", str(error))


def _text_of(messages: Sequence[BaseChatMessage]) -> str:
    """What is new, with its sources where there are several."""
    if len(messages) == 1:
        return messages[0].to_model_text()
    return "\n\n".join(f"{one.source}: {one.to_model_text()}" for one in messages) or "Go on."


def _text_in(said: Any) -> str:
    """The text of a message or an artifact, with its data as JSON where there is no text."""
    from google.protobuf.json_format import MessageToJson

    texts = [part.text for part in said.parts if part.HasField("text")]
    data = [MessageToJson(part.data) for part in said.parts if part.HasField("data")]
    return "\n".join(texts or data)


def _is_settled(task: Task) -> bool:
    from a2a.types import TaskState

    return task.status.state not in (
        TaskState.TASK_STATE_UNSPECIFIED,
        TaskState.TASK_STATE_SUBMITTED,
        TaskState.TASK_STATE_WORKING,
    )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
