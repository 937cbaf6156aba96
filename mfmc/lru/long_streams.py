"""Streams that do not fit into memory: the curve of chunk after chunk, carrying on only what a cache can
still hold.

Between two chunks the whole past is a list of at most ``max_capacity`` + 1 conversations, each with the
blocks held from its place to the next one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .accesses import AccessStream, Integers, Moves, conversation_numbers, links, taken_by_return
from .counts import NO_LIMIT, Counts, HitRatioCurve
from .replay import checked_capacity, chosen_backend, chosen_eviction

CHUNK = 1 << 20


class Carried(NamedTuple):
    """Conversations within reach from the LRU end: their ids, the blocks held, and the peaks of
    `shrinking`.
    """

    conversation: NDArray
    held: Integers
    peak: Integers
    shrinking: bool
    time: float


def hit_ratio_curve_of_chunks(
    chunks: Iterable[AccessStream],
    max_capacity: int | None,
    accounting: str = "whole",
    *,
    eviction: str = "conversation",
    backend: str | None = None,
) -> HitRatioCurve:
    """`hit_ratio_curve` of consecutive chunks of one stream, in memory bounded by ``max_capacity`` and a
    chunk.

    Conversations keep their ids from chunk to chunk; make the chunks with ``new`` (or
    ``new_tokens``), which tells what a conversation had before a chunk began.
    """
    chosen_eviction(eviction)
    backend = chosen_backend(backend)
    limit = NO_LIMIT if max_capacity is None else checked_capacity(max_capacity)
    nothing = np.zeros(0, np.int64)
    carried = Carried(nothing, nothing, nothing, False, -np.inf)
    counts = None
    for chunk in chunks:
        if chunk.time[0] < carried.time:
            raise InputError(f"a chunk begins at time {chunk.time[0]}, before the last one ended ({carried.time})")
        carried, displaced, moved = _step(carried, chunk, accounting, eviction, limit, backend)
        if counts is None:
            counts = Counts(chunk, accounting, eviction, max_capacity, backend)
        begin, end, _ = chunk.counted.indices(len(chunk))
        counts.add(chunk, slice(begin, end), displaced[begin:end], moved)
    if counts is None:
        raise InputError("the stream has no chunk: expected at least one")
    return counts.curve()


def slices(stream: AccessStream, rows: int = CHUNK) -> Iterator[AccessStream]:
    """A stream in memory as consecutive chunks."""
    first, last, _ = stream.counted.indices(len(stream))
    for begin in range(0, len(stream), rows):
        end = min(begin + rows, len(stream))
        cut = {
            name: value[begin:end]
            for name in (
                "time",
                "conversation",
                "history",
                "shared",
                "row",
                "final",
                "tokens",
                "shared_tokens",
            )
            if (value := getattr(stream, name)) is not None
        }
        previous, following = stream.previous[begin:end], stream.next[begin:end]
        yield replace(
            stream,
            previous=np.where(previous >= begin, previous - begin, -1),
            next=np.minimum(following, end) - begin,
            counted=slice(max(first - begin, 0), max(last - begin, 0)),
            **cut,
        )


def _step(
    carried: Carried, chunk: AccessStream, accounting: str, eviction: str, limit: int, backend: str
) -> tuple[Carried, Integers, Integers]:
    """The next state, and the chunk's displacements and moved blocks."""
    before = len(carried.conversation)
    conversation = np.concatenate([carried.conversation, chunk.conversation])
    previous, following, _ = links(conversation_numbers(conversation, len(conversation)))
    sizes = chunk.sizes(accounting)
    replaces = accounting == "whole" and eviction == "conversation"
    held = np.concatenate([carried.held, sizes.held])
    moved = np.concatenate([np.zeros(before, np.int64), sizes.reuse])
    if replaces:
        moved = np.where(previous >= 0, held[previous], moved)
    n = len(held)
    taken = taken_by_return(moved, following)
    shrinking = carried.shrinking or bool(np.any(moved > held))
    peak = np.zeros(n, np.int64)
    if shrinking:
        from .shrinking import peak_displacements

        displaced = np.empty(n, np.int64)
        floor = np.concatenate([carried.peak, np.zeros(len(chunk), np.int64)])
        peak_displacements(previous, following, held, moved, floor, displaced, peak)
    else:
        displaced = _displaced(Moves(previous, following, held, moved, taken), limit, backend)

    remains = held - np.where(following < n, taken, 0)
    above = np.cumsum(remains[::-1])[::-1] - remains  # what lies in front of each position now
    keep = np.flatnonzero((following == n) & (above <= limit))
    between = -np.diff(above[keep], prepend=above[keep[:1]] + held[keep[:1]])
    state = Carried(conversation[keep], between, peak[keep], shrinking, float(chunk.time[-1]))
    return state, displaced[before:], moved[before:]


def _displaced(moves: Moves, limit: int, backend: str) -> Integers:
    if backend == "xla":
        from .partition import displacements as displacements_xla

        return displacements_xla(moves)
    from .displacement import displacements

    pieces = displacements(moves, 0, len(moves.held), limit)
    return np.concatenate([displaced.copy() for _, displaced in pieces])
