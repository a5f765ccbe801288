"""The forward pass of BERT encoders in numpy: token ids to one vector for each text.

Follows Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018): post-norm layers, exact GELU, learned
positions; then the mean over the tokens and length 1, as sentence-transformers does for the MiniLM models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Integers = NDArray[np.int64]

OUT_OF_REACH = np.float32(-1e9)  # added to the scores of padding, so that nothing attends to it


@dataclass(frozen=True, slots=True)
class BertShape:
    """The shape of the encoder, as config.json has it.

    Attributes:
        layers: how many.
        heads: attention heads of each.
        epsilon: added to variances.
    """

    layers: int
    heads: int
    epsilon: float


class Bert:
    """An encoder with its weights.

    Args:
        weights: By the names that safetensors files of BERT have.
        shape: The numbers that the weights don't tell.
    """

    def __init__(self, weights: Mapping[str, Any], shape: BertShape) -> None:
        self._weights: dict[str, Floats] = {
            name.removeprefix("bert."): np.ascontiguousarray(value, dtype=np.float32)
            for name, value in weights.items()
            if np.asarray(value).dtype.kind == "f"
        }
        self._shape = shape

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return int(self._weights["embeddings.word_embeddings.weight"].shape[1])

    def mean_vectors(self, ids: Integers, mask: Integers) -> Floats:
        """One vector for each text, of length 1.

        Args:
            ids: Token ids, (texts, tokens).
            mask: 1 where there is a token, 0 where there is padding, (texts, tokens).

        Returns:
            (texts, width)
        """
        seen = mask.astype(np.float32)
        hidden = self._embedded(ids)
        bias = ((1.0 - seen) * OUT_OF_REACH)[:, None, None, :]
        for number in range(self._shape.layers):
            hidden = self._layer(hidden, bias, f"encoder.layer.{number}.")
        summed = (hidden * seen[:, :, None]).sum(axis=1)
        means = summed / np.maximum(seen.sum(axis=1, keepdims=True), 1e-9)
        vectors: Floats = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return vectors

    def _embedded(self, ids: Integers) -> Floats:
        get = self._weights
        positions = get["embeddings.position_embeddings.weight"][: ids.shape[1]]
        summed = get["embeddings.word_embeddings.weight"][ids] + positions
        summed += get["embeddings.token_type_embeddings.weight"][0]
        return self._norm(summed, "embeddings.LayerNorm")

    def _layer(self, hidden: Floats, bias: Floats, prefix: str) -> Floats:
        mixed = self._linear(self._attention(hidden, bias, prefix), f"{prefix}attention.output.dense")
        hidden = self._norm(hidden + mixed, f"{prefix}attention.output.LayerNorm")
        wide = _gelu(self._linear(hidden, f"{prefix}intermediate.dense"))
        return self._norm(hidden + self._linear(wide, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")

    def _attention(self, hidden: Floats, bias: Floats, prefix: str) -> Floats:
        texts, tokens, width = hidden.shape
        heads = self._shape.heads

        def split(name: str) -> Floats:
            projected = self._linear(hidden, f"{prefix}attention.self.{name}")
            return projected.reshape(texts, tokens, heads, width // heads).transpose(0, 2, 1, 3)

        scores = split("query") @ split("key").transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // heads))
        weighted = _softmax(scores + bias) @ split("value")
        joined: Floats = weighted.transpose(0, 2, 1, 3).reshape(texts, tokens, width)
        return joined

    def _linear(self, values: Floats, name: str) -> Floats:
        # One product of two matrices: numpy would make one for each text, and each wakes the threads of BLAS.
        weight = self._weights[f"{name}.weight"]
        flat: Floats = values.reshape(-1, values.shape[-1]) @ weight.T + self._weights[f"{name}.bias"]
        return flat.reshape(*values.shape[:-1], weight.shape[0])

    def _norm(self, values: Floats, name: str) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._shape.epsilon))
        scaled: Floats = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return scaled


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _gelu(values: Floats) -> Floats:
    result: Any = np.float32(0.5) * values * (np.float32(1.0) + _erf(values * np.float32(np.sqrt(0.5))))
    return np.asarray(result, dtype=np.float32)


def _erf(values: Floats) -> Floats:
    """Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at most, which is what float32 has anyway."""
    size = np.abs(values)
    t = 1.0 / (1.0 + np.float32(0.3275911) * size)
    poly = t * (
        np.float32(0.254829592)
        + t
        * (
            np.float32(-0.284496736)
            + t * (np.float32(1.421413741) + t * (np.float32(-1.453152027) + t * np.float32(1.061405429)))
        )
    )
    result: Floats = np.copysign(1.0 - poly * np.exp(-size * size), values)
    return result
