"""The displacement D(prev(e), e) of every access (THEORY B8) in XLA: a few stable partitions on bits of a
rank.

D(s, e) = sum_{s<i<e} held_i - sum_{i<e, prev(i)>s} moved_i. The second sum runs over earlier returns with a
later previous access: a two-dimensional dominance sum. Rank the returns by prev and split them by digits of
the rank, the top digit first, keeping time order within each part; at every split a return collects the
``moved`` of the earlier ones with a lower digit in its part. Within tiles of a few rows all pairs are
compared, across tiles counts and weights per digit are added up. No sort, no branch, and a handful of
passes for millions of accesses.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .accesses import NEVER, Moves

TILE_BITS, DIGIT_BITS = 5, 4
TILE = 1 << TILE_BITS


def displacements(moves: Moves) -> NDArray[np.int64]:
    """D(prev(e), e) of every access, int64 [n]; NEVER where there is no prev(e). Contents must never shrink."""
    previous, following, held, moved, _ = moves
    n = len(held)
    rows = _padded(n)
    kind = _word(int(held.sum()) - int(moved[previous >= 0].sum()))
    # Unsigned sums may wrap around on the way: what an access has in front of it is below the total.
    arrays: list[NDArray] = [np.zeros(rows, kind), np.zeros(rows, kind), np.full(rows, -1, np.int32)]
    for array, values in zip(arrays, (held, moved, previous), strict=True):
        array[:n] = values
    awaits = np.zeros(rows, np.bool_)
    awaits[:n] = following < n
    displaced = np.asarray(_displacements(*arrays, awaits))[:n].astype(np.int64)
    return np.where(previous >= 0, displaced, NEVER)


def _padded(n: int) -> int:
    """Row counts come in few sizes, so that streams of like length share one compiled program."""
    step = 1 << max(n.bit_length() - 3, 8)
    return -(-n // step) * step


def _word(total: int) -> type:
    if total < 2**32:
        return np.uint32
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError(
            f"the stream allocates {total} blocks, too many for 32 bits: enable jax_enable_x64, or backend='numba'"
        )
    return np.uint64


@jax.jit
def _displacements(held: jax.Array, moved: jax.Array, previous: jax.Array, awaits: jax.Array) -> jax.Array:
    returns = previous >= 0
    before = jnp.maximum(previous, 0)
    # Key: the returns by the rank of prev(e), then everything else; a permutation of the rows.
    by_previous = _exclusive(awaits.astype(jnp.int32))[before]
    other = jnp.sum(returns, dtype=jnp.int32) + _exclusive((~returns).astype(jnp.int32))
    key = jnp.where(returns, by_previous, other)
    weight = jnp.where(returns, moved, 0)
    above = _exclusive(held)
    removed = _exclusive(weight) - _dominated(key, weight)[key]
    return above - above[before] - held[before] - removed


def _dominated(key: jax.Array, weight: jax.Array) -> jax.Array:
    """out[key[i]] = the sum of weight[j] over j < i with key[j] < key[i]; keys are a permutation of the
    rows.
    """
    collected = jnp.zeros_like(weight)
    bits = max(len(key) - 1, 1).bit_length()  # rows with equal key >> bits lie together, from that << bits on
    while bits > TILE_BITS:
        lower = max(bits - DIGIT_BITS, TILE_BITS)
        collected, place = _split(key, weight, collected, bits, lower)
        key, weight, collected = (_moved_to(place, array) for array in (key, weight, collected))
        bits = lower
    keys, weights = key.reshape(-1, TILE), weight.reshape(-1, TILE)
    collected += _sum_of_earlier(keys[:, None, :] < keys[:, :, None], weights).reshape(-1)
    return _moved_to(key, collected)


def _split(
    key: jax.Array, weight: jax.Array, collected: jax.Array, bits: int, lower: int
) -> tuple[jax.Array, jax.Array]:
    """Split the parts of equal key >> bits by key >> lower: what each row has collected then, and its new
    place.
    """
    digit = ((key >> lower) & ((1 << (bits - lower)) - 1)).reshape(-1, TILE)
    weights = weight.reshape(-1, TILE)
    one_hot = digit[:, :, None] == jnp.arange(1 << (bits - lower), dtype=key.dtype)
    count = jnp.sum(one_hot, axis=1, dtype=jnp.int32)
    total = jnp.sum(jnp.where(one_hot, weights[:, :, None], 0), axis=1, dtype=weight.dtype)
    # Per digit, from the beginning of the part to each tile; a part begins at a tile, as it has 2^bits rows.
    begin = (jnp.arange(len(digit)) * TILE >> bits << bits) // TILE
    count, total = (_exclusive(sums) - _exclusive(sums)[begin] for sums in (count, total))
    lower_digits = jnp.take_along_axis(_exclusive(total, axis=1), digit, axis=1)
    collected += (lower_digits + _sum_of_earlier(digit[:, None, :] < digit[:, :, None], weights)).reshape(-1)
    rank = _sum_of_earlier(digit[:, None, :] == digit[:, :, None], jnp.ones_like(digit))
    rank += jnp.take_along_axis(count, digit, axis=1)
    return collected, (key >> lower << lower) + rank.reshape(-1)


def _sum_of_earlier(pairs: jax.Array, weights: jax.Array) -> jax.Array:
    """sum over j < i of weights[tile, j] where pairs[tile, i, j]: [tiles, TILE]."""
    earlier = pairs & jnp.tril(jnp.ones((TILE, TILE), bool), -1)
    return jnp.sum(jnp.where(earlier, weights[:, None, :], 0), axis=2, dtype=weights.dtype)


def _moved_to(place: jax.Array, array: jax.Array) -> jax.Array:
    return jnp.zeros_like(array).at[place].set(array, unique_indices=True, mode="promise_in_bounds")


def _exclusive(values: jax.Array, axis: int = 0) -> jax.Array:
    return jnp.cumsum(values, axis=axis, dtype=values.dtype) - values
