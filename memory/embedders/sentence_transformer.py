"""The embedder that runs sentence-transformers. The only module that imports it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from callboard.foundation.errors import MissingPackageError
from callboard.memory.errors import EmbeddingError, EmbeddingModelNotFoundError

from .base import EmbeddingModel
from .local import LocalEmbedder
from .weights import default_model_folder, name_of_weights


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

    def _load(self) -> EmbeddingModel:
        source = default_model_folder() if self._source is None else Path(self._source)
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
