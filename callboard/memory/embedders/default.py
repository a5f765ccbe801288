"""The choice of an embedder: the one that a process uses unless it is given another, and the one that starts fastest."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from callboard.memory.errors import EmbeddingModelNotFoundError

from .base import Embedder
from .numpy_bert import NumpyEmbedder
from .sentence_transformer import SentenceTransformerEmbedder
from .weights import default_model_folder


@cache
def default_embedder(model: Path | str | None = None) -> Embedder:
    """The embedder of this process for a model; the same object every time, so that it is loaded once.

    Args:
        model: A folder, or a name where sentence-transformers is installed; None: the default model.

    Returns:
        One on sentence-transformers where it is installed, else one on numpy. Nothing is loaded yet.

    Raises:
        EmbeddingModelNotFoundError: there is no default model, or a name was given and sentence-transformers is missing.
    """
    source = default_model_folder() if model is None else Path(model)
    if has_sentence_transformers():
        return SentenceTransformerEmbedder(source)
    if not source.is_dir():
        raise EmbeddingModelNotFoundError(str(model))
    return NumpyEmbedder(source)


def quick_embedder(model: Path | str | None = None) -> Embedder:
    """An embedder for a few texts: the one that starts fastest, with the same vectors as `default_embedder`.

    Args:
        model: As for `default_embedder`.

    Raises:
        EmbeddingModelNotFoundError: as for `default_embedder`.
    """
    folder = default_model_folder() if model is None else Path(model)
    return NumpyEmbedder(folder) if NumpyEmbedder.can_run(folder) else default_embedder(model)


def has_sentence_transformers() -> bool:
    """Whether sentence-transformers and torch are installed; imports neither."""
    return find_spec("sentence_transformers") is not None and find_spec("torch") is not None
