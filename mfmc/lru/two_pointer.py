"""One capacity in O(1) amortised per access: a tail index instead of a list (THEORY B8), compiled by numba.

Position p of the stream stands for what its access left at the front: ``held[p]`` blocks until the
conversation returns, ``held[p] - taken[p]`` orphans afterwards. The tail is the last position that still
serves: everything after it is in the cache, nothing before it. No access looks anything up by name, and no
list is ever touched in the middle.

Both kernels take one step at a time: either the cache is too full, and the tail moves on, or the next access
is served. Which of the two cannot be predicted, so both are computed and one is chosen, without a branch: that is
twice as fast as a loop within a loop. Where the tail has caught up with an access that is not served yet, the blocks
counted are those of that access, in advance, as a negative number; so a tail never overtakes.
"""

from __future__ import annotations

import numpy as np

from .compiled import compiled

at = np.uint64  # numba does not look whether an unsigned index counts from the end


@compiled
def whole_conversations(previous, following, held, moved, taken, capacity, start, begin, end, served):
    """Serve accesses start..end-1 from an empty cache; served[begin:end]: ``moved`` where the conversation is there.

    A conversation serves while what its next access wants fits together with all that lies in front of it.
    """
    last = len(held) - 1
    e, tail = start, start
    # What must fit: of the tail the blocks that its next access wants, and everything after it.
    needed = np.int64(taken[start]) - np.int64(held[start])
    while e < end:
        full = needed > capacity
        ahead = min(tail + 1, last)
        leaves = _if(following[at(tail)] >= e, taken[at(tail)])
        orphans = np.int64(held[at(ahead)]) - np.int64(taken[at(ahead)])
        found = _if(previous[at(e)] >= tail, moved[at(e)])
        served[at(max(e, begin))] = found
        enters = np.int64(held[at(e)]) - found
        needed += -(leaves + orphans) if full else enters
        tail += full
        e += not full


@compiled
def block_by_block(previous, following, held, moved, taken, capacity, start, begin, end, served):
    """Serve accesses start..end-1 from an empty cache of at least one block; served[begin:end]: blocks found.

    The deepest blocks of the tail leave first, so it serves its leading blocks while any fits.
    """
    last = len(held) - 1
    e, tail = start, start
    above = -np.int64(held[start])  # blocks after the tail
    while e < end:
        full = above >= capacity
        ahead = min(tail + 1, last)
        remains = np.int64(held[at(ahead)]) - _if(following[at(ahead)] < e, taken[at(ahead)])
        back, wanted = np.int64(previous[at(e)]), np.int64(moved[at(e)])
        after = _if(back > tail, wanted)
        served[at(max(e, begin))] = after + _if(back == tail, min(wanted, capacity - above))
        above += -remains if full else np.int64(held[at(e)]) - after
        tail += full
        e += not full


@compiled
def _if(condition, value):
    """The value or 0, without a branch."""
    return np.int64(value) & -np.int64(condition)


@compiled
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
