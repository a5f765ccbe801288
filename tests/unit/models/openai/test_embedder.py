"""Embeddings over real sockets."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from callboard.memory.embedders import EmbeddingModel
from callboard.models.errors import AuthenticationError, BadResponseError
from callboard.models.info import ModelSettings
from callboard.models.openai import OpenAIEmbedder
from callboard.models.retries import ModelRetries
from tests.helpers.openai_server import Asked, OpenAIServer, rate_limited

QUICK = ModelRetries(ModelSettings(retry_base=0.01, retry_cap=0.02))


class Vectors:
    """Answers every text with (length, 1), in reverse order; `missing` leaves out so many."""

    def __init__(self, missing: int = 0) -> None:
        self.missing = missing

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        texts = asked.body["input"]
        rows: list[dict[str, Any]] = [
            {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        data = list(reversed(rows))[self.missing :]
        return JSONResponse({"object": "list", "data": data, "model": "m", "usage": usage})


@pytest.fixture
def server(server: OpenAIServer) -> OpenAIServer:
    server.default = Vectors()
    return server


def embedder(server: OpenAIServer, **options: Any) -> OpenAIEmbedder:
    model = options.pop("model", "small")
    return OpenAIEmbedder(model, base_url=server.url, retries=QUICK, **options)


async def test_texts_come_back_in_their_order_with_length_one(server: OpenAIServer) -> None:
    made = embedder(server, batch_size=2)
    vectors = await made.embed(["aaa", "", "aaaa"])
    assert vectors.shape == (3, 2)
    assert vectors[0] == pytest.approx([3 / 10**0.5, 1 / 10**0.5])
    assert vectors[1][0] == vectors[1][1]  # an empty text is sent as a space
    assert await made.load() == EmbeddingModel("small", 2)
    assert [asked.body["input"] for asked in server.requests] == [["dimension"], ["aaa", " "], ["aaaa"]]
    assert (await made.embed([])).shape == (0, 2)
    await made.close()


async def test_shorter_vectors_are_asked_for_where_that_works(server: OpenAIServer) -> None:
    made = embedder(server, model="text-embedding-3-large", dimension=2)
    await made.embed(["a"])
    assert server.requests[0].body["dimensions"] == 2
    assert (await OpenAIEmbedder("text-embedding-3-small", base_url=server.url).load()).dimension == 1536
    await made.close()


async def test_a_limit_is_waited_for(server: OpenAIServer) -> None:
    server.script(rate_limited(retry_after=0))
    made = embedder(server, dimension=2)
    assert (await made.embed(["a"])).shape == (1, 2)
    assert len(server.requests) == 2
    await made.close()


async def test_an_answer_that_does_not_fit_is_an_error(server: OpenAIServer) -> None:
    server.default = Vectors(missing=1)
    made = embedder(server, dimension=2)
    with pytest.raises(BadResponseError):
        await made.embed(["a", "b"])
    await made.close()


def test_without_a_key_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        OpenAIEmbedder()


async def test_how_much_of_a_text_it_reads(server: OpenAIServer) -> None:
    assert await embedder(server).limit() is None, "nothing is known of other servers"
    known = await embedder(server, model="text-embedding-3-small").limit()
    assert known is not None
    assert 5_000 < known.tokens <= 8_191
    given = await embedder(server, max_input_tokens=512).limit()
    assert given is not None
    assert given.tokens <= 512, "a part of it, as tokens are only estimated"
    assert given.count("some words") > 0
