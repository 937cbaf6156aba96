"""Discrete laws as alias tables: one 64-bit random word in, one outcome out, two memory reads (Walker 1977, Vose 1991).

Many laws ("rows") lie in one flat table, each padded to a power of two, so that a lane can look up any of them.
The upper bits of a word choose a cell, its lower 32 bits decide between the cell's own outcome and its alias:
probabilities are kept to 2^-32 of a cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.buckets import padded

_BITS = 5  # bits of a row's address that hold log2 of its number of cells
_ADDRESS = 30  # bits of an address, so that two of them and a few flags fit into 64


#: An array: NumPy's while tables are built, JAX's once they are on a device.
Leaf = Any


class AliasTable(NamedTuple):
    """Cells of all rows. A row is addressed by `offset << 5 | log2(cells)` (uint32)."""

    cell: Leaf  # uint64: threshold << 32 | index of the alias cell
    values: Leaf  # int32 [columns, cells]


def build(rows: list[tuple[np.ndarray, np.ndarray]]) -> tuple[AliasTable, np.ndarray]:
    """The table of `rows = [(values [n, columns], probabilities [n]), ...]`, and each row's address (uint32)."""
    cells, values, addresses, offset = [], [], [], 0
    for outcome, probability in rows:
        bits = int(len(probability) - 1).bit_length()
        threshold, alias = _vose(probability, 1 << bits)
        cells.append(threshold << np.uint64(32) | (alias + offset).astype(np.uint64))
        filled = np.zeros((1 << bits, outcome.shape[1]), dtype=np.int32)
        filled[: len(outcome)] = outcome
        values.append(filled)
        addresses.append(offset << _BITS | bits)
        offset += 1 << bits
    if offset >= 1 << (_ADDRESS - _BITS):
        raise ValueError(f"{offset} cells of alias tables: more than an address of {_ADDRESS - _BITS} bits can hold")
    table = AliasTable(padded(np.concatenate(cells)), padded(np.ascontiguousarray(np.concatenate(values).T)))
    return table, np.array(addresses, dtype=np.uint32)


def _vose(probability: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds (of 2^32, uint64) and alias indices of one row."""
    scaled = np.zeros(cells)
    scaled[: len(probability)] = probability / probability.sum() * cells
    alias = np.arange(cells)
    keep = np.ones(cells)
    small = [i for i in range(cells) if scaled[i] < 1]
    large = [i for i in range(cells) if scaled[i] >= 1]
    while small and large:
        less, more = small.pop(), large[-1]
        keep[less], alias[less] = scaled[less], more
        scaled[more] -= 1 - scaled[less]
        if scaled[more] < 1:
            small.append(large.pop())
    threshold = np.minimum(np.rint(keep * 2.0**32), 2.0**32 - 1).astype(np.uint64)
    # A cell that keeps everything is its own alias, so the one value in 2^32 beyond its threshold does no harm;
    # what rounding left in `small` is such a cell too.
    return threshold, alias


def pick(table: AliasTable, address: jax.Array, word: jax.Array) -> jax.Array:
    """The cell that a word chooses in the row at `address`."""
    bits = (address & np.uint32((1 << _BITS) - 1)).astype(jnp.uint64)
    offset = (address >> np.uint32(_BITS)).astype(jnp.int32)
    # Two shifts, since a row of one cell would ask for a shift by 64.
    own = offset + ((word >> np.uint64(1)) >> (np.uint64(63) - bits)).astype(jnp.int32)
    cell = table.cell.at[own].get(mode="promise_in_bounds")
    lower = word & np.uint64(0xFFFFFFFF)
    return jnp.where(lower < (cell >> np.uint64(32)), own, (cell & np.uint64(0xFFFFFFFF)).astype(jnp.int32))


def values(table: AliasTable, cell: jax.Array) -> tuple[jax.Array, ...]:
    """The outcome in every column: int32 arrays like `cell`."""
    return tuple(column.at[cell].get(mode="promise_in_bounds") for column in table.values)


class CountTable(NamedTuple):
    """A Poisson law by inversion: exact at any rate, where jax.random.poisson is biased (it casts to float32)."""

    first: Leaf  # int64: count at index 0
    cdf: Leaf  # float64


def poisson_table(rate: float) -> CountTable:
    """Counts within 9 standard deviations and a bit of the mean: all but 1e-18 of the mass."""
    from scipy.stats import poisson

    spread = 9 * np.sqrt(rate) + 40
    first, last = max(0, int(rate - spread)), int(rate + spread)
    return CountTable(np.int64(first), padded(poisson.cdf(np.arange(first, last), rate)))


def poisson(table: CountTable, uniform: jax.Array) -> jax.Array:
    """The count with cdf just above `uniform`: int64."""
    return table.first + jnp.searchsorted(table.cdf, uniform, side="right")
