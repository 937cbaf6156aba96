"""Replay LRU at one capacity: what every access finds in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..cores import cores, on_cores
from ..errors import InputError
from .accesses import AccessStream, Moves

EVICTIONS = ("conversation", "block")
BACKENDS = ("numba", "xla")
Result = TypeVar("Result")
MIN_SPAN = 1 << 16  # accesses that are worth a thread


@dataclass(frozen=True, eq=False)
class Replay:
    """What a cache served of a stream: ``served`` [n] blocks at each access, of the ``content`` that it looks up.

    Ratios are over the counted accesses of the stream, first turns included.
    """

    stream: AccessStream
    capacity: int
    accounting: str
    served: NDArray

    @cached_property
    def hit(self) -> NDArray[np.bool_]:
        """Accesses that found everything that they could reuse, bool [n]."""
        return (self.served == self.stream.sizes(self.accounting).reuse) & (self.served > 0)

    @property
    def hit_ratio(self) -> float:
        """Blocks served over blocks looked up: (12) and (24)."""
        served = self.served[self.stream.counted]
        parts = over_spans(lambda begin, end: int(served[begin:end].sum(dtype=np.int64)), 0, len(served))
        return sum(parts) / self.stream.looked_up(self.accounting)

    @property
    def request_hit_ratio(self) -> float:
        """Share of the accesses that found everything reusable."""
        return float(self.hit[self.stream.counted].mean())

    @property
    def token_hit_ratio(self) -> float:
        """Tokens served over tokens looked up."""
        stream, counted = self.stream, self.stream.counted
        if stream.tokens is None or stream.block_tokens is None or stream.shared_tokens is None:
            raise InputError("a token-weighted ratio needs token counts: make the stream with tokens")
        served = np.minimum(self.served[counted] * np.int64(stream.block_tokens), stream.shared_tokens[counted])
        return float(served.sum() / stream.tokens[counted].sum())


def replay_lru(
    stream: AccessStream,
    capacity: int,
    accounting: str = "whole",
    *,
    eviction: str = "conversation",
    backend: str | None = None,
) -> Replay:
    """LRU of ``capacity`` blocks over the stream, from an empty cache; exact, access by access.

    ``eviction``: a ``conversation`` leaves whole (Algorithm 1, and the threshold of the theory), or block by
    ``block``, the deepest first, so that the boundary conversation still serves its leading blocks.
    ``backend``: ``numba`` (threads over chunks of time) or ``xla`` (lanes over chunks of time, or all
    displacements at once where a large cache leaves few chunks); by default xla where JAX has an accelerator.
    All give the same integers.

    Of a history that shrinks, Algorithm 1 frees what the new content lacks; in the other accountings, and block by
    block, this stays in its place until it is evicted, which is what the displacement law counts. Traces do not come
    to it: `Trace.accesses` begins a new conversation there, and `Trace.treatments` counts them.
    """
    by_block = chosen_eviction(eviction) == "block"
    capacity = checked_capacity(capacity)
    moves = stream.moves(accounting, eviction)
    if chosen_backend(backend) == "xla":
        from .lanes import MIN_LANES, lane_count, replay_lanes

        lanes = lane_count(moves, capacity)
        if stream.shrinks(accounting, eviction) or lanes >= MIN_LANES:
            served = replay_lanes(moves, capacity, by_block, lanes)
        else:
            served = replay_displacements(moves, capacity, by_block)
    else:
        served = replay_threads(moves, capacity, by_block)
    if stream.shrinks(accounting, eviction):  # a hit moves all that the conversation had, and serves what is left of it
        served = np.where(served > 0, stream.sizes(accounting).reuse, 0)
    return Replay(stream, capacity, accounting, served)


def replay_threads(moves: Moves, capacity: int, by_block: bool) -> NDArray:
    """Of ``moved`` the blocks that are found, [n]: the two-pointer kernel over one chunk of time per core."""
    from .two_pointer import block_by_block, warm_start, whole_conversations

    served = np.zeros_like(moves.moved)
    kernel = block_by_block if by_block else whole_conversations

    def serve(begin: int, end: int) -> None:
        start = warm_start(*moves, capacity, begin)
        kernel(*moves, capacity, start, begin, end, served)

    if capacity > 0:
        over_spans(serve, 0, len(served))
    return served


def replay_displacements(moves: Moves, capacity: int, by_block: bool) -> NDArray:
    """The same from the displacement of every access (THEORY B8), by XLA; contents must never shrink."""
    from .partition import displacements

    room = capacity - displacements(moves)
    room[moves.previous < 0] = -1
    return np.clip(room, 0, moves.moved) if by_block else np.where(room >= moves.moved, moves.moved, 0)


def over_spans(work: Callable[[int, int], Result], begin: int, end: int) -> list[Result]:
    """``work`` on equal spans of the accesses begin..end-1: a thread per core, but none for fewer than MIN_SPAN."""
    edges = np.linspace(begin, end, min(cores(), max((end - begin) // MIN_SPAN, 1)) + 1).astype(np.int64).tolist()
    if len(edges) == 2:
        return [work(begin, end)]
    return on_cores(lambda span: work(*span), pairwise(edges))


def chosen_eviction(eviction: str) -> str:
    """The eviction named, if there is one."""
    if eviction not in EVICTIONS:
        raise InputError(f"eviction {eviction!r} is unknown: choose one of {', '.join(EVICTIONS)}")
    return eviction


def checked_capacity(capacity: int) -> int:
    """A capacity in whole blocks."""
    if not 0 <= capacity < 2**62 or int(capacity) != capacity:
        raise InputError(f"capacity is {capacity}: expected a whole number of blocks from 0 to 2^62 - 1")
    return int(capacity)


def chosen_backend(backend: str | None) -> str:
    """The backend named, or the one that suits the machine."""
    if backend is None:
        import jax

        return "numba" if jax.default_backend() == "cpu" else "xla"
    if backend not in BACKENDS:
        raise InputError(f"backend {backend!r} is unknown: choose one of {', '.join(BACKENDS)}")
    return backend
