"""Three ways to count blocks, as one mechanism: the sequences new, reuse and content of a conversation.

Everything downstream (spectra, displacement, LRU) sees a model of blocks only as three integers per turn j:

* ``new_j``      blocks that turn j allocates,
* ``reuse_j``    blocks that turn j+1 can reuse, and that move to the front of the list when it does,
* ``content_j``  blocks that turn j looks up.

=============  =====================================  ==================  ==================
accounting     new_j                                  reuse_j             content_j
=============  =====================================  ==================  ==================
``whole``      Z_j                                    R_j                 R_j
``practical``  Z_j                                    R_j - 1             R_j
``token``      ceil(T_j/k) - floor(T_{j-1}/k)         floor(T_j/k)        ceil(T_j/k)
=============  =====================================  ==================  ==================

with increments Z_j, histories R_j = Z_1 + .. + Z_j, prompts of T_j tokens in all and blocks of k tokens.
``whole`` is Algorithm 1, ``practical`` the paper's Appendix C.2, ``token`` counts full (hashable) blocks.

Where a history shrinks (a compacted context), the next turn can only reuse what it still contains:
``reuse_j`` takes min(R_j, R_{j+1}) or min(T_j, T_{j+1}), and a shrunken prompt restarts R at ceil(T_j/k).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

ACCOUNTINGS = ("whole", "practical", "token")

Integers = NDArray[np.int64]


class Sequences(NamedTuple):
    """Blocks per turn, int64 [rows] each, rows as they came."""

    new: Integers
    reuse: Integers
    content: Integers


def sequences(
    accounting: str,
    increments: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    block_tokens: int | None = None,
    *,
    turn: ArrayLike,
) -> Sequences:
    """The sequences new_j, reuse_j, content_j of many conversations laid end to end.

    ``turn`` int [rows] numbers each conversation's rows 1, 2, .. in order. Give either ``increments``
    (Z_j in blocks) or ``tokens`` (T_j, all tokens of the turn-j prompt) with ``block_tokens`` (k).
    """
    first = _first_rows(turn)
    if tokens is not None:
        total = _whole_numbers("tokens", tokens, len(first))
        size_of_block = _checked_block(block_tokens)
    elif accounting == "token":
        raise InputError("accounting 'token' needs tokens and block_tokens, not increments in blocks")
    elif increments is None:
        raise InputError("sequences needs increments (blocks), or tokens with block_tokens")
    else:
        grown = _whole_numbers("increments", increments, len(first))

    if accounting == "token":
        size = total
    elif tokens is not None:
        before = _previous(total, first)
        size = histories_from_tokens(total, np.minimum(total, before), first | (total < before), size_of_block)
    else:
        size = running_sum(grown, first)

    new, reuse_before, content = access_sizes(accounting, size, _previous(size, first), block_tokens)
    last = np.roll(first, -1)
    reuse = np.where(last, _reusable(accounting, size, block_tokens), np.roll(reuse_before, -1))
    return Sequences(new, reuse, content)


def access_sizes(
    accounting: str, size: Integers, previous: Integers, block_tokens: int | None = None
) -> tuple[Integers, Integers, Integers]:
    """(new_j, reuse_{j-1}, content_j) of accesses from their size and the size one turn before (0 at turn 1).

    Size means T_j for ``token`` and R_j for the other two. Elementwise, so that rows may come in any order.
    """
    shared = np.minimum(size, previous)
    if accounting == "token":
        k = _checked_block(block_tokens)
        content = -(-size // k)
        return content - shared // k, shared // k, content
    return size - shared, _reusable(accounting, shared, block_tokens), size


def histories_from_tokens(
    total: Integers, shared: Integers, restarts: NDArray[np.bool_], block_tokens: int
) -> Integers:
    """R_j from prompts of T_j tokens: the running sum of Z_j = ceil(T_j/k) - floor(T_{j-1}/k).

    That is the paper's ceil((T_{j-1} mod k + T_j - T_{j-1}) / k). Rows lie conversation by conversation;
    ``shared`` is T_{j-1}, and ``restarts`` marks first turns and prompts that keep less than T_{j-1}, where
    R = ceil(T_j/k).
    """
    new, _, content = access_sizes("token", total, shared, block_tokens)
    return running_sum(np.where(restarts, content, new), restarts)


def prompt_totals(prompt_tokens: ArrayLike, response_tokens: ArrayLike, *, turn: ArrayLike) -> Integers:
    """T_j = T_{j-1} + response_{j-1} + prompt_j, all tokens of the turn-j prompt: int64 [rows]."""
    first = _first_rows(turn)
    response = _whole_numbers("response_tokens", response_tokens, len(first))
    prompt = _whole_numbers("prompt_tokens", prompt_tokens, len(first))
    return running_sum(prompt + _previous(response, first), first)


def _reusable(accounting: str, size: Integers, block_tokens: int | None) -> Integers:
    """Blocks of a content of this size that a later turn finds by their hash."""
    if accounting == "whole":
        return size
    if accounting == "practical":
        return np.maximum(size - 1, 0)
    if accounting == "token":
        return size // _checked_block(block_tokens)
    raise InputError(f"accounting {accounting!r} is unknown: choose one of {', '.join(ACCOUNTINGS)}")


def _first_rows(turn: ArrayLike) -> NDArray[np.bool_]:
    turn = np.asarray(turn)
    if turn.ndim != 1:
        raise InputError(f"turn must be one-dimensional, got shape {turn.shape}")
    first = turn == 1
    follows = np.zeros_like(first)
    follows[1:] = turn[1:] == turn[:-1] + 1
    if not np.all(first | follows):
        row = int(np.argmin(first | follows))
        raise InputError(f"turn row {row} is {turn[row]}: a conversation's rows are turns 1, 2, 3, .. in order")
    return first


def _previous(size: Integers, first: NDArray[np.bool_]) -> Integers:
    """The value one turn earlier; 0 at a first turn."""
    return np.where(first, 0, np.roll(size, 1))


def running_sum(values: Integers, first: NDArray[np.bool_]) -> Integers:
    """Cumulative sum that begins again at every row marked first."""
    total = np.cumsum(values)
    before = (total - values)[first]
    return total - before[np.cumsum(first) - 1]


def _whole_numbers(name: str, values: ArrayLike, rows: int) -> Integers:
    array = np.asarray(values)
    if array.shape != (rows,):
        raise InputError(f"{name} has shape {array.shape}, expected ({rows},) like turn")
    whole = array.astype(np.int64)
    bad = (whole != array) | (whole < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} row {row} is {array[row]}: expected a whole number >= 0")
    return whole


def _checked_block(block_tokens: int | None) -> int:
    if block_tokens is None or int(block_tokens) != block_tokens or block_tokens < 1:
        raise InputError(f"block_tokens is {block_tokens!r}: expected a whole number of tokens >= 1")
    return int(block_tokens)
