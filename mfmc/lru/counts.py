"""What a curve counts, access by access, and the curve that the counts make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .accesses import AccessStream, Integers
from .tally import Count, Growth, Tally, adder

NO_LIMIT = 2**62


@dataclass(frozen=True, eq=False)
class HitRatioCurve:
    """Hit ratios as functions of the capacity (0..``max_capacity``; a number or an array), all from integer
    counts.

    ``served`` and ``tokens_served`` count blocks and tokens found in the cache, ``hits`` the accesses that
    found all they could reuse; ``looked_up``, ``tokens_looked_up`` and ``accesses`` are the denominators
    over all counted accesses, first turns included, as in (12) and (24).
    """

    accounting: str
    eviction: str
    max_capacity: int | None
    served: Count
    hits: Count
    tokens_served: Count | None
    looked_up: int
    accesses: int
    tokens_looked_up: int | None

    @property
    def capacities(self) -> Integers:
        """The capacities at which the number of blocks served changes its course, from 0 up."""
        return self.served.at

    def hit_ratio(self, capacity: ArrayLike) -> NDArray[np.float64]:
        """Blocks served over blocks looked up."""
        return self.served(self._checked(capacity)) / self.looked_up

    def request_hit_ratio(self, capacity: ArrayLike) -> NDArray[np.float64]:
        """Share of the accesses that find everything reusable."""
        return self.hits(self._checked(capacity)) / self.accesses

    def token_hit_ratio(self, capacity: ArrayLike) -> NDArray[np.float64]:
        """Tokens served over tokens looked up."""
        if self.tokens_served is None or self.tokens_looked_up is None:
            raise InputError("a token-weighted ratio needs token counts: make the stream with tokens and block_tokens")
        return self.tokens_served(self._checked(capacity)) / self.tokens_looked_up

    def _checked(self, capacity: ArrayLike) -> Integers:
        array = np.asarray(capacity)
        top = NO_LIMIT if self.max_capacity is None else self.max_capacity
        if not np.all((array >= 0) & (array <= top)) or np.any(array % 1):
            raise InputError(f"capacity {capacity!r}: expected whole numbers of blocks from 0 to {top}")
        return array.astype(np.int64)


class Counts:
    """The counts of a curve in the making."""

    def __init__(
        self,
        stream: AccessStream,
        accounting: str,
        eviction: str,
        max_capacity: int | None,
        backend: str,
    ) -> None:
        self.accounting, self.eviction, self.max_capacity = accounting, eviction, max_capacity
        near = 8 * len(stream) + 2**16  # an array of all capacities would be too long where few accesses are large
        limit = NO_LIMIT if max_capacity is None else max_capacity + 1
        add_at = adder(backend)
        self.with_tokens = stream.tokens is not None
        self.served, self.hits, self.tokens = (
            Growth(Tally(near, limit, add_at), Tally(near, limit, add_at)) for _ in range(3)
        )
        self.looked_up = self.accesses = self.tokens_looked_up = 0

    def add(self, stream: AccessStream, piece: slice, displaced: Integers, moved: Integers) -> None:
        """Enter accesses piece.start..piece.stop-1 of the stream with their displacements."""
        sizes = stream.sizes(self.accounting)
        reuse = sizes.reuse[piece]
        self.accesses += len(reuse)
        self.looked_up += int(sizes.content[piece].sum())
        complete = displaced + moved[piece]  # the capacity from which on everything is served
        self.hits.jumps.add(complete, reuse > 0)
        if self.eviction == "conversation":
            self.served.jumps.add(complete, reuse)
        else:
            one = np.ones_like(reuse)
            self.served.bends.add(displaced, one)
            self.served.bends.add(complete, -one)
        if stream.tokens is None or stream.shared_tokens is None or stream.block_tokens is None:
            return
        k = stream.block_tokens
        self.tokens_looked_up += int(stream.tokens[piece].sum())
        shared = stream.shared_tokens[piece]
        if self.eviction == "conversation":
            self.tokens.jumps.add(complete, np.minimum(reuse * k, shared))
            return
        # k tokens a block, up to the last block that the two prompts share in full; then what is left of it.
        full = np.minimum(shared // k, reuse)
        rest = np.where(full < reuse, shared - k * full, 0)
        self.tokens.bends.add(displaced, np.full_like(full, k))
        self.tokens.bends.add(displaced + full, rest - k)
        self.tokens.bends.add(displaced + full + 1, -rest)

    def merge(self, other: Counts) -> None:
        for mine, theirs in (
            (self.served, other.served),
            (self.hits, other.hits),
            (self.tokens, other.tokens),
        ):
            mine.merge(theirs)
        self.looked_up += other.looked_up
        self.accesses += other.accesses
        self.tokens_looked_up += other.tokens_looked_up

    def curve(self) -> HitRatioCurve:
        return HitRatioCurve(
            self.accounting,
            self.eviction,
            self.max_capacity,
            self.served.count(),
            self.hits.count(),
            self.tokens.count() if self.with_tokens else None,
            self.looked_up,
            self.accesses,
            self.tokens_looked_up if self.with_tokens else None,
        )
