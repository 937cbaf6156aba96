"""The few events of a path that are looked into one by one: gathered from all accesses and sorted in time."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mfmc.conversations import Accesses


class Events(NamedTuple):
    """The events that are looked into, in time order: arrays [replications, buffer]."""

    time: jax.Array
    cell: jax.Array
    mass: tuple[jax.Array, ...]


def look_into(accesses: Accesses, wanted: jax.Array, count: int, buffer: int) -> tuple[Events, jax.Array]:
    """Gather and sort the events of the wanted cells; and whether they were more than the buffer holds.

    Flags are packed into words of 32 steps, so that a search over a few words finds the n-th event.
    """
    steps, width = wanted.shape
    bit = (jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32))[None, :, None]
    chosen = (wanted & (accesses.mass[0] > 0)).reshape(-1, 32, width)
    packed = jnp.sum(jnp.where(chosen, bit, jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    packed = packed.reshape(steps // 32, count, width // count).transpose(1, 2, 0).reshape(count, -1)
    until = jnp.cumsum(jax.lax.population_count(packed).astype(jnp.int32), axis=1)
    slot = jnp.arange(buffer, dtype=jnp.int32)
    group = jax.vmap(lambda u: jnp.searchsorted(u, slot, side="right").astype(jnp.int32))(until)
    group = jnp.minimum(group, packed.shape[1] - 1)
    row = jnp.arange(count, dtype=jnp.int32)[:, None]
    starts = jnp.pad(until, ((0, 0), (1, 0)))
    before = starts.reshape(-1)[row * starts.shape[1] + group]
    position = _nth_set_bit(packed.reshape(-1)[row * packed.shape[1] + group], slot - before)
    lane, word_of_steps = group // (steps // 32), group % (steps // 32)
    source = ((32 * word_of_steps + position) * width + row * (width // count) + lane).reshape(-1)
    used = slot < until[:, -1:]

    def take(array: jax.Array, unused: float) -> jax.Array:
        return jnp.where(used, array.reshape(-1)[source].reshape(count, buffer), unused)

    time, cell, *mass = jax.lax.sort(
        (take(accesses.time, jnp.inf), take(accesses.place, 0), *(take(m, 0) for m in accesses.mass)), num_keys=1
    )
    return Events(time, cell, tuple(mass)), until[:, -1] > buffer


def _nth_set_bit(bits: jax.Array, n: jax.Array) -> jax.Array:
    """Position of the set bit number n (from 0), by halving the word."""
    position = jnp.zeros_like(n)
    for width in (16, 8, 4, 2, 1):
        low = bits & jnp.uint32((1 << width) - 1)
        below = jax.lax.population_count(low).astype(n.dtype)
        above = n >= below
        position = position + jnp.where(above, width, 0)
        n = jnp.where(above, n - below, n)
        bits = jnp.where(above, bits >> jnp.uint32(width), low)
    return position
