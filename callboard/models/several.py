"""Several models behind one client: another one where the first can't answer, or one for each kind of request."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, Self

from pydantic import BaseModel

from callboard.errors import SettingValueError, did_you_mean
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.llm_messages import LLMMessage

from .base import ChatCompletionClient, ModelRequest, RequestClient, Tools
from .budget import in_run
from .errors import (
    AuthenticationError,
    BadResponseError,
    BudgetExceededError,
    BudgetHeldError,
    Charges,
    ContentFilterError,
    ContextLengthError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    ModelUnansweredError,
    QuotaExceededError,
)
from .info import ModelInfo
from .types import CreateResult, RequestUsage

ABILITIES: Final = (
    "vision",
    "function_calling",
    "json_output",
    "structured_output",
    "multiple_system_messages",
)
PASSED_ON: Final = (
    AuthenticationError,
    BadResponseError,
    BudgetExceededError,
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ModelTimeoutError,
    QuotaExceededError,
)
"""Errors beside outages with which another model is asked: it may have another key, account, filter or context."""


class SeveralClients(RequestClient):
    """A client that asks one of several, each of which is metered in a run by its own name and price.

    It says of itself what holds for all: the abilities that each has, the longest answer and the smallest rest of a context.

    Attributes:
        clients: the models.
    """

    meters_itself = True

    def __init__(self, clients: Sequence[ChatCompletionClient]) -> None:
        if not clients:
            raise SettingValueError("clients", "()", "at least one model client")
        self.clients = tuple(clients)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()

    def actual_usage(self) -> RequestUsage:
        return sum((client.actual_usage() for client in self.clients), RequestUsage(0, 0))

    def total_usage(self) -> RequestUsage:
        return sum((client.total_usage() for client in self.clients), RequestUsage(0, 0))

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return max(client.count_tokens(messages, tools=tools) for client in self.clients)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return min(client.remaining_tokens(messages, tools=tools) for client in self.clients)

    @property
    def model_info(self) -> ModelInfo:
        infos: list[Mapping[str, Any]] = [client.model_info for client in self.clients]
        abilities: Any = {name: all(info.get(name, False) for info in infos) for name in ABILITIES}
        return ModelInfo(**{**self.clients[0].model_info, **abilities})

    @property
    def model(self) -> str:
        """The name of the first one."""
        return self.clients[0].model

    @property
    def max_completion_tokens(self) -> int | None:
        limits = [client.max_completion_tokens for client in self.clients]
        return None if None in limits else max(filter(None, limits))

    def fingerprint(self) -> Mapping[str, Any]:
        return {"client": type(self).__qualname__, "clients": [one.fingerprint() for one in self.clients]}


class FallbackChatCompletionClientConfig(BaseModel):
    """A FallbackChatCompletionClient as plain data; its fields are the arguments."""

    clients: list[ComponentModel]
    rest: float = 30.0


class FallbackChatCompletionClient(SeveralClients, Component[FallbackChatCompletionClientConfig]):
    """Asks another model where one is down, over its limit, or refuses.

    ```python
    client = FallbackChatCompletionClient(
        OpenAIChatCompletionClient("gpt-5", max_retries=1),
        OpenAIChatCompletionClient("gemini-2.5-pro"),
    )
    ```

    The next one is asked after an outage (rate limits, overload, timeouts, broken connections), with no quota or budget
    left, with a wrong key or model, after a content filter, for a context that is too long, and where an answer can't be
    used. An error of the request itself is raised at once: it is the same everywhere. Each client makes its own attempts
    first (`max_retries`). One with an outage rests for a while, and is asked last meanwhile.

    In a handler the answer is recorded as any other, so that another attempt has it from the same model. A stream changes
    to another model only before its first piece. What failed requests used is counted. An agent's `models_usage` has all
    tokens, and the usage of a run each model by its name.

    Args:
        *clients: the models, the best first.
        rest: seconds for which a client with an outage is asked last.

    Raises:
        SettingValueError: there is no client, or the seconds are below 0.
    """

    component_config_schema = FallbackChatCompletionClientConfig
    component_provider_override = "callboard.models.FallbackChatCompletionClient"

    def __init__(self, *clients: ChatCompletionClient, rest: float = 30.0) -> None:
        super().__init__(clients)
        if not rest >= 0:
            raise SettingValueError("rest", repr(rest), "seconds, 0 or more")
        self._rest = rest
        self._down: dict[int, float] = {}  # by place: until when

    async def _create(self, request: ModelRequest) -> CreateResult:
        charges, last = Charges(), None
        for client in self._in_order():
            try:
                return await charges.of(request.create(in_run(client)))
            except ModelError as error:
                last = _graver(last, self._noted(client, error))
        raise last or BadResponseError(self.model, "no model was asked")

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        charges, last = Charges(), None
        for client in self._in_order():
            has_begun = False
            try:
                items = charges.of_stream(request.create_stream(in_run(client)))
                async with aclosing(items):
                    async for item in items:
                        has_begun = True
                        yield item
            except ModelError as error:
                if has_begun:
                    raise
                last = _graver(last, self._noted(client, error))
            else:
                return
        raise last or BadResponseError(self.model, "no model was asked")

    def _in_order(self) -> Iterator[ChatCompletionClient]:
        """The clients as they are asked: those that rest come last."""
        now = time.monotonic()
        rested = [place for place in range(len(self.clients)) if self._down.get(place, 0.0) <= now]
        resting = [place for place in range(len(self.clients)) if place not in rested]
        for place in (*rested, *resting):
            yield self.clients[place]

    def _noted(self, client: ChatCompletionClient, error: ModelError) -> ModelError:
        """The error, if another model may do better; else it is raised."""
        # There is room as soon as requests under way have ended.
        if isinstance(error, BudgetHeldError) or not (error.is_outage or isinstance(error, PASSED_ON)):
            raise error
        # A ModelUnansweredError is no outage to the bus.
        if error.is_outage or isinstance(error, ModelTimeoutError):
            self._down[self.clients.index(client)] = time.monotonic() + self._rest
        return error

    def _to_config(self) -> FallbackChatCompletionClientConfig:
        return FallbackChatCompletionClientConfig(
            clients=[dumped(client, self) for client in self.clients], rest=self._rest
        )

    @classmethod
    def _from_config(cls, config: FallbackChatCompletionClientConfig) -> Self:
        return cls(*map(ChatCompletionClient.load_component, config.clients), rest=config.rest)


def _graver(last: ModelError | None, error: ModelError) -> ModelError:
    """The error of the two that is raised: that a request was sent is not forgotten because another server is away."""
    return last if isinstance(last, ModelUnansweredError) and error.is_outage else error


Choose = Callable[[ModelRequest], str]


class RoutingChatCompletionClient(SeveralClients):
    """Asks the model that a function chooses for a request, such as a small one for short questions.

    ```python
    def choose(request: ModelRequest) -> str:
        return "large" if request.tools else "small"


    client = RoutingChatCompletionClient({"small": small, "large": large}, choose)
    ```

    In a handler the answer is recorded as any other, whichever model gave it. It has no dump: a function has none.

    Args:
        clients: the models by name.
        choose: the name for a request: its messages, tools and options. It has to choose by these alone.

    Raises:
        SettingValueError: there is no client.
    """

    def __init__(self, clients: Mapping[str, ChatCompletionClient], choose: Choose) -> None:
        super().__init__(tuple(clients.values()))
        self._by_name = dict(clients)
        self._choose = choose

    async def _create(self, request: ModelRequest) -> CreateResult:
        return await request.create(in_run(self._chosen(request)))

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        async with aclosing(request.create_stream(in_run(self._chosen(request)))) as items:
            async for item in items:
                yield item

    def _chosen(self, request: ModelRequest) -> ChatCompletionClient:
        name = self._choose(request)
        with suppress(KeyError, TypeError):
            return self._by_name[name]
        raise SettingValueError(
            "choose", repr(name), f"a name of a client. {did_you_mean(str(name), self._by_name)}"
        )
