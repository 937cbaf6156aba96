"""One capacity in XLA: the two-pointer replay of `two_pointer`, one lane per chunk of time, all lanes in
lockstep.

Every step of a lane either moves its tail on or serves an access; masks instead of branches, so that
thousands of lanes run as one vector program.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .accesses import Moves

MAX_LANES = 8192
MIN_LANES = 128  # with fewer in lockstep, the displacements of all accesses at once (`partition`) are sooner there
MIN_CHUNK = 1024


def lane_count(moves: Moves, capacity: int) -> int:
    """As many lanes as leave each a chunk twice as long as the accesses that fill the cache, served before it."""
    n, allocated = len(moves.held), _allocated(moves)
    chunk = max(MIN_CHUNK, 2 * n * min(capacity, allocated) // max(allocated, 1))
    return int(np.clip(n // chunk, 1, MAX_LANES))


def _allocated(moves: Moves) -> int:
    """Blocks that come in if nothing ever leaves: of a conversation's first access here, all that it holds."""
    found = np.where(moves.previous < 0, 0, moves.moved)
    return int(np.maximum(moves.held.astype(np.int64) - found, 0).sum())


def replay_lanes(moves: Moves, capacity: int, by_block: bool, lanes: int) -> NDArray:
    """Of ``moved`` the blocks that are found, int64 [n], as by the kernels of `two_pointer`."""
    held = moves.held
    n = len(held)
    fits = min(capacity, _allocated(moves) + int(held.max()))
    kind: Any = np.int64 if jax.config.jax_enable_x64 else np.int32  # type: ignore[attr-defined]
    if fits + 2 * int(held.max()) > np.iinfo(kind).max or n >= 2**31:
        raise InputError(
            f"capacity {capacity} with contents of up to {held.max()} blocks does not fit "
            f"{np.dtype(kind).name}: enable jax_enable_x64, or backend='numba'"
        )
    edges = np.linspace(0, n, lanes + 1).astype(np.int32)
    links = [array.astype(np.int32) for array in moves[:2]]
    sizes = [array.astype(kind) for array in moves[2:]]
    found = _lanes(*links, *sizes, kind(fits), edges[:-1], edges[1:], by_block)
    return np.asarray(found, dtype=np.int64)


_State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


@partial(jax.jit, static_argnames="by_block")
def _lanes(
    previous: jax.Array,
    following: jax.Array,
    held: jax.Array,
    moved: jax.Array,
    taken: jax.Array,
    capacity: jax.Array,
    begin: jax.Array,
    end: jax.Array,
    by_block: bool,
) -> jax.Array:
    n = len(held)

    def remains(position: jax.Array, now: jax.Array) -> jax.Array:
        """Blocks still held at a position just before access ``now``."""
        return held[position] - jnp.where(following[position] < now, taken[position], 0)

    def look_back(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        position, total = state
        unfilled = (position > 0) & (total <= capacity)
        position = position - unfilled
        return position, total + jnp.where(unfilled, remains(position, begin), 0)

    def unfilled(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        position, total = state
        return jnp.any((position > 0) & (total <= capacity))

    # Start every lane where the blocks held from there to its chunk overflow the cache (or at the beginning).
    start, _ = jax.lax.while_loop(unfilled, look_back, (begin, jnp.zeros_like(begin, held.dtype)))

    def step(state: _State) -> _State:
        access, tail, above, found = state
        running = access < end
        e = jnp.minimum(access, n - 1)
        at_tail = jnp.minimum(tail, n - 1)
        waits = (following[at_tail] >= access) & (following[at_tail] < n)
        wants = 1 if by_block else jnp.where(waits, taken[at_tail], 0)
        full = running & (tail < access) & (above + wants > capacity)
        serves = running & ~full
        last, wanted = previous[e], moved[e]
        rest = jnp.minimum(wanted, capacity - above) if by_block else wanted
        here = jnp.where(last > tail, wanted, jnp.where(last == tail, rest, 0))
        place = jnp.where(serves & (access >= begin), e, n)
        found = found.at[place].set(here, mode="drop", unique_indices=False)
        entered = jnp.where(access > tail, held[e], 0) - jnp.where(last > tail, wanted, 0)
        tail = tail + full
        left = jnp.where(tail < access, remains(jnp.minimum(tail, n - 1), access), 0)
        above = above + jnp.where(serves, entered, 0) - jnp.where(full, left, 0)
        return access + serves, tail, above, found

    found = jnp.zeros(n, held.dtype)
    state = (start, start, jnp.zeros_like(begin, held.dtype), found)
    return jax.lax.while_loop(lambda state: jnp.any(state[0] < end), step, state)[3]
