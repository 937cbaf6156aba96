"""A decoder that computes nothing: it keeps lengths only, so that long traces can be counted quickly.

A store's decisions depend on tokens and sizes, never on the numbers inside a checkpoint, so the counts are
those of the real decoder (a test holds the two logs side by side).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mfmc.checkpoints.decoder import DecoderShape, Tokens


@dataclass(frozen=True)
class LengthCache:
    """The size of a key/value cache without its arrays."""

    length: int
    token_bytes: int

    @classmethod
    def join(cls, parts: Sequence[LengthCache]) -> LengthCache:
        return cls(sum(part.length for part in parts), parts[0].token_bytes)

    @property
    def nbytes(self) -> int:
        return self.length * self.token_bytes

    def section(self, start: int, stop: int) -> LengthCache:
        return LengthCache(stop - start, self.token_bytes)

    def copy(self) -> LengthCache:
        return self


class CountingDecoder:
    """Stands in for `Decoder` where only counts are wanted."""

    signature = b"counting"

    def __init__(self, shape: DecoderShape | None = None) -> None:
        self.shape = shape or DecoderShape()

    def empty(self) -> LengthCache:
        return LengthCache(0, self.shape.token_bytes)

    def extend(self, tokens: Tokens, cache: LengthCache) -> tuple[None, LengthCache]:
        return None, LengthCache(cache.length + len(tokens), self.shape.token_bytes)
