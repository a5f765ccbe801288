"""The client for Anthropic's own API, with AutoGen's name and arguments."""

from __future__ import annotations

from typing import Final

from .makers.client import MakerChatCompletionClient, MakerClientConfig
from .makers.maker import Maker, MakerConnection, OpenModel

__all__ = ["AnthropicChatCompletionClient", "MakerClientConfig"]


def _open(connection: MakerConnection) -> OpenModel:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=connection.api_key,
        base_url=connection.base_url,
        timeout=connection.http_timeout(),
        max_retries=0,
        default_headers=dict(connection.default_headers),
        http_client=connection.http(),
    )
    model = AnthropicModel(connection.model, provider=AnthropicProvider(anthropic_client=client))
    return OpenModel(model, client.close)


ANTHROPIC: Final = Maker(
    name="Anthropic",
    package="anthropic",
    module="pydantic_ai.models.anthropic",
    address="https://api.anthropic.com",
    address_variable="ANTHROPIC_BASE_URL",
    key_variables=("ANTHROPIC_API_KEY",),
    arguments={
        "top_k": "top_k",
        "stop_sequences": "stop_sequences",
        "metadata": "anthropic_metadata",
        "thinking": "anthropic_thinking",
        "effort": "anthropic_effort",
        "betas": "anthropic_betas",
        "cache": "cache",
        "service_tier": "anthropic_service_tier",
    },
    open=_open,
)


class AnthropicChatCompletionClient(MakerChatCompletionClient):
    """A client for a Claude, by Anthropic's own API; needs the extra `providers`.

    Args:
        model: its name, such as "claude-sonnet-4-6".
        api_key: default: ANTHROPIC_API_KEY.
        base_url: default: ANTHROPIC_BASE_URL, else Anthropic's own.
        max_tokens: that an answer may have; default: what the model can, as far as pydantic-ai knows it.
        temperature: and top_p, top_k, stop_sequences, metadata, service_tier, betas: as Anthropic's reference has them.
        thinking: ``{"type": "enabled", "budget_tokens": 2048}``, or ``{"type": "adaptive"}`` for the newer models.
        effort: how much those think: "low" to "max".
        cache: True, "5m" or "1h": the conversation is kept in Anthropic's cache, so that the next request of it costs less.
        shared: parallel_tool_calls, extra_headers, extra_body, and the options of `MakerChatCompletionClient`.
    """

    maker = ANTHROPIC
    component_provider_override = "callboard.models.anthropic.AnthropicChatCompletionClient"
