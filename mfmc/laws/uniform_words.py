"""Uniform numbers with full relative precision in both tails, from random words."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def random_words(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """63 random bits and a sign: uint64 [*shape] under x64, else uint32 [*shape, 2] (high word, low word)."""
    if jnp.result_type(float) == jnp.float64:
        return jax.random.bits(key, shape, jnp.uint64)
    return jax.random.bits(key, (*shape, 2), jnp.uint32)


def tails_from_words(words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(v, upper): the top bit says whether U is above 1/2, the others give v = min(U, 1 - U) in (0, 1/2).

    U = v or 1 - v is uniform on (0, 1); v keeps the full relative precision of its float type down to 2^-65,
    where a float U close to 1 could not. `words` as made by `random_words`: uint64, or a last axis of two
    uint32.
    """
    if words.dtype == jnp.uint64:
        upper = (words >> 63).astype(bool)
        integer = (words & jnp.uint64((1 << 63) - 1)).astype(jnp.float64)
        return jnp.minimum((integer + 0.5) * 2.0**-64, 0.5), upper
    high, low = words[..., 0], words[..., 1]
    upper = (high >> 31).astype(bool)
    top = (high & jnp.uint32((1 << 31) - 1)).astype(jnp.float32) * 2.0**-32
    return jnp.minimum(top + (low.astype(jnp.float32) + 0.5) * 2.0**-64, 0.5), upper


def random_tails(key: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """(v, upper) of `shape`: a uniform number as `tails_from_words` gives it."""
    return tails_from_words(random_words(key, tuple(shape)))
