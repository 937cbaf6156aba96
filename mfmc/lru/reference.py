"""LRU as the paper writes it: lists and loops, slow and obvious. The judge of the fast kernels, for who
doubts them.

Each function returns the blocks served from cache at every access, int64 [n].
"""

from __future__ import annotations

import numpy as np

from .accesses import AccessStream, Integers


def served_by_reference(
    stream: AccessStream, capacity: int, accounting: str = "whole", eviction: str = "conversation"
) -> Integers:
    """What `replay_lru(...).served` must be.

    The whole and token accountings are lists. The practical model cannot be one (THEORY B9): its replay is
    the displacement rule of Theorem C.6. A conversation that leaves all at once serves everything or nothing;
    block by block it serves the leading blocks that are still there.
    """
    if accounting == "practical":
        room = capacity - practical_displacement(stream)
        served = np.clip(room, 0, stream.sizes("practical").reuse)
    elif accounting == "whole" and eviction == "conversation":
        return np.where(algorithm_1(stream, capacity), stream.sizes("whole").reuse, 0)
    else:
        served = block_list(stream, capacity, accounting)
    if eviction == "block":
        return served
    return np.where(served == stream.sizes(accounting).reuse, served, 0)


def algorithm_1(stream: AccessStream, capacity: int) -> np.ndarray:
    """Whole-content LRU, Algorithm 1 line by line: the hit indicator of every access, bool [n]."""
    resident: list[int] = []  # conversations from MRU to LRU
    size: dict[int, int] = {}
    hits = []
    for theta, history in zip(stream.conversation.tolist(), stream.history.tolist(), strict=True):
        hits.append(theta in resident)
        if theta in resident:
            resident.remove(theta)
        size[theta] = history
        resident.insert(0, theta)
        while sum(size[i] for i in resident) > capacity:
            last = resident.pop()
            del size[last]
    return np.array(hits, dtype=bool)


def block_list(stream: AccessStream, capacity: int, accounting: str) -> Integers:
    """An LRU list of single blocks; within an access the deepest block lies farthest back and so leaves
    first.

    An access finds the leading reusable blocks of its conversation up to the first that is gone, puts its
    whole content at the front, and never looks at a block that it cannot reuse: such an orphan stays where it
    was.
    """
    sizes = stream.sizes(accounting)
    blocks: list[tuple[int, int]] = []  # (conversation, serial number) from MRU to LRU
    content_of: dict[int, list[tuple[int, int]]] = {}
    serial = 0
    served = []
    for theta, reuse, content in zip(
        stream.conversation.tolist(), sizes.reuse.tolist(), sizes.content.tolist(), strict=True
    ):
        kept = content_of.get(theta, [])[:reuse]
        found = 0
        while found < len(kept) and kept[found] in blocks:
            found += 1
        served.append(found)
        now = kept + [(theta, serial + i) for i in range(content - len(kept))]
        serial += content
        blocks = (now + [block for block in blocks if block not in kept])[:capacity]
        content_of[theta] = now
    return np.array(served, dtype=np.int64)


def practical_displacement(stream: AccessStream) -> Integers:
    """D(s, e) of the practical model for s = prev(e), THEORY B9; where there is no s, more than any capacity.

    The sum over s < i < e of Z_i, and of R_prev(i) - 1 where i's conversation was last seen before s.
    """
    new = (stream.history - stream.shared).tolist()
    hashable = np.maximum(stream.shared - 1, 0).tolist()
    previous = stream.previous.tolist()
    displacement = []
    for e, s in enumerate(previous):
        if s < 0:
            displacement.append(2**62)
            continue
        between = range(s + 1, e)
        displacement.append(sum(new[i] for i in between) + sum(hashable[i] for i in between if previous[i] < s))
    return np.array(displacement, dtype=np.int64)
