"""Model clients from what AG2 calls an `llm_config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import RecordedChatCompletionClient

from .errors import GroupChatDeclarationError, ModelClientClassError

LLMConfig: TypeAlias = ChatCompletionClient | Mapping[str, Any] | Literal[False] | None
"""A model client; AG2's dictionary; False or None: no model."""

ClientClasses: TypeAlias = type[ChatCompletionClient] | Sequence[type[ChatCompletionClient]] | None

OFFERED: Final = ("tools", "functions")
OPENAI: Final = (
    "api_key",
    "base_url",
    "temperature",
    "top_p",
    "max_tokens",
    "seed",
    "timeout",
    "organization",
)


def client_of(config: LLMConfig, classes: ClientClasses = None) -> ChatCompletionClient | None:
    """The client of a configuration.

    Of a dictionary it is the first entry of `config_list`, or the dictionary itself: "model" with "api_key", "base_url"
    and arguments of the API, or "model_client_cls" with the name of a class, which is called with the entry as its keyword
    arguments.

    Args:
        config: See LLMConfig.
        classes: The classes that it may name.

    Returns:
        None: no model.

    Raises:
        GroupChatDeclarationError: No class has the name, or no model is named (a ValueError).
        ModelClientClassError: Several classes have the name (a RuntimeError).
    """
    if not config:
        return None
    if isinstance(config, ChatCompletionClient):
        return config
    entries = config.get("config_list") or [config]
    entries = [entries] if isinstance(entries, Mapping) else entries
    entry = {**{key: value for key, value in config.items() if key in OPENAI}, **entries[0]}
    name = entry.pop("model_client_cls", None)
    if name:
        return _class_named(name, classes)(**entry)
    if not entry.get("model"):
        raise GroupChatDeclarationError("The configuration of a model names no model.")
    return _openai(entry)


def offers_tools(config: LLMConfig) -> bool:
    """Whether a configuration offers tools to its model."""
    return isinstance(config, Mapping) and any(config.get(key) for key in OFFERED)


def recorded(client: ChatCompletionClient) -> ChatCompletionClient:
    """The client whose answers are recorded inside a handler of the bus; elsewhere it is as without."""
    return (
        client if isinstance(client, RecordedChatCompletionClient) else RecordedChatCompletionClient(client)
    )


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
    from callboard.models.openai import OpenAIChatCompletionClient

    options = {key: value for key, value in entry.items() if key in (*OPENAI, "model")}
    return OpenAIChatCompletionClient(**options)
