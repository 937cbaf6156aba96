"""The displacement D(prev(e), e) of every access (THEORY B8) by numba: LRU at all capacities at once.

Let ``inserted`` count all blocks ever put at the front, and ``mark[p]`` its value just after access p. Then
D(p, now) = inserted - mark[p], less the blocks that conversations took along from positions after p when they
returned. Those removals are summed by a tree over the positions that still await a return: one walk from
leaf to root reads the removals after p and enters the one at p. Positions that have had their return are
swept out when the slots run out, so the tree is as small as the number of conversations in progress, not
the stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .accesses import NEVER, Moves, narrowest
from .compiled import compiled
from .two_pointer import at

PIECE = 1 << 16  # accesses whose displacements are handed over at a time: they stay in the processor's cache


def displacements(moves: Moves, begin: int, end: int, limit: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Consecutive pieces of begin..end-1 with D(prev(e), e); NEVER where there is none or it exceeds ``limit``.

    The array is overwritten by the next piece. Needs contents that never shrink (moved <= held at prev).
    """
    # A full tree must free at least half of its slots, or sweeping would cost more than it saves.
    slots = 1 << int(2 * _awaiting(moves.previous, moves.next)).bit_length()
    mark, owner = np.zeros(slots, np.int64), np.zeros(slots, narrowest(len(moves.held)))
    removed, tree = np.zeros((2, slots), narrowest(slots * int(moves.held.max(initial=1))))
    slot_of = np.empty(end, np.int32)
    registers = np.zeros(3, np.int64)
    _look_back(moves.next, moves.held, moves.taken, begin, limit, mark, owner, slot_of, registers)
    out = np.empty(min(PIECE, end - begin), np.int64)
    for start in range(begin, end, PIECE):
        stop = min(start + PIECE, end)
        piece = out[: stop - start]
        state = (mark, owner, removed, tree, slot_of, registers)
        _advance(*moves[:4], start, limit, *state, piece)
        yield slice(start, stop), piece


@compiled
def _awaiting(previous, following):
    """The largest number of positions that await a return at one time."""
    n = len(previous)
    now = most = 0
    for e in range(n):
        now += (following[e] < n) - (previous[e] >= 0)
        most = max(most, now)
    return most


@compiled
def _look_back(following, held, taken, begin, limit, mark, owner, slot_of, registers):
    """Give slots to the positions within reach that await a return at ``begin``, the nearest one last."""
    n = len(held)
    used, distance, horizon = 0, 0, begin
    while horizon > 0 and distance <= limit:
        horizon -= 1
        back = following[horizon]
        if begin <= back < n:
            owner[used], mark[used] = horizon, -distance
            used += 1
        distance += held[horizon] - (taken[horizon] if back < begin else 0)
    owner[:used] = owner[:used][::-1].copy()
    mark[:used] = mark[:used][::-1].copy()
    for slot in range(used):
        slot_of[owner[slot]] = slot
    registers[:] = used, 0, horizon  # slots in use, blocks inserted, nearest position out of reach + 1


@compiled
def _advance(previous, following, held, moved, start, limit, mark, owner, removed, tree, slot_of, registers, displaced):
    n, slots = len(held), len(mark)
    used, inserted, horizon = registers
    for i in range(len(displaced)):
        e = at(start + i)
        last = np.int64(previous[e])
        slot = np.int64(slot_of[at(last)]) if last >= horizon else -1
        distance = NEVER
        if slot >= 0:
            wanted = moved[e]
            taken = 0
            node = at(slot + slots)
            # tree[node] sums the removals under its right child; no branch on left or right.
            while node > at(1):
                right = np.int64(node & at(1))
                node >>= at(1)
                below = tree[node]
                taken += below & (right - 1)
                tree[node] = below + (wanted & -right)
            removed[at(slot)] = wanted
            distance = inserted - mark[at(slot)] - taken
        displaced[at(i)] = distance if distance <= limit else NEVER
        if following[e] < n:
            if used == slots:
                used = _sweep(following, start + i, inserted - limit, mark, owner, removed, tree, slot_of)
            owner[at(used)], mark[at(used)] = start + i, inserted + held[e]
            slot_of[e] = used
            used += 1
        inserted += held[e]
    registers[:] = used, inserted, horizon


@compiled
def _sweep(following, now, least, mark, owner, removed, tree, slot_of):
    """Keep the positions that await a return and lie within reach (mark >= least); how many they are."""
    taken = 0
    for slot in range(len(mark) - 1, -1, -1):  # what was removed after a position is settled into its mark
        mark[slot] += taken
        taken += removed[slot]
    kept = 0
    for slot in range(len(mark)):
        position = owner[slot]
        if following[position] > now:
            if mark[slot] >= least:
                mark[kept], owner[kept], slot_of[position] = mark[slot], position, kept
                kept += 1
            else:
                slot_of[position] = -1
    removed[:] = 0
    tree[:] = 0
    return kept
