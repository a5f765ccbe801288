"""The model of an agent: its client, the messages as it reads them, and what it has used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.info import DEFAULTS, ModelInfo, Price, known_model, price_of
from callboard.models.types import CreateResult, RequestUsage

from .errors import GroupChatDeclarationError
from .messages import Message, text_of

ModelConfig: TypeAlias = ChatCompletionClient | Mapping[str, Any] | Literal[False] | None
"""A model client; an LLMConfig, or AG2's dictionary; False or None: no model."""

ClientClasses: TypeAlias = type[ChatCompletionClient] | Sequence[type[ChatCompletionClient]] | None

OFFERED: Final = ("tools", "functions")
OPENAI_TYPES: Final = ("openai", "open_ai")  # the older name is in many files
UNKNOWN: Final = ModelInfo(
    vision=False, function_calling=True, json_output=True, family="unknown", structured_output=False
)
# Options that stand beside `config_list`, for all of its entries.
SHARED: Final = (
    "api_key",
    "base_url",
    "temperature",
    "top_p",
    "max_tokens",
    "seed",
    "timeout",
    "organization",
    "response_format",
    "parallel_tool_calls",
)


def client_of(config: ModelConfig, classes: ClientClasses = None) -> ChatCompletionClient | None:
    """The client of a configuration.

    Of a dictionary it is the first entry of `config_list`, or the dictionary itself: "model" with "api_key", "base_url"
    and other options of the OpenAI client, or "model_client_cls" with the name of a class, which is called with the entry as
    its keyword arguments. "api_type" may be "openai" or "azure". Of a model that is not well known it is believed that it
    takes tools and answers with JSON, unless "model_info" says otherwise. "price" counts in the cost of chats, see
    `prices_of`. What only AG2 knows ("tags", "cache_seed") is left out.

    Args:
        config: See ModelConfig.
        classes: The classes that it may name.

    Returns:
        None: no model.

    Raises:
        GroupChatDeclarationError: No class has the name, no model is named, or there is no client for the "api_type" (a
            ValueError).
        GroupChatDeclarationError: Several classes have the name (a RuntimeError).
    """
    if config is None or config is False:
        return None
    if isinstance(config, ChatCompletionClient):
        return config
    entry = _first_entry(config)
    name = entry.pop("model_client_cls", None)
    if name:
        return _class_named(name, classes)(**entry)
    if not entry.get("model"):
        raise GroupChatDeclarationError("The configuration of a model names no model.")
    return _openai(entry)


def prices_of(config: ModelConfig, model: str) -> dict[str, Price]:
    """The price of a model, by its name: "price" is USD for a thousand tokens, read and written, or one for both.

    Raises:
        GroupChatDeclarationError: It is something else (a ValueError).
    """
    if not config or isinstance(config, ChatCompletionClient):
        return {}
    price = _first_entry(config).get("price")
    if price is None:
        return {}
    both = [price, price] if isinstance(price, int | float) else price
    if (
        not isinstance(both, list | tuple)
        or len(both) != 2
        or not all(isinstance(one, int | float) for one in both)
    ):
        raise GroupChatDeclarationError(
            f'"price" is {price!r}: give [USD for 1,000 tokens that are read, USD for 1,000 that are written].'
        )
    return {model: Price(prompt=both[0] * 1000, completion=both[1] * 1000)}


def _first_entry(config: object) -> dict[str, Any]:
    """The first of its entries, with the options that stand beside them."""
    if not isinstance(config, Mapping):
        raise _no_config(config)
    entries = config.get("config_list") or config
    entry = entries[0] if isinstance(entries, list | tuple) else entries
    if not isinstance(entry, Mapping):
        raise _no_config(entry)
    return {**{key: value for key, value in config.items() if key in SHARED}, **entry}


def _no_config(given: object) -> GroupChatDeclarationError:
    return GroupChatDeclarationError(
        f"{type(given).__name__} is no configuration of a model: give a model client, an LLMConfig, or a dictionary with "
        '"model" or "config_list".'
    )


def offers_tools(config: ModelConfig) -> bool:
    """Whether a configuration offers tools to its model."""
    return isinstance(config, Mapping) and any(config.get(key) for key in OFFERED)


def _class_named(name: str, classes: ClientClasses) -> type[ChatCompletionClient]:
    if not classes:
        raise GroupChatDeclarationError(
            f"The configuration names the model client class {name!r}, and none was given as model_client_cls."
        )
    given = [classes] if isinstance(classes, type) else list(classes)
    found = [cls for cls in given if cls.__name__ == name]
    if len(found) > 1:
        raise GroupChatDeclarationError(f"Several model client classes are named {name!r}.")
    if not found:
        raise GroupChatDeclarationError(f"None of the given model client classes is named {name!r}.")
    return found[0]


