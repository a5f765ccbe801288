"""The models of sentence-transformers without torch: numpy, safetensors and tokenizers."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callboard.foundation.errors import MissingPackageError
from callboard.memory.errors import EmbeddingModelNotFoundError, ModelUnsupportedError

from .base import EmbeddingModel, Vectors
from .local import LocalEmbedder
from .weights import name_of_weights

if TYPE_CHECKING:
    from .bert import Bert, BertShape

DEFAULT_TOKENS = 512


class NumpyEmbedder(LocalEmbedder):
    """An embedder that runs BERT models with mean pooling, such as all-MiniLM-L6-v2, on the CPU.

    Its vectors are those of sentence-transformers (cosine above 0.99999), so a store made with one opens with the
    other. It starts in a tenth of a second and needs a quarter of the memory, and is slower with many texts at once.

    Args:
        folder: With config.json, tokenizer.json and model.safetensors.
        batch_size: Texts that run together.
    """

    def __init__(self, folder: Path | str, *, batch_size: int = 32) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._batch_size = batch_size
        self._bert: Bert
        self._tokenizer: Any = None

    @staticmethod
    def can_run(folder: Path) -> bool:
        """Whether the folder holds a model that this class can run. Loads nothing."""
        if not (folder / "model.safetensors").is_file() or not (folder / "tokenizer.json").is_file():
            return False
        try:
            _shape(folder)
        except ModelUnsupportedError:
            return False
        return True

    def count_tokens(self, text: str) -> int:
        """How many tokens the model sees of a text, without the two at its ends. Loads what it needs."""
        if self._tokenizer is None:
            self._tokenizer = _tokenizer(self._folder)
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _load(self) -> EmbeddingModel:
        folder = self._folder
        if not folder.is_dir():
            raise EmbeddingModelNotFoundError(str(folder))
        shape = _shape(folder)
        safetensors = _package("safetensors.numpy")
        from .bert import Bert

        self._bert = Bert(safetensors.load_file(_file(folder, "model.safetensors")), shape)
        if self._tokenizer is None:
            self._tokenizer = _tokenizer(folder)
        return EmbeddingModel(name_of_weights(folder), self._bert.width)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        limit = _longest(self._folder)
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        encoded = [ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]] for ids in encoded]
        # Texts of one length together: a batch is as long as its longest.
        order = sorted(range(len(texts)), key=lambda number: len(encoded[number]))
        vectors = np.empty((len(texts), self._bert.width), dtype=np.float32)
        for start in range(0, len(order), self._batch_size):
            chosen = order[start : start + self._batch_size]
            vectors[chosen] = self._bert.mean_vectors(*_padded([encoded[number] for number in chosen]))
        return vectors


def _padded(batch: list[list[int]]) -> tuple[Any, Any]:
    import numpy as np

    longest = max(map(len, batch))
    ids = np.zeros((len(batch), longest), dtype=np.int64)
    mask = np.zeros((len(batch), longest), dtype=np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def _shape(folder: Path) -> BertShape:
    """The shape that config.json tells; a model that the forward pass does not fit is refused."""
    from .bert import BertShape

    config = _json(folder, "config.json")
    for setting, wanted in (("model_type", "bert"), ("hidden_act", "gelu")):
        if config.get(setting) != wanted:
            raise ModelUnsupportedError(str(folder), f"its {setting} is {config.get(setting)}, not {wanted}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ModelUnsupportedError(str(folder), "its positions are relative")
    pooling = _json(folder, "1_Pooling/config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
    if modes != ["pooling_mode_mean_tokens"]:
        raise ModelUnsupportedError(
            str(folder), f"its pooling is {', '.join(modes) or 'not said'}, not the mean"
        )
    return BertShape(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


def _longest(folder: Path) -> int:
    """Tokens after which a text is cut."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return DEFAULT_TOKENS
    return int(_json(folder, path.name).get("max_seq_length") or DEFAULT_TOKENS)


def _tokenizer(folder: Path) -> Any:
    tokenizer = _package("tokenizers").Tokenizer.from_file(str(_file(folder, "tokenizer.json")))
    # The lengths in the file are for training; sentence_bert_config.json has the limit.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _json(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_file(folder, name).read_text("utf-8"))
    return found


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ModelUnsupportedError(str(folder), f"it has no {name}")
    return path


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPackageError(name.partition(".")[0], "memory") from None
