"""Model clients from what AG2 calls an `llm_config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from callboard.models.base import ChatCompletionClient
from callboard.models.info import ModelInfo, known_model

from .errors import GroupChatDeclarationError, ModelClientClassError

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
    takes tools and answers with JSON, unless "model_info" says otherwise. What only AG2 knows ("tags", "price",
    "cache_seed") is left out.

    Args:
        config: See ModelConfig.
        classes: The classes that it may name.

    Returns:
        None: no model.

    Raises:
        GroupChatDeclarationError: No class has the name, no model is named, or there is no client for the "api_type" (a
            ValueError).
        ModelClientClassError: Several classes have the name (a RuntimeError).
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
        raise ModelClientClassError(name)
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
