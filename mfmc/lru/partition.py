"""The displacement D(prev(e), e) of every access (THEORY B8) in XLA: one stable partition per bit of a rank.

D(s, e) = sum_{s<i<e} held_i - sum_{i<e, prev(i)>s} moved_i. The second sum runs over earlier returns with a
later previous access: a two-dimensional dominance sum. Rank the returns by prev and split them, from the
top bit down, into those with bit 0 and those with bit 1, keeping time order within each; at every split a
return with bit 1 collects the ``moved`` of the earlier ones with bit 0 in its group. Cumulative sums and
scatters, no sort, no branch.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .accesses import Integers


def displacements(
    previous: Integers, following: Integers, held: Integers, moved: Integers
) -> NDArray[np.int64]:
    """D(prev(e), e) of every access, int64 [n]; -1 where there is no prev(e). Contents must never shrink."""
    n = len(held)
    rows = _padded(n)
    kind = _word(int(held.sum()) - int(moved[previous >= 0].sum()))
    # Unsigned sums may wrap around on the way: what an access has in front of it at the end is below the
    # total.
    arrays = (np.zeros(rows, kind), np.zeros(rows, kind), np.full(rows, -1, np.int32))
    for array, values in zip(arrays, (held, moved, previous), strict=True):
        array[:n] = values
    awaits = np.zeros(rows, np.bool_)
    awaits[:n] = following < n
    displaced = np.asarray(_displacements(*arrays, awaits))[:n].astype(np.int64)
    return np.where(previous >= 0, displaced, -1)


def _padded(n: int) -> int:
    """Row counts come in few sizes, so that streams of like length share one compiled program."""
    step = 1 << max(n.bit_length() - 3, 8)
    return -(-n // step) * step


def _word(total: int) -> type:
    if total < 2**32:
        return np.uint32
    if not jax.config.jax_enable_x64:
        raise InputError(
            f"the stream allocates {total} blocks, too many for 32 bits: enable jax_enable_x64, "
            "or backend='numba'"
        )
    return np.uint64


@jax.jit
def _displacements(held: jax.Array, moved: jax.Array, previous: jax.Array, awaits: jax.Array) -> jax.Array:
    rows = len(held)
    returns = previous >= 0
    before = jnp.maximum(previous, 0)
    # Key: the returns by the rank of prev(e), then everything else; a permutation of the rows.
    by_previous = _exclusive(awaits.astype(jnp.int32))[before]
    other = jnp.sum(returns) + _exclusive((~returns).astype(jnp.int32))
    key = jnp.where(returns, by_previous, other).astype(jnp.int32)
    weight = jnp.where(returns, moved, 0)
    bits = max(rows - 1, 1).bit_length()

    def split(step: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        keys, weights, collected = state
        bit = bits - 1 - step
        low = (keys >> bit) & 1 == 0
        group = (keys >> (bit + 1)) << (
            bit + 1
        )  # keys are a permutation: this is also where the group begins
        lows = _exclusive(low.astype(jnp.int32))
        sums = _exclusive(jnp.where(low, weights, 0))
        rank = lows - lows[group]
        collected = collected + jnp.where(low, 0, sums - sums[group])
        place = jnp.where(low, group + rank, (1 << bit) + jnp.arange(rows, dtype=jnp.int32) - rank)
        return tuple(
            jnp.zeros_like(array).at[place].set(array, unique_indices=True)
            for array in (keys, weights, collected)
        )

    _, _, earlier = jax.lax.fori_loop(0, bits, split, (key, weight, jnp.zeros_like(weight)))
    # earlier[key]: moved of the earlier returns with an earlier previous access.
    above = _exclusive(held)
    removed = _exclusive(weight) - earlier[key]
    return above - above[before] - held[before] - removed


def _exclusive(values: jax.Array) -> jax.Array:
    return jnp.cumsum(values, dtype=values.dtype) - values
