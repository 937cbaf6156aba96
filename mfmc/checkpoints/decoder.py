"""An untrained float64 decoder in NumPy, with an explicit key/value cache: what checkpoints are made of.

It tests numerical equivalence and counts work; it says nothing about language. One token costs, in every
layer, one row of each of the Q, K and V projections, and keeps one row of K, one of V and one absolute
position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mfmc.errors import InputError

Floats = NDArray[np.float64]
Tokens = NDArray[np.int64]
Layer = tuple[Floats, Floats, Tokens]  # K [n, width], V [n, width], absolute positions [n]


@dataclass(frozen=True)
class DecoderShape:
    """Sizes that fix what a token costs in bytes and in work; the weights do not matter for either."""

    layers: int = 2
    width: int = 16
    vocabulary: int = 32

    def __post_init__(self) -> None:
        for name in ("layers", "width", "vocabulary"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"decoder {name}={value!r}: expected a whole number of at least 1")
        if self.width % 2:
            raise InputError(
                f"decoder width={self.width}: expected an even number (sine and cosine positions)"
            )

    @property
    def token_bytes(self) -> int:
        """Bytes that one cached token holds: per layer K and V in float64 and one int64 position."""
        return self.layers * (2 * self.width * 8 + 8)

    def projected_rows(self, tokens: int) -> int:
        """Rows of the Q, K and V projections for `tokens` new tokens."""
        return 3 * self.layers * tokens

    def work(self, tokens: int) -> int:
        """Multiply-adds to compute the first `tokens` tokens: linear maps and causal attention."""
        linear = (4 + 2 * 4) * self.width**2 * tokens
        attention = 2 * self.width * tokens * (tokens + 1) // 2
        return self.layers * (linear + attention)


@dataclass(frozen=True)
class KVCache:
    """K, V and absolute positions of every layer for one token prefix or for a section of it."""

    layers: tuple[Layer, ...]

    @classmethod
    def empty(cls, shape: DecoderShape) -> KVCache:
        rows = np.zeros((0, shape.width))
        return cls(tuple((rows, rows, np.zeros(0, dtype=np.int64)) for _ in range(shape.layers)))

    @classmethod
    def join(cls, parts: Sequence[KVCache]) -> KVCache:
        """One owned cache from consecutive sections."""
        together = zip(*(part.layers for part in parts))
        return cls(tuple(tuple(np.concatenate(arrays) for arrays in zip(*layer)) for layer in together))  # type: ignore[misc]

    @property
    def length(self) -> int:
        return len(self.layers[0][2])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for layer in self.layers for array in layer)

    def section(self, start: int, stop: int) -> KVCache:
        """Rows start..stop-1 as views: nothing is copied and nothing is owned."""
        return KVCache(tuple((k[start:stop], v[start:stop], p[start:stop]) for k, v, p in self.layers))

    def copy(self) -> KVCache:
        """The same numbers in arrays that nobody else holds."""
        return KVCache(tuple((k.copy(), v.copy(), p.copy()) for k, v, p in self.layers))


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Matrices [rows in, columns out] of one layer."""

    query: Floats
    key: Floats
    value: Floats
    output: Floats
    up: Floats
    down: Floats


@dataclass(frozen=True, eq=False)
class Decoder:
    """Pre-norm causal decoder with one attention head.

    Its weights are read-only copies, so that the signature, hashed once, stays true of them: other weights
    are another decoder (`dataclasses.replace`), whose queries never match this one's checkpoints.
    """

    shape: DecoderShape
    embedding: Floats
    layers: tuple[LayerWeights, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "embedding", read_only(self.embedding))
        frozen = (LayerWeights(*map(read_only, vars(layer).values())) for layer in self.layers)
        object.__setattr__(self, "layers", tuple(frozen))

    @classmethod
    def untrained(cls, seed: int, shape: DecoderShape | None = None) -> Decoder:
        """Weights drawn from `seed`, scaled to keep the size of their input, and never trained."""
        shape = shape or DecoderShape()
        draw = np.random.default_rng(seed)
        width = shape.width

        def matrix(rows: int, columns: int) -> Floats:
            return draw.normal(scale=rows**-0.5, size=(rows, columns))

        def layer() -> LayerWeights:
            return LayerWeights(
                query=matrix(width, width),
                key=matrix(width, width),
                value=matrix(width, width),
                output=matrix(width, width),
                up=matrix(width, 4 * width),
                down=matrix(4 * width, width),
            )

        embedding = draw.normal(size=(shape.vocabulary, width))
        layers = [layer() for _ in range(shape.layers)]
        return cls(shape, embedding, tuple(layers))

    @cached_property
    def signature(self) -> bytes:
        """SHA-256 of the sizes and of every weight."""
        digest = hashlib.sha256(repr(self.shape).encode())
        digest.update(self.embedding.tobytes())
        for layer in self.layers:
            for matrix in vars(layer).values():
                digest.update(matrix.tobytes())
        return digest.digest()

    def empty(self) -> KVCache:
        return KVCache.empty(self.shape)

    def extend(self, tokens: Tokens, cache: KVCache) -> tuple[Floats, KVCache]:
        """Outputs [n, width] of n new tokens that follow `cache`, and the cache that holds both."""
        positions = cache.length + np.arange(len(tokens))
        state = self.embedding[tokens] + sinusoids(positions, self.shape.width)
        layers: list[Layer] = []
        for weights, (past_k, past_v, past_positions) in zip(self.layers, cache.layers):
            normal = rms_norm(state)
            query = normal @ weights.query
            k = np.concatenate([past_k, normal @ weights.key])
            v = np.concatenate([past_v, normal @ weights.value])
            where = np.concatenate([past_positions, positions])
            scores = query @ k.T / np.sqrt(self.shape.width)
            scores[where[None, :] > positions[:, None]] = -np.inf
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            state = state + (scores @ v / scores.sum(axis=1, keepdims=True)) @ weights.output
            state = state + np.tanh(rms_norm(state) @ weights.up) @ weights.down
            layers.append((k, v, where))
        return rms_norm(state), KVCache(tuple(layers))


def read_only(array: Floats) -> Floats:
    """An owned copy that numpy refuses to write to."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def rms_norm(rows: Floats) -> Floats:
    return rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + 1e-12)


def sinusoids(positions: Tokens, width: int) -> Floats:
    """Absolute sine and cosine position codes, [n, width]."""
    angles = positions[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def check_tokens(tokens: object, vocabulary: int) -> Tokens:
    """Tokens [n] as int64, or one clear line about the first that is not a token."""
    array = np.asarray(tokens)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"tokens of shape {array.shape}: expected a flat list of at least one token")
    if not np.issubdtype(array.dtype, np.integer):
        raise InputError(
            f"tokens of type {array.dtype} (first: {array[0]!r}): expected whole numbers, not {array.dtype}"
        )
    outside = np.flatnonzero((array < 0) | (array >= vocabulary))
    if outside.size:
        first = int(outside[0])
        raise InputError(f"token {array[first]} at position {first}: expected 0 to {vocabulary - 1}")
    return array.astype(np.int64)
