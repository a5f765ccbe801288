"""The embedder that runs sentence-transformers. The only module that imports it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from callboard.foundation.errors import MissingPackageError
from callboard.memory.errors import EmbeddingError, EmbeddingModelNotFoundError

from .base import EmbeddingModel
from .limit import TextLimit
from .local import LocalEmbedder
from .tokenizing import ENDS, limit_of_folder
from .weights import default_model_folder, name_of_weights

LONGEST_KNOWN: Final = 1_000_000  # tokens; libraries have huge numbers that mean that nobody knows


class SentenceTransformerEmbedder(LocalEmbedder):
    """An embedder that runs a model of sentence-transformers. Nothing is downloaded.

    Args:
        model: A folder, or the name of a model in the local cache; None: the default model.
        device: Such as "cpu" or "cuda"; None: as torch chooses.
        batch_size: Texts that run together.
    """

    def __init__(
        self, model: Path | str | None = None, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        super().__init__()
        self._source = model
        self._device = device
        self._batch_size = batch_size
        self._model: Any = None

    @property
    def source(self) -> Path | str | None:
        """The model, as it was given."""
        return self._source

    async def limit(self) -> TextLimit | None:
        """The longest text that the model reads whole. A folder that tells it is enough; else the model is loaded."""
        source = self._folder()
        if (source / "tokenizer.json").is_file() and (source / "sentence_bert_config.json").is_file():
            return await asyncio.to_thread(limit_of_folder, source)
        await self.load()
        return await asyncio.to_thread(self._limit_of_model)

    def _limit_of_model(self) -> TextLimit | None:
        longest = self._model.max_seq_length
        if longest is None or longest > LONGEST_KNOWN:
            return None
        # One of its own: that of the model cuts texts off, and two threads can't share it.
        tokenizer = copy.deepcopy(self._model.tokenizer)
        return TextLimit(
            int(longest) - ENDS,
            lambda text: len(tokenizer.encode(text, add_special_tokens=False, truncation=False)),
        )

    def _folder(self) -> Path:
        return default_model_folder() if self._source is None else Path(self._source)

    def _load(self) -> EmbeddingModel:
        source = self._folder()
        is_folder = source.is_dir()
        try:
            from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError:
            raise MissingPackageError("sentence-transformers", "embeddings") from None
        name = str(source)
        try:
            with _without_progress_bar():
                self._model = SentenceTransformer(name, device=self._device, local_files_only=True)
        except (OSError, ValueError) as error:
            if not is_folder:
                raise EmbeddingModelNotFoundError(name) from error
            raise EmbeddingError(name, f"it can't be loaded: {error}") from error
        dimension = int(self._model.get_embedding_dimension())
        return EmbeddingModel(name_of_weights(source) if is_folder else name, dimension)

    def _embed(self, texts: list[str]) -> Any:
        return self._model.encode(
            texts, batch_size=self._batch_size, convert_to_numpy=True, show_progress_bar=False
        )


@contextlib.contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Hide the progress bar that transformers draws while it loads weights, even into a program's output."""
    settings = import_module("transformers.utils.logging")
    was_on = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            settings.enable_progress_bar()
