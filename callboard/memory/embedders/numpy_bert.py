"""The models of sentence-transformers without torch: numpy, safetensors and tokenizers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from callboard.memory.errors import EmbeddingModelNotFoundError, ModelUnsupportedError

from .base import EmbeddingModel, Vectors
from .limit import TextLimit
from .local import LocalEmbedder
from .tokenizing import ENDS, file_in, load_tokenizer, longest_of, package, read_json
from .weights import name_of_weights

if TYPE_CHECKING:
    from .bert import Bert, BertShape

MOST_THREADS: Final = 4


class NumpyEmbedder(LocalEmbedder):
    """An embedder that runs BERT models with mean pooling, such as all-MiniLM-L6-v2, on the CPU.

    Its vectors are those of sentence-transformers (cosine above 0.99999), so a store made with one opens with the
    other. It starts in a tenth of a second and needs a quarter of the memory, and is slower with many texts at once.

    Args:
        folder: With config.json, tokenizer.json and model.safetensors.
        batch_size: Texts that run together.
        threads: In which it may run at once; None: one for each core, at most four.
    """

    def __init__(self, folder: Path | str, *, batch_size: int = 32, threads: int | None = None) -> None:
        super().__init__(threads or min(MOST_THREADS, os.cpu_count() or 1))
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
            self._tokenizer = load_tokenizer(self._folder)
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    async def limit(self) -> TextLimit:
        """The longest text that the model reads whole. Loads the tokenizer only."""
        longest = await asyncio.to_thread(self._longest)
        return TextLimit(longest - ENDS, self.count_tokens)

    def _longest(self) -> int:
        self.count_tokens("")
        return longest_of(self._folder)

    def _load(self) -> EmbeddingModel:
        folder = self._folder
        if not folder.is_dir():
            raise EmbeddingModelNotFoundError(str(folder))
        shape = _shape(folder)
        safetensors = package("safetensors.numpy")
        from .bert import Bert

        self._bert = Bert(safetensors.load_file(file_in(folder, "model.safetensors")), shape)
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(folder)
        return EmbeddingModel(name_of_weights(folder), self._bert.width)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        limit = longest_of(self._folder)
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

    config = read_json(folder, "config.json")
    for setting, wanted in (("model_type", "bert"), ("hidden_act", "gelu")):
        if config.get(setting) != wanted:
            raise ModelUnsupportedError(str(folder), f"its {setting} is {config.get(setting)}, not {wanted}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ModelUnsupportedError(str(folder), "its positions are relative")
    pooling = read_json(folder, "1_Pooling/config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
    if modes != ["pooling_mode_mean_tokens"]:
        raise ModelUnsupportedError(
            str(folder), f"its pooling is {', '.join(modes) or 'not said'}, not the mean"
        )
    return BertShape(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])
