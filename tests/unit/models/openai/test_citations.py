"""Sources that a server names are kept with the answer, and speech is refused or read: both were lost."""

from __future__ import annotations

import json

import pytest

from callboard.agents import AssistantAgent
from callboard.models import CreateResult, UserMessage
from callboard.models.errors import BadRequestError
from tests.helpers.openai_server import Answer, OpenAIServer

from .conftest import MakeClient

PAGE = {
    "type": "url_citation",
    "url_citation": {"url": "https://example.org/sea", "title": "The sea", "start_index": 0, "end_index": 6},
}
ASKED = [UserMessage(content="How deep?", source="ada")]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_sources_stand_in_the_metadata_of_the_message(
    server: OpenAIServer, make: MakeClient, stream: bool
) -> None:
    server.script(Answer("11 km.", beside={"annotations": [PAGE]}))
    ada = AssistantAgent("ada", make(), model_client_stream=stream)
    result = await ada.run(task="How deep?")
    assert json.loads(result.messages[-1].metadata["citations"]) == [PAGE]


async def test_they_cross_json_and_are_nothing_where_there_are_none(
    server: OpenAIServer, make: MakeClient
) -> None:
    client = make()
    server.script(Answer("11 km.", beside={"citations": ["https://example.org"]}), Answer("11 km."))
    result = await client.create(ASKED)
    assert CreateResult.model_validate_json(result.model_dump_json()).citations == ["https://example.org"]
    assert "citations" not in (await client.create(ASKED)).model_dump()


@pytest.mark.parametrize(
    "arguments", [{"audio": {"voice": "alloy", "format": "wav"}}, {"modalities": ["text", "audio"]}]
)
async def test_speech_is_refused_before_anything_is_paid(
    server: OpenAIServer, make: MakeClient, arguments: dict[str, object]
) -> None:
    with pytest.raises(BadRequestError, match="messages carry no speech"):
        make(**arguments)
    with pytest.raises(BadRequestError, match="messages carry no speech"):
        await make().create(ASKED, extra_create_args=arguments)
    assert not server.requests


@pytest.mark.parametrize("stream", [False, True])
async def test_of_speech_that_comes_unasked_the_transcript_is_the_answer(
    server: OpenAIServer, make: MakeClient, stream: bool
) -> None:
    server.script(Answer(beside={"audio": {"id": "a1", "data": "UklGRg==", "transcript": "11 km."}}))
    client = make()
    if stream:
        *_, result = [item async for item in client.create_stream(ASKED)]
    else:
        result = await client.create(ASKED)
    assert isinstance(result, CreateResult)
    assert result.content == "11 km."
