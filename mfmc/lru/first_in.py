"""First in, first out in O(1) amortised per access, compiled by numba: a tail index over the entries."""

from __future__ import annotations

import numpy as np

from .compiled import compiled


@compiled
def first_in_first_out(previous, held, moved, capacity, hits):
    """hits[e]: the conversation is still in memory. All its blocks lie where it came in, at ``entry``."""
    n = len(held)
    entry = np.empty(n, np.int64)
    blocks = np.zeros(n, np.int64)
    tail, total = 0, 0
    for e in range(n):
        last = previous[e]
        hits[e] = last >= 0 and entry[last] >= tail
        entry[e] = entry[last] if hits[e] else e
        more = held[e] - (moved[e] if hits[e] else 0)
        blocks[entry[e]] += more
        total += more
        while total > capacity:
            total -= blocks[tail]
            tail += 1
