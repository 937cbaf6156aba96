"""Displacement where contents shrink (Algorithm 1 frees what a compacted context no longer has), by numba.

Then what lies in front of a conversation can fall again, and it is gone once it was ever too much: the
largest value between its two accesses decides. A segment tree adds to ranges of positions and remembers the
largest sum so far ("historic maximum"): every node carries a pending sum and the largest value that sum has
had.
"""

from __future__ import annotations

import numpy as np

from .accesses import NEVER
from .compiled import compiled


@compiled
def peak_displacements(previous, following, held, moved, floor, displaced, peak):
    """The largest D(prev(e), i), prev(e) < i <= e: ``displaced[e]`` int64 [n], NEVER where there is no prev(e).

    A peak counts the position's own blocks too: ``floor[e]`` is the one that position e brings along from
    an earlier part of the stream (0: none), ``peak[e]`` the one it takes on to the next.
    """
    n = len(held)
    leaves = 2
    while leaves < n:
        leaves *= 2
    pending = np.zeros(2 * leaves, np.int64)
    most = np.zeros(2 * leaves, np.int64)
    for e in range(n):
        last = previous[e]
        displaced[e] = NEVER
        if last >= 0:
            _descend(pending, most, leaves + last, leaves, moved[e])
            displaced[e] = most[leaves + last] - held[last]
        pending[1] += held[e]
        most[1] = max(most[1], pending[1])
        _descend(pending, most, leaves + e, leaves, 0)
        pending[leaves + e] = held[e]
        most[leaves + e] = max(held[e], floor[e])
    for e in range(n):
        if following[e] == n:
            _descend(pending, most, leaves + e, leaves, 0)
            peak[e] = most[leaves + e]


@compiled
def _descend(pending, most, leaf, leaves, removed):
    """Settle what is pending on the way to a leaf, and take ``removed`` blocks from the positions up to it."""
    width = leaves
    node = 1
    while node < leaves:
        left = 2 * node
        for child in (left, left + 1):
            most[child] = max(most[child], pending[child] + most[node])
            pending[child] += pending[node]
        pending[node] = most[node] = 0
        width //= 2
        node = leaf // width
        if node > left:
            pending[left] -= removed