def _openai(entry: Mapping[str, Any]) -> ChatCompletionClient:
    from callboard.models.openai import AzureOpenAIChatCompletionClient, OpenAIChatCompletionClient
    from callboard.models.openai.settings import OpenAIOptions

    options = {key: value for key, value in entry.items() if key in OpenAIOptions.__annotations__}
    model, api_type = entry["model"], entry.get("api_type") or "openai"
    if known_model(model) is None:
        options.setdefault("model_info", UNKNOWN)
    if api_type == "azure":
        options.setdefault("azure_endpoint", options.pop("base_url", None))
        return AzureOpenAIChatCompletionClient(model, **options)
    if api_type not in OPENAI_TYPES:
        raise GroupChatDeclarationError(
            f"There is no client for the api_type {api_type!r}, only for 'openai' and 'azure'. Leave it out if the service "
            "at base_url understands OpenAI's API, or give a model client as llm_config."
        )
    return OpenAIChatCompletionClient(model, **options)


@runtime_checkable
class MessageTransform(Protocol):
    """A change of a list of messages."""

    def apply_transform(self, messages: list[Message]) -> list[Message]:
        """The list as a model is to read it."""
        ...


class MessageHistoryLimiter:
    """A transform that leaves the last messages.

    Args:
        max_messages: How many; None: all.
        keep_first_message: Whether the first one stays as well, as one of them.
    """

    def __init__(self, max_messages: int | None = None, keep_first_message: bool = False) -> None:
        if max_messages is not None and max_messages < 1:
            raise ValueError("max_messages must be None or greater than 0.")
        self._most = max_messages
        self._keeps_first = keep_first_message

    def apply_transform(self, messages: list[Message]) -> list[Message]:
        """The last messages; one that answers tool calls which are gone is left out as well."""
        most = self._most
        if most is None or len(messages) <= most:
            return messages
        first = messages[:1] if self._keeps_first else []
        rest = messages[len(messages) - most + len(first) :] if most > len(first) else []
        while rest and rest[0].get("role") == "tool":
            rest = rest[1:]
        return [*first, *rest]


class TransformMessages:
    """Transforms, one after the other; the system message in front stays as it is.

    Args:
        transforms: The first one changes the messages first.
    """

    def __init__(self, transforms: Sequence[MessageTransform] = ()) -> None:
        self._transforms = list(transforms)

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        """The messages after all of them; those that are given stay as they are."""
        system = [dict(message) for message in messages[:1] if message.get("role") == "system"]
        rest = deepcopy(list(messages[len(system) :]))
        for transform in self._transforms:
            rest = transform.apply_transform(rest)
        return [*system, *rest]


SYSTEM: Final = ("system", "developer")
RESULTS: Final = ("tool", "function")
VENDOR: Final = "vendor"  # of a message with calls: what the model's maker wants back with it


def to_model(messages: Sequence[Message], name: str) -> list[LLMMessage]:
    """The messages for a model.

    Args:
        messages: As agents keep them.
        name: Of the agent that the model answers for.
    """
    return [_to_model(message, name) for message in messages]


