"""The client for Ollama's own API, which takes the size of the context and says how much of a prompt was read.

Ollama cuts a prompt that is longer than its context without a word, and answers what is left. So each request says that
it is not to be cut (`truncate`, `shift`), which the server answers with an error; and for servers that do not know that,
the number of tokens that were read is held against our own count. What agents get out of an answer is the work of the
client for OpenAI's API: here its messages become those of Ollama, and Ollama's answers become those of OpenAI.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from callboard.core.cancellation import CancellationToken
from callboard.errors import SettingValueError
from callboard.foundation.addresses import has_to_be_public
from callboard.foundation.component import NotDumpableError, harmless
from callboard.foundation.texts import read_json
from callboard.memory.cancelling import cancellable, cancellable_items

from .errors import BadRequestError, BadResponseError, ContextLengthError
from .openai.answer import ServerAnswer, WireAnswer, WireError
from .openai.asking import Tally
from .openai.chat_request import ChatRequest
from .openai.client import OpenAIChatCompletionClient, OpenAIClientConfigurationConfigModel, is_trusted
from .openai.connection import NO_KEY, Session, errors_in_a_word
from .openai.settings import OpenAIOptions, check_arguments, count_request

if TYPE_CHECKING:
    import httpx2

__all__ = ["OllamaChatCompletionClient", "OllamaClientConfigurationConfigModel"]

HERE: Final = "http://127.0.0.1:11434"
PATH: Final = "/api/chat"
# Of the openai package: what makes it hand over a response as it comes.
AS_IT_COMES: Final = {"X-Stainless-Raw-Response": "stream"}

SHARED: Final = frozenset(
    {
        "timeout",
        "max_retries",
        "retries",
        "max_corrections",
        "http_client",
        "model_info",
        "token_limit",
        "tokenizer",
        "tool_mode",
        "add_name_prefixes",
        "response_format",
        "temperature",
        "top_p",
        "seed",
        "stop",
        "max_tokens",
        "frequency_penalty",
        "presence_penalty",
    }
)
"""Options that the client for OpenAI's API has as well."""
AS_OPTION: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
}
"""Arguments of OpenAI's API, and Ollama's options that they are."""
NOT_SENT: Final = frozenset(
    {"model", "messages", "tools", "tool_choice", "response_format", "extra_body", "stream", "stream_options"}
)

# Our count is an estimate: it may be a fifth too high, or the server's may leave out what its template adds.
SMALLEST_CONTEXT: Final = 2048  # that Ollama ever had where nobody set one
SURELY_FITS: Final = 0.8  # of the context, by our count
SURELY_CUT: Final = 0.75  # of our count, by the server's


class OllamaClientConfigurationConfigModel(OpenAIClientConfigurationConfigModel):
    """The options of an `OllamaChatCompletionClient`, which explains them."""

    host: str | None = None
    options: dict[str, JsonValue] | None = None
    headers: dict[str, str] | None = None
    follow_redirects: bool | None = None
    keep_alive: str | float | None = None
    think: bool | str | None = None


