"""Embeddings of OpenAI, Azure, and every server with their API, for long-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Unpack

from callboard.memory.embedders import EmbeddingModel, TextLimit, Vectors, as_vectors
from callboard.models.errors import BadResponseError
from callboard.models.types import ModelFamily

from .connection import Session, connection_of
from .settings import OpenAIOptions, cached_tokenizer, count_text, retries_of

DIMENSIONS: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
READ: Final = 8_191  # tokens of a text, by OpenAI's models
ESTIMATED: Final = 0.7  # of the tokens that are read, where they can only be estimated
BATCH: Final = 256  # texts in one request; the API takes 2,048


class OpenAIEmbedder:
    """An embedder that asks a server; a `callboard.memory.Embedder`.

    Args:
        model: its name there.
        dimension: numbers in a vector. The models called text-embedding-3-... make shorter ones when asked; for others
            it has to be the length of theirs. Default: the known length of the model, else that of its first answer.
        batch_size: most texts in one request.
        max_input_tokens: the most tokens of a text that the model reads. Default: that of OpenAI's models; for others none
            is known, and their server refuses a longer text or cuts it off.
        options: where the server is and how it is asked, as OpenAIChatCompletionClient takes it: api_key, base_url,
            timeout, retries, azure_endpoint and so on.

    Raises:
        AuthenticationError: there is no key for a server that needs one.
        SettingValueError: a value that can't work.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimension: int | None = None,
        batch_size: int = BATCH,
        max_input_tokens: int | None = None,
        **options: Unpack[OpenAIOptions],
    ) -> None:
        self._name = model
        self._dimension = dimension or DIMENSIONS.get(model)
        self._is_shortened = dimension is not None and model.startswith("text-embedding-3-")
        self._batch_size = batch_size
        self._max_tokens = max_input_tokens or (READ if model in DIMENSIONS else None)
        self._session = Session(model, connection_of(model, options))
        self._retries = retries_of(options)

    async def load(self) -> EmbeddingModel:
        """The model; asks the server once when the length of its vectors was not given.

        Raises:
            ModelError: the server can't be asked.
        """
        if self._dimension is None:
            [row] = await self._retries.call(partial(self._ask, ["dimension"]), None)
            self._dimension = len(row)
        return EmbeddingModel(self._name, self._dimension)

    async def limit(self) -> TextLimit | None:
        """The longest text that the model reads; None: not known."""
        if self._max_tokens is None:
            return None
        tokenizer = cached_tokenizer(ModelFamily.GPT_4) if self._name in DIMENSIONS else None
        share = 1.0 if tokenizer is not None else ESTIMATED
        return TextLimit(int(self._max_tokens * share), partial(count_text, tokenizer=tokenizer))

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder.

        Raises:
            ModelError: the request failed, after further attempts where these help.
        """
        model = await self.load()
        rows: list[Any] = []
        for start in range(0, len(texts), self._batch_size):
            batch = list(texts[start : start + self._batch_size])
            rows += await self._retries.call(partial(self._ask, batch), None)
        return as_vectors(rows, len(texts), model)

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        client = await self._session.opened()
        shortened: dict[str, Any] = {"dimensions": self._dimension} if self._is_shortened else {}
        with self._session.typed_errors():
            # OpenAI refuses an empty text.
            answer = await client.embeddings.create(
                model=self._name, input=[text or " " for text in texts], encoding_format="float", **shortened
            )
        rows = sorted(answer.data or [], key=lambda one: one.index)
        if len(rows) != len(texts):
            raise BadResponseError(self._name, f"it answered {len(texts)} texts with {len(rows)} vectors")
        return [one.embedding for one in rows]

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()
