"""The hit ratio at every capacity, exactly, in one pass over the stream.

LRU at capacity N is LRU at capacity N + 1 seen from closer: access e is a hit iff D(prev(e), e) + moved_e
<= N (THEORY B8). So each access has one critical capacity, and a curve is the distribution of critical
capacities.
"""

from __future__ import annotations

from .accesses import AccessStream
from .counts import NO_LIMIT, Counts, HitRatioCurve
from .long_streams import hit_ratio_curve_of_chunks, slices
from .replay import checked_capacity, chosen_backend, chosen_eviction, over_spans


def hit_ratio_curve(
    stream: AccessStream,
    accounting: str = "whole",
    *,
    eviction: str = "conversation",
    max_capacity: int | None = None,
    backend: str | None = None,
) -> HitRatioCurve:
    """LRU at every capacity up to ``max_capacity`` (None: all), from an empty cache; equals `replay_lru` at
    each.

    ``eviction`` and ``backend`` as in `replay_lru`. Contents that shrink are followed on the CPU
    (`shrinking`).
    """
    chosen_eviction(eviction)
    backend = chosen_backend(backend)
    moves = stream.moves(accounting, eviction)
    if stream.shrinks(accounting, eviction):
        return hit_ratio_curve_of_chunks(slices(stream), max_capacity, accounting, eviction=eviction, backend=backend)
    begin, end, _ = stream.counted.indices(len(stream))
    limit = NO_LIMIT if max_capacity is None else checked_capacity(max_capacity)
    if backend == "xla":
        from .partition import displacements as displacements_xla

        displaced = displacements_xla(moves)
        counts = Counts(stream, accounting, eviction, max_capacity, backend)
        counts.add(stream, slice(begin, end), displaced[begin:end], moves.moved)
        return counts.curve()

    from .displacement import displacements

    def count(start: int, stop: int) -> Counts:
        counts = Counts(stream, accounting, eviction, max_capacity, backend)
        for piece, displaced in displacements(moves, start, stop, limit):
            counts.add(stream, piece, displaced, moves.moved)
        return counts

    first, *others = over_spans(count, begin, end)
    for counts in others:
        first.merge(counts)
    return first.curve()
