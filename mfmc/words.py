"""Random 64-bit words by counter: the raw material of the samplers.

Threefry, JAX's own generator, costs about 5 ns a word on a CPU core, more than all the rest of a sampling step. So
JAX keys seed *lanes*, and within a lane word n is the SplitMix64 finaliser (Steele, Lea and Flood 2014) of
`state + n * gamma`, 1 ns a word. State and gamma (odd) of every lane are 128 bits drawn by Threefry from
`fold_in(key, replication)`, so that results depend on the replication alone: not on the chunk, the device or the order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.errors import InputError


class Lanes(NamedTuple):
    """Seeds of independent streams; uint64 arrays of one shape."""

    state: jax.Array
    gamma: jax.Array


def require_double_precision(what: str = "Monte Carlo") -> None:
    """Words, masses and derivatives need 64 bits; the application, not the library, switches them on."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError(
            f"{what} needs 64-bit types: set runtime.precision=float64"
            " (in a program of your own: jax.config.update('jax_enable_x64', True))"
        )


def lanes(key: jax.Array, replications: jax.Array, count: int) -> Lanes:
    """Seeds of `count` lanes for each replication index: arrays [replications, count]."""

    def one(replication: jax.Array) -> jax.Array:
        return jax.random.bits(jax.random.fold_in(key, replication), (count, 2), jnp.uint64)

    bits = jax.vmap(one)(replications)
    return Lanes(bits[..., 0], bits[..., 1] | np.uint64(1))


def word(lane: Lanes, counter: jax.Array) -> jax.Array:
    """Word number `counter` of every lane: uint64."""
    z = lane.state + counter.astype(jnp.uint64) * lane.gamma
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(bits: jax.Array) -> jax.Array:
    """float64 in the open interval (0, 1) from the upper 53 bits of a word."""
    return ((bits >> np.uint64(11)).astype(jnp.float64) + 0.5) * 2.0**-53
