"""One capacity in O(1) amortised per access: a tail index instead of a list (THEORY B8), compiled by numba.

Position p of the stream stands for what its access left at the front: ``held[p]`` blocks until the
conversation returns, ``held[p] - moved[next[p]]`` orphans afterwards. Let ``above`` be the blocks held at
positions after the tail. Everything after the tail is resident, nothing before it, and of the tail itself
what ``capacity - above`` leaves room for. No access looks anything up by name, and no list is ever touched in
the middle.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def replay_range(previous, following, held, moved, capacity, by_block, start, begin, end, served):
    """Serve accesses start..end-1 from an empty cache and write served[begin:end].

    ``by_block`` False: True where all ``moved`` blocks are there. True: how many of them are, leading ones
    first.
    """
    tail, above = start, 0
    for e in range(start, end):
        last, wanted = previous[e], moved[e]
        found = 0
        if last > tail or (last == tail and not by_block):
            found = wanted
        elif last == tail:
            found = min(wanted, capacity - above)
        if e >= begin:
            served[e] = found if by_block else found > 0
        if e > tail:
            above += held[e]
        if last > tail:
            above -= wanted
        while tail <= e:
            back = following[tail]
            # Whole conversations leave once what the next access wants of them does not fit; blocks one by
            # one.
            size = 1 if by_block else (moved[back] if e < back < len(held) else 0)
            if above + size <= capacity:
                break
            tail += 1
            if tail <= e:
                back = following[tail]
                above -= held[tail] - (moved[back] if back <= e else 0)


@njit(cache=True, nogil=True)
def warm_start(following, held, moved, capacity, begin):
    """The last position such that what is held from it to ``begin`` overflows the cache (0 where nothing
    does).

    Serving from there with an empty cache gives exactly the sequential state at ``begin``: whatever lies
    before it has been pushed out by then, and whatever lies after it has seen every access that matters to
    it.
    """
    total = 0
    position = begin
    while position > 0 and total <= capacity:
        position -= 1
        back = following[position]
        total += held[position] - (moved[back] if back < begin else 0)
    return position
