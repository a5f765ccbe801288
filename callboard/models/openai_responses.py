"""The client for OpenAI's Responses API."""

from __future__ import annotations

from typing import Final

from .makers.client import MakerChatCompletionClient, MakerClientConfig
from .makers.maker import Maker, MakerConnection, OpenModel

__all__ = ["MakerClientConfig", "OpenAIResponsesChatCompletionClient"]


def _open(connection: MakerConnection) -> OpenModel:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(
        api_key=connection.api_key,
        base_url=connection.base_url,
        timeout=connection.http_timeout(),
        max_retries=0,
        default_headers=dict(connection.default_headers),
        http_client=connection.http(),
    )
    # The conversation is ours to keep: what is thought comes sealed with the answer, and goes back with it.
    settings = OpenAIResponsesModelSettings(openai_store=False)
    provider = OpenAIProvider(openai_client=client)
    return OpenModel(
        OpenAIResponsesModel(connection.model, provider=provider, settings=settings), client.close
    )


RESPONSES: Final = Maker(
    name="OpenAI",
    package="openai",
    module="pydantic_ai.models.openai",
    address="https://api.openai.com/v1",
    address_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    arguments={
        "reasoning_effort": "openai_reasoning_effort",
        "reasoning_summary": "openai_reasoning_summary",
        "verbosity": "openai_text_verbosity",
        "truncation": "openai_truncation",
        "store": "openai_store",
        "user": "openai_user",
        "service_tier": "openai_service_tier",
        "prompt_cache_key": "openai_prompt_cache_key",
        "prompt_cache_retention": "openai_prompt_cache_retention",
    },
    open=_open,
)


class OpenAIResponsesChatCompletionClient(MakerChatCompletionClient):
    """A client for a model of OpenAI, by its Responses API; needs the extra `providers`.

    In a loop of tools a thinking model goes on with its thoughts there, which the chat API has no place for.

    Args:
        model: its name, such as "gpt-5.6".
        api_key: default: OPENAI_API_KEY.
        base_url: default: OPENAI_BASE_URL, else OpenAI's own.
        max_tokens: that an answer may have, thoughts included; default: as the model has it.
        temperature: and top_p, verbosity, truncation, user, service_tier, prompt_cache_key, prompt_cache_retention: as
            OpenAI's reference has them.
        reasoning_effort: how much it thinks, such as "low".
        reasoning_summary: the summary of its thoughts that comes with the answer: "auto", "concise" or "detailed"; default:
            none.
        store: whether OpenAI keeps the answers; default: False, unlike OpenAI's, as they are kept with the agent's messages.
        shared: parallel_tool_calls, extra_headers, extra_body, and the options of `MakerChatCompletionClient`.
    """

    maker = RESPONSES
    component_provider_override = "callboard.models.openai_responses.OpenAIResponsesChatCompletionClient"
