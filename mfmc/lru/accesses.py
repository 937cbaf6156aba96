"""A stream of accesses: who asks for how many blocks, and when; the input of every LRU kernel.

Accesses lie in time order. **Equal times keep the order of the rows they came in** (a stable sort), so a
batch of requests with one time stamp is served in file order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from ..accounting import access_sizes, histories_from_tokens, running_sum
from ..errors import InputError

Integers = NDArray[np.int64]
NEVER = -(2**62)  # the displacement of an access that no cache serves: negative whatever blocks are added


class Sizes(NamedTuple):
    """Blocks per access under one accounting, int64 [n] each (THEORY B3 seen from the access).

    An access takes ``moved`` blocks from where its conversation last stood and leaves ``held`` blocks at
    the front; ``held - moved`` of them are newly allocated. It looks up ``content`` blocks, of which
    ``reuse`` can be served. ``moved`` equals ``reuse`` but where a content shrinks under Algorithm 1, which
    frees what the new one lacks.
    """

    held: Integers
    moved: Integers
    reuse: Integers
    content: Integers


class Moves(NamedTuple):
    """All that an LRU kernel reads, arrays [n]: links between accesses, and blocks at their places in the
    list, in 32 bits wherever they fit, since kernels wait for memory.

    ``taken`` blocks leave the place of an access when its conversation returns: ``moved`` of its next access;
    without a return, anything from 0 to ``held``.
    """

    previous: NDArray
    next: NDArray
    held: NDArray
    moved: NDArray
    taken: NDArray


@dataclass(frozen=True, eq=False)
class AccessStream:
    """n accesses in time order.

    ``history`` (R) counts the blocks of a conversation's content after the access, ``shared`` those of them
    that it had before; ``previous`` and ``next`` index the accesses of the same conversation before and
    after (-1 and n where there is none). Ids of conversations are kept as they came, whole numbers as int64.
    With ``tokens`` (T), ``shared_tokens`` and ``block_tokens`` (k) the token accounting is there too.
    ``row`` is the place of each access in the arrays it came from; ``final`` marks a conversation's last turn
    (its last access here, unless the stream was told). ``counted`` marks the accesses that
    ratios count (all, unless the stream was given a warm-up).
    """

    time: NDArray[np.float64]
    conversation: NDArray
    history: Integers
    shared: Integers
    previous: Integers
    next: Integers
    row: Integers
    final: NDArray[np.bool_]
    tokens: Integers | None = None
    shared_tokens: Integers | None = None
    block_tokens: int | None = None
    counted: slice = field(default_factory=lambda: slice(None))

    def __len__(self) -> int:
        return len(self.time)

    @property
    def accountings(self) -> tuple[str, ...]:
        """The accountings this stream has the data for."""
        return ("whole", "practical") if self.tokens is None else ("whole", "practical", "token")

    def sizes(self, accounting: str = "whole") -> Sizes:
        """Blocks held, moved, reusable and looked up by each access."""
        if accounting not in self._cache:
            self._cache[accounting] = self._sizes(accounting)
        return self._cache[accounting]

    def moves(self, accounting: str = "whole", eviction: str = "conversation") -> Moves:
        """What the kernels read. Block by block, what a shrunken content lacks is not freed but evicted."""
        key = f"{accounting} {eviction}"
        if key not in self._cache:
            sizes = self.sizes(accounting)
            narrow = narrowest(max(int(sizes.held.max()), int(sizes.moved.max())))
            held = sizes.held.astype(narrow)
            moved = sizes.moved if accounting == "whole" and eviction == "conversation" else sizes.reuse
            if moved is sizes.moved and accounting == "whole":
                taken = held
            else:
                taken = taken_by_return(moved, self.next).astype(narrow)
            self._cache[key] = Moves(self.previous, self.next, held, moved.astype(narrow), taken)
        return self._cache[key]

    def shrinks(self, accounting: str = "whole", eviction: str = "conversation") -> bool:
        """Some content loses blocks that Algorithm 1 frees at once: what lies before an access can fall again."""
        sizes = self.sizes(accounting)
        return eviction == "conversation" and sizes.moved is not sizes.reuse

    def looked_up(self, accounting: str = "whole") -> int:
        """Blocks that the counted accesses look up: the denominator of (12) and (24)."""
        key = f"{accounting} looked up"
        if key not in self._cache:
            self._cache[key] = int(self.sizes(accounting).content[self.counted].sum())
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[str, Any]:
        return {}

    def _sizes(self, accounting: str) -> Sizes:
        if accounting == "token":
            if self.tokens is None or self.shared_tokens is None:
                raise InputError("accounting 'token' needs token counts: make the stream with tokens and block_tokens")
            size, shared = self.tokens, self.shared_tokens
        else:
            size, shared = self.history, self.shared
        new, reuse, content = access_sizes(accounting, size, shared, self.block_tokens)
        held = content if accounting == "whole" else new + reuse
        moved = reuse
        if accounting == "whole":  # Algorithm 1 line 4 replaces the content: what it no longer has is free
            had = np.where(self.previous < 0, shared, content[self.previous])
            moved = had if np.any(had != reuse) else reuse
        return Sizes(held, moved, reuse, content)


def accesses_from_arrays(
    time: ArrayLike,
    conversation: ArrayLike,
    history: ArrayLike | None = None,
    new: ArrayLike | None = None,
    *,
    tokens: ArrayLike | None = None,
    new_tokens: ArrayLike | None = None,
    block_tokens: int | None = None,
    final: ArrayLike | None = None,
) -> AccessStream:
    """An access stream from one row per access, in any order.

    ``time`` (finite), ``conversation`` (whole numbers or strings) and sizes after each access:

    * ``history`` R in blocks (>= 1); ``new`` Z in blocks (0..R) where known, otherwise what R grew by. R -
      Z blocks were there before: at most the conversation's previous R, which may be larger (a compacted
      context) or equal. Without ``history``, R is the running sum of ``new``.
    * or ``tokens`` T of the whole prompt with ``block_tokens`` k, and ``new_tokens`` likewise; R follows
      the paper's Appendix E unless ``history`` is given as well.

    ``final`` (bool) tells which accesses are their conversation's last turn, where the stream may end
    before it.

    Raises InputError that names the first offending row.
    """
    times = np.asarray(time, dtype=np.float64)
    if times.ndim != 1 or not len(times):
        raise InputError(f"time has shape {times.shape}: expected a time per access, and at least one access")
    _require("time", times, np.isfinite(times), "expected a finite number")
    ids = conversation_numbers(conversation, len(times))
    row = np.argsort(times, kind="stable")
    previous, following, by_conversation = links(ids[row])
    if block_tokens is not None and block_tokens < 1:
        raise InputError(f"block_tokens is {block_tokens}: expected a whole number of tokens >= 1")

    total = shared_tokens = None
    if tokens is not None:
        if block_tokens is None:
            raise InputError("tokens need block_tokens: how many tokens a block holds")
        total = _checked("tokens", tokens, row, least=1)
        shared_tokens = _shared("tokens", total, "new_tokens", new_tokens, row, previous)
    if history is not None:
        size = _checked("history", history, row, least=1)
        shared = _shared("history", size, "new", new, row, previous)
    elif new is not None:
        increments = _checked("new", new, row, least=0)
        size = np.empty_like(increments)
        size[by_conversation] = running_sum(increments[by_conversation], previous[by_conversation] < 0)
        _require("new", increments, size > 0, "a conversation's first access allocates at least one block", row)
        shared = size - increments
    elif total is not None and shared_tokens is not None and block_tokens is not None:
        size, shared = _histories_of_prompts(total, shared_tokens, block_tokens, previous, by_conversation)
    else:
        raise InputError("an access stream needs history or new (blocks), or tokens with block_tokens")
    _refuse_overflow(size if total is None else np.maximum(size, total))
    owner = np.asarray(conversation)[row]
    if owner.dtype.kind in "iuf":
        owner = owner.astype(np.int64, copy=False)
    ends = following == len(times)
    if final is not None:
        told = np.asarray(final, dtype=bool)
        if told.shape != row.shape:
            raise InputError(f"final has shape {told.shape}, expected {row.shape} like time")
        told = told[row]
        _require("final", told, ~told | ends, "its conversation has a later access", row)
        ends = told
    return AccessStream(
        times[row], owner, size, shared, previous, following, row, ends, total, shared_tokens, block_tokens
    )


def _shared(
    size_name: str, size: Integers, new_name: str, new: ArrayLike | None, row: Integers, previous: Integers
) -> Integers:
    """How much of each access's content its conversation had before (in time order)."""
    seen = previous >= 0
    before = np.where(seen, size[previous], 0)
    if new is None:
        return np.minimum(size, before)
    fresh = _checked(new_name, new, row, least=0)
    _require(new_name, fresh, fresh <= size, f"it cannot allocate more than the {size_name} it leaves", row)
    kept = ~seen | (size - fresh <= before)
    _require(size_name, size, kept, f"without {new_name} it exceeds the conversation's {size_name} before", row)
    return size - fresh


