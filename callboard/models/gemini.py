"""The client for Google's Gemini API."""

from __future__ import annotations

from typing import Final

from .makers.client import MakerChatCompletionClient, MakerClientConfig
from .makers.maker import Maker, MakerConnection, OpenModel

__all__ = ["GeminiChatCompletionClient", "MakerClientConfig"]


def _open(connection: MakerConnection) -> OpenModel:
    from google.genai import Client
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    http = connection.http()
    options = HttpOptions(
        base_url=connection.base_url,
        headers=dict(connection.default_headers),
        timeout=round(connection.timeout * 1000),
        httpx_async_client=http,
    )
    client = Client(vertexai=False, api_key=connection.api_key, http_options=options)
    return OpenModel(GoogleModel(connection.model, provider=GoogleProvider(client=client)), http.aclose)


GEMINI: Final = Maker(
    name="Gemini",
    package="google.genai",
    module="pydantic_ai.models.google",
    address="https://generativelanguage.googleapis.com",
    address_variable="GOOGLE_GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    arguments={
        "top_k": "top_k",
        "seed": "seed",
        "stop_sequences": "stop_sequences",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "thinking_config": "google_thinking_config",
        "safety_settings": "google_safety_settings",
        "labels": "google_labels",
        "cached_content": "google_cached_content",
        "service_tier": "service_tier",
    },
    lacks=frozenset({"extra_body", "parallel_tool_calls"}),
    fetches_images=True,
    open=_open,
)


class GeminiChatCompletionClient(MakerChatCompletionClient):
    """A client for a Gemini, by Google's own API; needs the extra `providers`.

    Args:
        model: its name, such as "gemini-3-flash".
        api_key: default: GEMINI_API_KEY, else GOOGLE_API_KEY.
        base_url: default: GOOGLE_GEMINI_BASE_URL, else Google's own.
        max_tokens: that an answer may have, thoughts included; default: as the model has it.
        temperature: and top_p, top_k, seed, stop_sequences, presence_penalty, frequency_penalty, labels, service_tier: as
            Google's reference has them.
        thinking_config: how it thinks, such as ``{"thinking_level": "low", "include_thoughts": True}``.
        safety_settings: what is to be blocked, as Google's reference has it.
        cached_content: the name of a cache that was made before.
        shared: extra_headers, and the options of `MakerChatCompletionClient`.
    """

    maker = GEMINI
    component_provider_override = "callboard.models.gemini.GeminiChatCompletionClient"
