"""Embedders without a model: hashing and functions, and what numpy refuses to run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callboard.memory import EmbeddingModel, FunctionEmbedder, HashingEmbedder, NumpyEmbedder
from callboard.memory.errors import MemoryFailedError, MemoryUnusableError
from callboard.memory.local_embedders import default_model_folder, name_of_weights


async def test_hashing_is_about_words() -> None:
    vectors = await HashingEmbedder().embed(["my very red apple", "a very red apple", "some blue cars", ""])

    assert vectors.shape == (4, 256)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    alike, unlike = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert alike > 0.5 > 0.3 > abs(unlike)
    assert (await HashingEmbedder().embed([])).shape == (0, 256)


async def test_hashing_is_the_same_everywhere() -> None:
    embedder = HashingEmbedder(64)
    first = await embedder.embed(["some text"])
    embedder.close()

    assert (first == await embedder.embed(["some text"])).all()
    assert await embedder.load() == EmbeddingModel("hashing-64", 64)


async def test_a_function_gets_texts_in_batches() -> None:
    calls: list[list[str]] = []

    async def function(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        return [[3.0, float(len(text))] for text in texts]

    embedder = FunctionEmbedder(function, model="lengths", dimension=2, batch_size=2)
    vectors = await embedder.embed(["", "abcd", "a"])

    assert calls == [["", "abcd"], ["a"]]
    assert vectors[1] == pytest.approx([0.6, 0.8])
    assert await embedder.load() == EmbeddingModel("lengths", 2)
    assert (await embedder.embed([])).shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([[1.0, 2.0]], r"the shape \(1, 2\) instead of \(1, 3\)"),
        ([[1.0, 2.0, 3.0]] * 2, r"the shape \(2, 3\) instead of \(1, 3\)"),
        ([[1.0, float("nan"), 3.0]], "numbers that are not finite"),
    ],
)
async def test_vectors_that_cannot_be_are_refused(rows: Any, reason: str) -> None:
    async def function(texts: list[str]) -> Any:
        return rows

    with pytest.raises(MemoryFailedError, match=f"the embedding model odd failed: it returned {reason}"):
        await FunctionEmbedder(function, model="odd", dimension=3).embed(["a"])


def test_models_are_told_apart_by_their_weights() -> None:
    one = EmbeddingModel("here@12ab", 3)

    assert one.makes_vectors_of(EmbeddingModel("there@12ab", 3))
    assert not one.makes_vectors_of(EmbeddingModel("here@34cd", 3))
    assert not one.makes_vectors_of(EmbeddingModel("here@12ab", 4))
    assert str(one) == "here@12ab (3 numbers)"


def test_the_name_of_weights_does_not_depend_on_where_they_are(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"x" * 1000)
    names = [name_of_weights(tmp_path / name).partition("@") for name in ("a", "b")]
    (tmp_path / "b" / "model.safetensors").write_bytes(b"x" * 999 + b"y")

    assert names[0][2] == names[1][2] != name_of_weights(tmp_path / "b").partition("@")[2]
    assert [name[0] for name in names] == ["a", "b"]
    assert name_of_weights(tmp_path) == tmp_path.name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small files of the default model."""
    source = default_model_folder()
    (tmp_path / "1_Pooling").mkdir()
    for name in ("config.json", "tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        shutil.copy(source / name, tmp_path / name)
    return tmp_path


def change(file: Path, **settings: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MemoryUnusableError, match="is not on this machine: name a folder"):
        await NumpyEmbedder(tmp_path / "none").load()


async def test_a_missing_file_is_an_error(folder: Path) -> None:
    with pytest.raises(MemoryUnusableError, match=r"it has no model\.safetensors"):
        await NumpyEmbedder(folder).load()
    assert not NumpyEmbedder.can_run(folder)


@pytest.mark.parametrize(
    ("file", "settings", "reason"),
    [
        ("config.json", {"model_type": "mpnet"}, "its model_type is mpnet, not bert"),
        ("config.json", {"hidden_act": "relu"}, "its hidden_act is relu, not gelu"),
        ("config.json", {"position_embedding_type": "relative_key"}, "its positions are relative"),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}, "its pooling is .*, not the mean"),
    ],
)
async def test_models_that_numpy_alone_cannot_run(
    folder: Path, file: str, settings: dict[str, Any], reason: str
) -> None:
    change(folder / file, **settings)
    (folder / "model.safetensors").touch()

    with pytest.raises(MemoryUnusableError, match=f"{reason}. With sentence-transformers it runs"):
        await NumpyEmbedder(folder).load()
    assert not NumpyEmbedder.can_run(folder)


def test_tokens_are_counted_without_the_weights(folder: Path) -> None:
    embedder = NumpyEmbedder(folder)

    assert embedder.count_tokens("Hello, world!") == 4
    assert embedder.count_tokens("") == 0