def _histories_of_prompts(
    total: Integers, shared: Integers, block_tokens: int, previous: Integers, by_conversation: Integers
) -> tuple[Integers, Integers]:
    """Histories R, and the blocks of each that were there before, from prompts in time order."""
    first = previous < 0
    restarts = first | (shared < total[previous])
    size = np.empty_like(total)
    order = by_conversation
    size[order] = histories_from_tokens(total[order], shared[order], restarts[order], block_tokens)
    before = np.where(first, size, size[previous])
    kept = np.minimum(np.minimum(size, before), -(-shared // block_tokens))
    return size, np.where(restarts, kept, before)


def taken_by_return(moved: NDArray, following: NDArray) -> NDArray:
    """``moved`` of the next access of every access; 0 where there is none."""
    n = len(moved)
    return np.where(following < n, moved[np.minimum(following, n - 1)], 0)


def narrowest(largest: int) -> Any:
    """The signed integers that hold ``largest``, in 32 bits or 64."""
    return np.int32 if largest < 2**31 else np.int64


def links(conversation: Integers) -> tuple[NDArray, NDArray, NDArray]:
    """previous [n], next [n], and the accesses sorted by conversation, then time; ids as numbered below."""
    n = len(conversation)
    index = narrowest(n)
    # Compressing a sparse matrix by rows is a counting sort: stable, and linear in the accesses.
    cells = conversation.astype(index), np.arange(n, dtype=index)
    table = coo_array((np.ones(n, np.int8), cells), shape=(int(conversation.max()) + 1, n)).tocsr()
    by_conversation, edges = table.indices.astype(np.intp), table.indptr
    previous, following = np.empty(n, index), np.empty(n, index)
    previous[by_conversation[1:]] = by_conversation[:-1]
    previous[by_conversation[edges[:-1]]] = -1
    following[by_conversation[:-1]] = by_conversation[1:]
    following[by_conversation[edges[1:] - 1]] = n
    return previous, following, by_conversation


def conversation_numbers(conversation: ArrayLike, rows: int) -> Integers:
    """Ids as numbers from 0 up, not many more than there are rows."""
    ids = np.asarray(conversation)
    if ids.shape != (rows,):
        raise InputError(f"conversation has shape {ids.shape}, expected ({rows},) like time")
    if ids.dtype.kind == "f":
        _require(
            "conversation",
            ids,
            np.isfinite(ids) & (ids == np.floor(ids)),
            "expected a whole number or a string",
        )
    if ids.dtype.kind in "iu" and int(ids.max()) - int(ids.min()) < 16 * rows:
        wide = ids if ids.dtype.kind == "u" else ids.astype(np.int64, copy=False)
        return (wide - wide.min()).astype(np.int64, copy=False)
    return np.unique(ids, return_inverse=True)[1].astype(np.int64, copy=False)


def _checked(name: str, values: ArrayLike, row: Integers, least: int) -> Integers:
    """Whole numbers in time order; ``row`` is the time order of the rows."""
    array = np.asarray(values)
    if array.shape != row.shape:
        raise InputError(f"{name} has shape {array.shape}, expected {row.shape} like time")
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} holds {array.dtype}: expected whole numbers")
    good = (array >= least) & (array < 2**62)
    if array.dtype.kind == "f":
        good &= array == np.floor(array)
    _require(name, array, good, f"expected a whole number from {least} to 2^62 - 1")
    return array[row].astype(np.int64, copy=False)


def _refuse_overflow(size: Integers) -> None:
    if size.sum(dtype=np.float64) >= 2.0**62:
        raise InputError("the sizes add up to 2^62 blocks or more: give them in larger blocks")


def _require(name: str, values: NDArray, good: NDArray[np.bool_], message: str, row: Integers | None = None) -> None:
    """Refuse the first offending row of the input (``row`` maps values in time order back to it)."""
    if good.all():
        return
    bad = np.flatnonzero(~good)
    worst = bad[0] if row is None else bad[np.argmin(row[bad])]
    raise InputError(f"{name} row {worst if row is None else row[worst]} is {values[worst]}: {message}")