class ModelReading:
    """Messages as the model of one agent reads them: those that it has read in the turn before are not made again.

    A conversation grows by a few messages a turn. To make all of them anew each time takes longer each time.

    Args:
        name: Of the agent.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._read: list[tuple[Message, LLMMessage]] = []

    def of(self, messages: Sequence[Message]) -> list[LLMMessage]:
        """The messages for the model, see `to_model`."""
        before, read = self._read, list[tuple[Message, LLMMessage]]()
        for place, message in enumerate(messages):
            # A message is a dictionary, which may be changed: it is compared with a copy.
            if place < len(before) and before[place][0] == message:
                read.append(before[place])
            else:
                read.append((_copied(message), _to_model(message, self._name)))
        self._read = read
        return [made for _, made in read]

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelReading:
        """For another conversation: it has read nothing."""
        return ModelReading(self._name)


def _copied(message: Message) -> Message:
    """A copy in which nothing changes with the message; what is only texts is copied at once."""
    is_flat = all(isinstance(value, str) for value in message.values())
    return dict(message) if is_flat else deepcopy(message)


def _to_model(message: Message, name: str) -> LLMMessage:
    role, content = message.get("role", "user"), message.get("content")
    calls = _calls(message)
    if message.get("tool_responses") or role in RESULTS:
        return FunctionExecutionResultMessage(content=_results(message))
    if calls:
        return AssistantMessage(
            content=calls,
            thought=text_of(content) or None,
            source=message.get("name", name),
            vendor=message.get(VENDOR),
        )
    if role in SYSTEM:
        return SystemMessage(content=text_of(content))
    if role == "assistant":
        return AssistantMessage(content=text_of(content), source=message.get("name", name))
    return UserMessage(content=_parts(content), source=message.get("name", "user"))


def _calls(message: Message) -> list[FunctionCall]:
    calls = [
        FunctionCall(
            id=str(call.get("id", "")), name=call["function"]["name"], arguments=call["function"]["arguments"]
        )
        for call in message.get("tool_calls") or ()
    ]
    old = message.get("function_call")
    return [*calls, FunctionCall(id="", name=old["name"], arguments=old["arguments"])] if old else calls


def _results(message: Message) -> list[FunctionExecutionResult]:
    responses = message.get("tool_responses") or [message]
    return [
        FunctionExecutionResult(
            content=text_of(response.get("content")),
            name=response.get("name", ""),
            call_id=response.get("tool_call_id", ""),
            is_error=response.get("is_error"),
        )
        for response in responses
    ]


def _parts(content: Any) -> str | list[str | Image]:
    if not isinstance(content, list):
        return text_of(content)
    return [_part(part) for part in content]


def _part(part: Any) -> str | Image:
    if isinstance(part, dict) and part.get("type") == "image_url":
        given = part["image_url"]
        url = str(given["url"] if isinstance(given, dict) else given)
        return Image(data=url.partition(",")[2]) if url.startswith("data:") else Image(url=url)
    return text_of([part])


def from_model(result: CreateResult) -> Message:
    """The answer of a model, as a message without a name."""
    if isinstance(result.content, str):
        return {"content": result.content, "role": "assistant"}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in result.content
    ]
    made: Message = {"content": result.thought or "", "role": "assistant", "tool_calls": calls}
    if result.vendor is not None:
        made[VENDOR] = result.vendor.model_dump()
    return made


NOTHING = RequestUsage(0, 0)


@dataclass
class ModelUsage:
    """Tokens by the name of the model.

    Attributes:
        paid: Tokens that were paid for.
        cached: Tokens of answers that came from a cache.
        prices: What models cost, where a configuration says so; others cost what the settings of models say.
    """

    paid: dict[str, RequestUsage] = field(default_factory=dict)
    cached: dict[str, RequestUsage] = field(default_factory=dict)
    prices: dict[str, Price] = field(default_factory=dict)

    def add(self, model: str, result: CreateResult) -> None:
        """Count an answer."""
        _add(self.cached if result.cached else self.paid, model, result.usage)

    def merge(self, other: ModelUsage) -> None:
        """Count all that another one has counted."""
        for mine, theirs in ((self.paid, other.paid), (self.cached, other.cached)):
            for model, usage in theirs.items():
                _add(mine, model, usage)
        self.prices.update(other.prices)

    def minus(self, before: ModelUsage) -> ModelUsage:
        """The usage since another one was counted."""
        return ModelUsage(
            _minus(self.paid, before.paid), _minus(self.cached, before.cached), dict(self.prices)
        )

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {"paid": _dump(self.paid), "cached": _dump(self.cached)}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ModelUsage:
        """From what `dump` returned."""
        return cls(_load(data.get("paid", {})), _load(data.get("cached", {})))

    def cost(self) -> dict[str, Any]:
        """In AG2's shape: with and without what came from a cache."""
        whole = ModelUsage(dict(self.paid))
        for model, usage in self.cached.items():
            _add(whole.paid, model, usage)
        return {
            "usage_including_cached_inference": _summary(whole.paid, self.prices),
            "usage_excluding_cached_inference": _summary(self.paid, self.prices),
        }


def added_up(usages: Iterable[ModelUsage]) -> ModelUsage:
    """All of them together."""
    whole = ModelUsage()
    for usage in usages:
        whole.merge(usage)
    return whole


def _add(to: dict[str, RequestUsage], model: str, usage: RequestUsage) -> None:
    to[model] = to.get(model, NOTHING) + usage


def _minus(all: Mapping[str, RequestUsage], before: Mapping[str, RequestUsage]) -> dict[str, RequestUsage]:
    left = {}
    for model, usage in all.items():
        old = before.get(model, NOTHING)
        prompt = usage.prompt_tokens - old.prompt_tokens
        completion = usage.completion_tokens - old.completion_tokens
        if prompt or completion:
            left[model] = RequestUsage(prompt, completion)
    return left


def _dump(usages: Mapping[str, RequestUsage]) -> dict[str, list[int]]:
    return {model: [usage.prompt_tokens, usage.completion_tokens] for model, usage in usages.items()}


def _load(data: Mapping[str, Any]) -> dict[str, RequestUsage]:
    return {model: RequestUsage(int(prompt), int(completion)) for model, (prompt, completion) in data.items()}


def _summary(usages: Mapping[str, RequestUsage], prices: Mapping[str, Price]) -> dict[str, Any]:
    costs = {model: _cost(model, usage, prices) for model, usage in usages.items()}
    summary: dict[str, Any] = {"total_cost": sum(costs.values())}
    for model, usage in usages.items():
        summary[model] = {
            "cost": costs[model],
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
    return summary


def _cost(model: str, usage: RequestUsage, prices: Mapping[str, Price]) -> float:
    price = price_of(model, prices) or price_of(model, DEFAULTS.prices)
    return 0.0 if price is None else price.of(usage)
