"""A client of OpenAI's API as plain data, with the fields that AutoGen writes, and back."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr

from callboard.foundation.component import (
    ComponentLoader,
    ComponentModel,
    ComponentNotAllowedError,
    NotDumpableError,
    dumped,
    harmless,
    permissions,
    revealed,
)
from callboard.models.family import ModelFamily
from callboard.models.info import ModelCapabilities, ModelInfo

from .connection import NO_KEY, OPENAI_ADDRESS, VENDORS
from .settings import OpenAIOptions, ToolMode

# Objects of the program, which JSON does not have.
ONLY_HERE: Final = ("http_client", "retries", "tokenizer")


class OpenAIClientConfigurationConfigModel(BaseModel):
    """The options of an `OpenAIChatCompletionClient`, which explains them.

    Further arguments of the API, such as temperature, stand beside them. Keys, tokens and headers with a secret are in
    no dump. `model_capabilities` is read because older programs of AutoGen wrote it.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    __pydantic_extra__: dict[str, JsonValue]  # pyright: ignore[reportIncompatibleVariableOverride]
    secret_fields: ClassVar = ("api_key", "azure_ad_token")

    model: str
    api_key: SecretStr | None = None
    base_url: str | None = None
    organization: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    max_corrections: int | None = None
    default_headers: dict[str, str] | None = None
    model_info: ModelInfo | None = None
    model_capabilities: ModelCapabilities | None = None
    token_limit: int | None = None
    parallel_tool_calls: bool | None = None
    tool_mode: ToolMode | None = None
    include_name_in_message: bool | None = None
    add_name_prefixes: bool | None = None
    include_stream_usage: bool | None = None
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: SecretStr | None = None
    azure_ad_token_provider: ComponentModel | None = None


class AzureOpenAIClientConfigurationConfigModel(OpenAIClientConfigurationConfigModel):
    """The same, by AutoGen's name for a deployment in Azure."""


def config_of(
    client: object, model: str, options: OpenAIOptions
) -> AzureOpenAIClientConfigurationConfigModel:
    """The options of a client as plain data, without its secrets.

    Args:
        client: The client, for errors.
        model: Its model.
        options: As it was made with.

    Raises:
        NotDumpableError: An option is an object of this program (a TypeError).
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    unwritable: list[str] = [name for name in ONLY_HERE if name in given]
    if isinstance(given.get("response_format"), type):
        unwritable.append("response_format")
    if unwritable:
        reason = (
            f"{', '.join(unwritable)} can't be written down: leave it out, or set it where the dump is loaded"
        )
        raise NotDumpableError(type(client).__qualname__, reason)
    for name in AzureOpenAIClientConfigurationConfigModel.secret_fields:
        given.pop(name, None)
    for name in ("default_headers", "extra_headers", "extra_query"):
        if name in given:
            given[name] = harmless(given[name])
    if "azure_ad_token_provider" in given:
        given["azure_ad_token_provider"] = dumped(given["azure_ad_token_provider"], client)
    return AzureOpenAIClientConfigurationConfigModel(model=model, **given)


def options_of(config: OpenAIClientConfigurationConfigModel) -> dict[str, Any]:
    """The arguments of the client that a config describes.

    Keys that it does not have come from the environment, but go only to OpenAI, the vendor of the model, the addresses
    that the environment names, and the `hosts` of `load_component`: a config from elsewhere could name any address.

    Raises:
        ComponentNotAllowedError: It is of a deployment in Azure that neither the environment nor `hosts` names.
    """
    given = {**config.model_dump(exclude_none=True), **(config.__pydantic_extra__ or {})}
    options = {name: value for name, value in given.items() if value is not None}
    for name in config.secret_fields:
        options.pop(name, None)
        if secret := revealed(getattr(config, name)):
            options[name] = secret
    if capabilities := options.pop("model_capabilities", None):
        options.setdefault("model_info", _info_of(capabilities))
    if config.azure_ad_token_provider is not None:
        provider = ComponentLoader.load_component(config.azure_ad_token_provider)
        options["azure_ad_token_provider"] = provider
    return _with_key(config.model, options)


def _info_of(capabilities: ModelCapabilities) -> ModelInfo:
    return cast(
        "ModelInfo",
        {"family": ModelFamily.UNKNOWN, "structured_output": False, **capabilities},
    )


def _with_key(model: str, options: dict[str, Any]) -> dict[str, Any]:
    endpoint, address = options.get("azure_endpoint"), options.get("base_url")
    if endpoint and not _is_trusted(endpoint, os.environ.get("AZURE_OPENAI_ENDPOINT")):
        host = urlsplit(endpoint).hostname or endpoint
        raise ComponentNotAllowedError(f"sending the keys of this environment to {host}", "hosts", host)
    if not address or options.get("api_key"):
        return options
    vendor = next((there for prefix, (there, _) in VENDORS.items() if model.startswith(prefix)), None)
    if address == vendor:
        return {name: value for name, value in options.items() if name != "base_url"}
    if _is_trusted(address, OPENAI_ADDRESS, os.environ.get("OPENAI_BASE_URL")):
        return options
    return {**options, "api_key": NO_KEY}


def _is_trusted(address: str, *known: str | None) -> bool:
    if address.rstrip("/") in {one.rstrip("/") for one in known if one}:
        return True
    return urlsplit(address).hostname in permissions().hosts
