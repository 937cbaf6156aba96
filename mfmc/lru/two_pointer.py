"""One capacity in O(1) amortised per access: a tail index instead of a list (THEORY B8), compiled by numba.

Position p of the stream stands for what its access left at the front: ``held[p]`` blocks until the
conversation returns, ``held[p] - taken[p]`` orphans afterwards. Let ``above`` be the blocks held at
positions after the tail. Everything after the tail is resident, nothing before it, and of the tail itself
what ``capacity - above`` leaves room for. No access looks anything up by name, and no list is ever touched in
the middle.
"""

from __future__ import annotations

import numpy as np
from numba import njit

at = np.uint64  # numba does not look whether an unsigned index counts from the end


@njit(cache=True, nogil=True)
def replay_range(previous, following, held, moved, taken, capacity, by_block, start, begin, end, served):
    """Serve accesses start..end-1 from an empty cache and write served[begin:end].

    ``by_block`` False: True where all ``moved`` blocks are there. True: how many are, leading ones first.
    """
    n = len(held)
    tail, above = start, 0
    for e in range(start, end):
        last, wanted = np.int64(previous[at(e)]), moved[at(e)]
        gone = _if(last > tail, wanted)
        found = gone
        if last == tail:
            found = min(wanted, capacity - above) if by_block else wanted
        if e >= begin:
            served[at(e)] = found if by_block else found > 0
        above += _if(e > tail, held[at(e)]) - gone
        while above > capacity:
            tail += 1
            above -= held[at(tail)] - _if(following[at(tail)] <= e, taken[at(tail)])
        while tail <= e:
            # Of the tail a conversation stays while what its next access wants fits, blocks while any do.
            back = following[at(tail)]
            wants = 1 if by_block else _if((e < back) & (back < n), taken[at(tail)])
            if above + wants <= capacity:
                break
            tail += 1
            if tail <= e:
                above -= held[at(tail)] - _if(following[at(tail)] <= e, taken[at(tail)])


@njit(cache=True, nogil=True)
def _if(condition, value):
    """The value or 0, without a branch: these conditions cannot be predicted."""
    return value & -np.int64(condition)


@njit(cache=True, nogil=True)
def warm_start(previous, following, held, moved, taken, capacity, begin):
    """The last position from which what is held up to ``begin`` overflows the cache; 0 where nothing does.

    Serving from there with an empty cache gives exactly the sequential state at ``begin``: what lies before
    it has been pushed out by then, and what lies after it has seen every access that matters to it.
    """
    total = 0
    position = begin
    while position > 0 and total <= capacity:
        position -= 1
        total += held[position] - _if(following[position] < begin, taken[position])
    return position