class OllamaChatCompletionClient(OpenAIChatCompletionClient):
    """A client for a model of Ollama, by its own API; needs the extra `openai`.

    A prompt that does not fit into the context is a `ContextLengthError`, never an answer to half of it.

    Args:
        model: its name, such as "llama3.2".
        host: address of the server; default: OLLAMA_HOST, else http://127.0.0.1:11434.
        options: Ollama's own, such as `{"num_ctx": 8192, "temperature": 0}`.
        headers: sent with every request, such as an Authorization.
        follow_redirects: as AutoGen has it; False needs an `http_client` that does not.
        keep_alive: how long the model stays loaded, such as "10m" or seconds.
        think: whether a thinking model thinks, or how much ("low").
        shared: model_info, timeout, max_retries, retries, max_corrections, http_client, token_limit, tokenizer, tool_mode,
            add_name_prefixes, response_format, temperature and the like: as `OpenAIChatCompletionClient` has them.

    Raises:
        BadRequestError: an option that there is not.
        SettingValueError: a value that can't work.
        ModelNotFoundError: nothing is known of the model, and there is no model_info.
    """

    component_config_schema = OllamaClientConfigurationConfigModel
    component_provider_override = "callboard.models.ollama.OllamaChatCompletionClient"

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        follow_redirects: bool = True,
        keep_alive: str | float | None = None,
        think: bool | str | None = None,
        **shared: Any,
    ) -> None:
        own = ("host", "options", "headers", "follow_redirects", "keep_alive", "think")
        check_arguments(model, shared, SHARED.union(own))
        if not follow_redirects and shared.get("http_client") is None:
            raise SettingValueError("follow_redirects", "False", "left out, or given to an http_client")
        self._native = dict(options or {})
        self._beside = {
            name: value for name, value in (("keep_alive", keep_alive), ("think", think)) if value is not None
        }
        self._own = {"host": host, "options": options, "headers": headers, **self._beside}
        self._shared = shared
        limits = {"token_limit": self._native.get("num_ctx"), "max_tokens": self._native.get("num_predict")}
        given = {name: value for name, value in limits.items() if value is not None and value > 0} | shared
        # A key of OpenAI's in the environment is not for this server.
        wire: Any = {"base_url": address_of(host), "api_key": NO_KEY, "default_headers": headers or {}}
        for_openai = cast("OpenAIOptions", {**given, **wire, "include_name_in_message": False})
        super().__init__(model, **for_openai)

    # Asking

    async def _ask(self, chat: ChatRequest, tally: Tally) -> ServerAnswer | None:
        response = await self._open(chat.arguments, tally, stream=False)
        try:
            with tally.asking(chat.arguments), self._session.typed_errors():
                read = json.loads(await response.aread())
                answer = tally.read(json.dumps(self._as_openai(read, "message")).encode())
        finally:
            await response.aclose()
        if isinstance(answer, WireError):
            raise self._session.reported(answer)
        self._refuse_cut(read, chat.arguments)
        return answer

    async def _chunks(
        self, arguments: Mapping[str, Any], tally: Tally, token: CancellationToken | None
    ) -> AsyncGenerator[WireAnswer, None]:
        response = await cancellable(self._open(arguments, tally, stream=True), token)
        try:
            lines = cancellable_items(response.aiter_lines(), token)
            with tally.asking(arguments):
                line = await self._next_line(lines)
            while line is not None:
                with self._session.typed_errors():
                    read = json.loads(line)
                    chunk = WireAnswer.model_validate(self._as_openai(read, "delta"))
                if chunk.error is not None:
                    raise self._session.reported(chunk.error)
                yield chunk
                self._refuse_cut(read, arguments)
                line = await self._next_line(lines)
        finally:
            await response.aclose()

    async def _next_line(self, lines: AsyncIterator[str]) -> str | None:
        with self._session.typed_errors():
            async for line in lines:
                if line.strip():
                    return line
            return None

    async def _open(self, arguments: Mapping[str, Any], tally: Tally, *, stream: bool) -> httpx2.Response:
        """Send a request; the response is to be read and closed."""
        body = self._body(arguments, stream=stream)
        client = await self._session.opened()
        import httpx2

        with tally.asking(arguments), self._session.typed_errors(), errors_in_a_word():
            return await client.post(
                PATH, cast_to=httpx2.Response, body=body, options={"headers": AS_IT_COMES}
            )

    # The request

    def _body(self, arguments: Mapping[str, Any], *, stream: bool) -> dict[str, Any]:
        """A request of Ollama's API, with the meaning of one of OpenAI's."""
        extra = dict(arguments.get("extra_body") or {})
        options = {**self._native, **extra.pop("options", {})}
        for name, value in arguments.items():
            if name in AS_OPTION:
                options[AS_OPTION[name]] = value
            elif name not in NOT_SENT and name not in ("parallel_tool_calls", "timeout"):
                raise BadRequestError(
                    self.model, f"Ollama has no argument {name!r}; its own go into extra_body"
                )
        body = {
            "model": arguments["model"],
            "messages": self._messages(arguments["messages"]),
            "tools": _offered(arguments),
            "format": _format(arguments.get("response_format")),
            "options": options,
        }
        given = {name: value for name, value in body.items() if value}
        return {**given, "stream": stream, "truncate": False, "shift": False, **self._beside, **extra}

    def _messages(self, wire: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        names = {
            call["id"]: call["function"]["name"] for message in wire for call in message.get("tool_calls", ())
        }
        return [self._message(message, names) for message in wire]

    def _message(self, message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        native: dict[str, Any] = {
            "role": message["role"],
            "content": "\n".join(part["text"] for part in parts if part["type"] == "text"),
        }
        if images := [self._image(part) for part in parts if part["type"] != "text"]:
            native["images"] = images
        if calls := message.get("tool_calls"):
            native["tool_calls"] = [_call(call) for call in calls]
        if thinking := message.get("reasoning_content"):
            native["thinking"] = thinking
        if "tool_call_id" in message:
            answered = message["tool_call_id"]
            native |= {"tool_name": names.get(answered, ""), "tool_call_id": answered}
        return native

    def _image(self, part: Mapping[str, Any]) -> str:
        head, _, data = part["image_url"]["url"].partition(";base64,")
        if not head.startswith("data:"):
            raise BadRequestError(
                self.model, "Ollama takes images as their bytes, not as addresses: Image.from_bytes"
            )
        return str(data)

    # The answer

    def _as_openai(self, read: Any, place: str) -> dict[str, Any]:
        """An answer of Ollama, or a piece of one, as OpenAI's API has it."""
        if not isinstance(read, dict) or not ("message" in read or "error" in read):
            raise BadResponseError(
                self.model, f"{self._connection.base_url} sent no answer of Ollama's chat API"
            )
        if "error" in read:
            return {"error": {"message": str(read["error"])}}
        message = read["message"] or {}
        calls = [
            {"index": index, "id": call.get("id"), "function": call.get("function")}
            for index, call in enumerate(message.get("tool_calls") or ())
        ]
        said = {
            "content": message.get("content"),
            "reasoning_content": message.get("thinking"),
            "tool_calls": calls if place == "message" else [{**call, "index": None} for call in calls],
        }
        finish = (read.get("done_reason") or "stop") if read.get("done") else None
        chat: dict[str, Any] = {"choices": [{place: said, "finish_reason": finish}]}
        if read.get("done"):
            chat["usage"] = {
                "prompt_tokens": read.get("prompt_eval_count"),
                "completion_tokens": read.get("eval_count"),
            }
        return chat

    def _refuse_cut(self, read: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        """Refuse the answer to a prompt of which the server has read a part only.

        Raises:
            ContextLengthError: so it is.
        """
        counted = read.get("prompt_eval_count")
        if not (read.get("done") and isinstance(counted, int) and counted > 0) or _has_images(arguments):
            return
        sent = self._body(arguments, stream=False)
        if sent["truncate"]:
            return  # as the caller wants it
        expected = count_request(arguments["messages"], _offered(arguments), self._counter.tokenizer)
        context = sent.get("options", {}).get("num_ctx") or SMALLEST_CONTEXT
        if expected > SURELY_FITS * context and counted < SURELY_CUT * expected:
            raise ContextLengthError(
                self.model,
                f"Ollama has cut the prompt: it read {counted:,} tokens of about {expected:,}. "
                "Give a larger context, as options={'num_ctx': ...}",
            )

    # The model

    def fingerprint(self) -> Mapping[str, Any]:
        return {**super().fingerprint(), "options": self._native, **self._beside}

    def _to_config(self) -> OpenAIClientConfigurationConfigModel:
        given = {**self._own, **self._shared}
        if unwritable := [
            name for name in ("http_client", "retries", "tokenizer") if given.get(name) is not None
        ]:
            raise NotDumpableError(type(self).__qualname__, f"{', '.join(unwritable)} can't be written down")
        if isinstance(given.get("response_format"), type):
            raise NotDumpableError(type(self).__qualname__, "response_format is a class")
        if given["headers"]:
            given["headers"] = harmless(given["headers"])
        return OllamaClientConfigurationConfigModel(
            model=self.model, **{name: value for name, value in given.items() if value is not None}
        )

    @classmethod
    def _from_config(cls, config: OpenAIClientConfigurationConfigModel) -> Self:
        given = config.model_dump(exclude_none=True)
        given.pop("model_capabilities", None)
        made = cls(**given)
        address = made._connection.base_url
        if not is_trusted(address, HERE, address_of(None)):
            public = has_to_be_public(urlsplit(address).hostname or "")
            made._connection = replace(made._connection, public=public)
            made._session = Session(made.model, made._connection)
        return made


def address_of(host: str | None) -> str:
    """The address of a server, as Ollama's own programs read it: a host alone will do."""
    given = (host or os.environ.get("OLLAMA_HOST") or HERE).rstrip("/")
    if "://" in given:
        return given
    has_port = given.rpartition(":")[2].isdecimal()
    return f"http://{given}" if has_port else f"http://{given}:11434"


def _offered(arguments: Mapping[str, Any]) -> list[Any]:
    """The tools that may be called; Ollama knows no choice, so one that has to be called is offered alone."""
    tools, choice = list(arguments.get("tools") or ()), arguments.get("tool_choice")
    if choice == "none":
        return []
    if isinstance(choice, Mapping):
        return [tool for tool in tools if tool["function"]["name"] == choice["function"]["name"]]
    return tools


def _format(response_format: Any) -> Any:
    kind = (response_format or {}).get("type")
    if kind == "json_schema":
        return response_format["json_schema"]["schema"]
    return "json" if kind == "json_object" else None


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = read_json(function["arguments"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {"arguments": function["arguments"]}
    return {"id": call["id"], "function": {"name": function["name"], "arguments": arguments}}


def _has_images(arguments: Mapping[str, Any]) -> bool:
    contents = [message.get("content") for message in arguments["messages"]]
    return any(
        part["type"] != "text" for content in contents if isinstance(content, list) for part in content
    )
