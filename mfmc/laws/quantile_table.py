"""Quantile tables: a random word becomes a gap by a handful of gathers, on any device, inside any loop.

`quantile_table(law)` and `residual_table(law, horizon)` are built once, on the host, in float64;
`lookup(table, u)` and `lookup_words(table, words)` are the jittable inverses. Smooth laws get a cubic Hermite
table on cells that shrink geometrically toward both ends of (0, 1), so that the relative error is uniform
over the tails; laws whose cdf is piecewise linear are inverted exactly, piece by piece
(`mfmc.laws.knot_table`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.buckets import padded
from mfmc.errors import InputError
from mfmc.laws.inversion import gap_functions, residual_functions, solve_quantile
from mfmc.laws.knot_table import KnotTable, piecewise_table
from mfmc.laws.namespace import NUMPY
from mfmc.laws.uniform_words import tails_from_words

if TYPE_CHECKING:
    from mfmc.laws.gap_law import GapLaw

OCTAVES = 64
"""Octaves of v = min(u, 1 - u) in a table, from 1/2 down to 2^-65, the smallest v that a random word makes.
"""

TABLE_ERROR = 2e-11
"""Relative error, against the law's own quantile, to which a table is refined."""

FIRST_BITS, LAST_BITS = 4, 16
"""log2 of the number of cells per octave that a table starts from and may reach."""


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["coefficients", "octave_start", "octave_bits"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class HermiteTable:
    """Cubic pieces of u -> t: 2^octave_bits equal cells in each octave of v = min(u, 1 - u).

    coefficients: float64 [4 cells], four per cell, for 1, s, s^2, s^3 with s in [0, 1) the place in the cell;
    they lie side by side so that the four gathers of a lane touch one cache line. octave_start, octave_bits:
    int32 [2 OCTAVES], first cell and log2 of the number of cells of each octave; the lower half of (0, 1)
    first, either half from its end of (0, 1) to the middle.
    """

    coefficients: Any
    octave_start: Any
    octave_bits: Any

    def at(self, v: jax.Array, upper: jax.Array) -> jax.Array:
        """The time below which a share v lies (or above which, where `upper`)."""
        dtype = v.dtype
        info = np.finfo(dtype)
        word = np.dtype(f"uint{info.bits}").type
        v = jnp.clip(v, 2.0 ** -(OCTAVES + 1), 0.5 - info.epsneg / 2)
        pattern = jax.lax.bitcast_convert_type(v, word)
        exponent = (pattern >> word(info.nmant)).astype(jnp.int32)
        bias = 1 - int(info.minexp)
        octave = exponent - (bias - OCTAVES - 1) + jnp.where(upper, OCTAVES, 0)
        bits = _gather(self.octave_bits, octave).astype(word)
        mantissa = pattern & word((1 << info.nmant) - 1)
        cell = _gather(self.octave_start, octave) + (mantissa >> (word(info.nmant) - bits)).astype(jnp.int32)
        # The mantissa bits below the cell's, moved to the top of a float in [1, 2), are the place in it.
        one = word(bias << info.nmant)
        place = ((mantissa << bits) & word((1 << info.nmant) - 1)) | one
        s = jax.lax.bitcast_convert_type(place, dtype) - 1
        flat = jnp.asarray(self.coefficients, dtype)
        c0, c1, c2, c3 = (_gather(flat, 4 * cell + k) for k in range(4))
        return c0 + s * (c1 + s * (c2 + s * c3))


def _gather(array: Any, index: jax.Array) -> jax.Array:
    return jnp.asarray(array).at[index].get(mode="promise_in_bounds")


QuantileTable = HermiteTable | KnotTable


def lookup(table: QuantileTable, u: jax.Array) -> jax.Array:
    """The time t that the table's law leaves below with probability u, for u in (0, 1), of any shape."""
    u = jnp.asarray(u)
    upper = u >= 0.5
    return table.at(jnp.where(upper, 1 - u, u), upper)


def lookup_words(table: QuantileTable, words: jax.Array) -> jax.Array:
    """Times from random words (`mfmc.laws.uniform_words.random_words`): uint64 [...], or uint32 [..., 2]."""
    return table.at(*tails_from_words(words))


def quantile_table(law: GapLaw) -> QuantileTable:
    """Table of the gap's quantile; its leaves are numpy arrays, so `jax.device_put` it before a loop."""
    law = law.concrete()
    if hasattr(law, "piecewise"):
        knots, heights = law.piecewise()
        return piecewise_table(knots, heights, residual=False)

    def inverse(p: np.ndarray, q: np.ndarray, start: Any) -> tuple[np.ndarray, np.ndarray]:
        if law.is_solved(residual=False):
            t = solve_quantile(NUMPY, law, gap_functions, p, q, start)
        else:
            t = law._inverse(NUMPY, p, q)
        return t, 1 / law._density(NUMPY, t)

    return _refine(law, inverse)


def residual_table(law: GapLaw, horizon: float = math.inf) -> QuantileTable:
    """Table of the residual gap given that it is at most `horizon`: the inverse of I(r) / I(horizon)."""
    if not horizon > 0:
        raise InputError(f"residual_table: horizon={horizon!r} is not allowed; give a time above 0")
    law = law.concrete()
    if hasattr(law, "piecewise"):
        knots, heights = law.piecewise()
        return piecewise_table(knots, heights, residual=True, horizon=horizon)
    mean = law.mean
    share = float(law.residence(horizon)) / mean
    beyond = float(law.excess(horizon)) / mean

    def inverse(p: np.ndarray, q: np.ndarray, start: Any) -> tuple[np.ndarray, np.ndarray]:
        p, q = p * share, beyond + q * share
        if law.is_solved(residual=True):
            t = solve_quantile(NUMPY, law, residual_functions, p, q, start)
        else:
            t = law._residual_inverse(NUMPY, p, q)
        return t, mean * share / law._survival(NUMPY, t)

    return _refine(law, inverse)


@functools.lru_cache(maxsize=32)
def cached_table(law: GapLaw, residual: bool) -> QuantileTable:
    """The law's table, built once; the law must be hashable (plain float parameters)."""
    return residual_table(law) if residual else quantile_table(law)


def _refine(law: GapLaw, inverse: Callable) -> HermiteTable:
    """Halve the cells of each octave until its cubics meet the next nodes to TABLE_ERROR."""
    octave = np.tile(2.0 ** -(np.arange(OCTAVES, 0, -1) + 1.0), 2)[:, None]  # lower end of v, [octave, 1]
    upper = np.arange(2 * OCTAVES) >= OCTAVES

    def solve(rows: np.ndarray, place: np.ndarray, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """t and dt/dv, [len(rows), len(place)], at the places in [0, 1] of these octaves."""
        t, slope = (np.empty((rows.size, place.size)) for _ in range(2))
        for side in (False, True):  # one half at a time, so that only one tail of the law is evaluated
            mine = upper[rows] == side
            v = octave[rows[mine]] * (1 + place)
            guess = None if start is None else start[mine]
            t[mine], slope[mine] = inverse(1 - v, v, guess) if side else inverse(v, 1 - v, guess)
        return t, np.where(upper[rows, None], -slope, slope)

    pieces: list[np.ndarray] = [np.empty(0)] * (2 * OCTAVES)
    bits, rows = FIRST_BITS, np.arange(2 * OCTAVES)
    with np.errstate(all="ignore"):
        t, slope = solve(rows, np.arange((1 << bits) + 1) / (1 << bits), None)
        while rows.size:
            coefficients, middle = _cubics(t, slope * octave[rows] / (1 << bits))
            inside = (middle - t[:, 1:]) * (middle - t[:, :-1]) < 0
            start = np.where(inside, middle, np.sqrt(t[:, 1:]) * np.sqrt(t[:, :-1]))
            exact, exact_slope = solve(rows, (np.arange(1 << bits) + 0.5) / (1 << bits), start)
            # Below the smallest normal numbers only the absolute error can be kept.
            error = np.abs(middle - exact) / np.maximum(exact, np.finfo(float).tiny * 1e16)
            bad = ~(error.max(axis=1) <= TABLE_ERROR)
            for row, piece in zip(rows[~bad], coefficients[~bad]):
                pieces[row] = piece
            if bad.any() and bits == LAST_BITS:
                raise InputError(f"no table of {law} to a relative error of {TABLE_ERROR}: its quantiles "
                                 "span too many orders of magnitude; give lighter tails")  # fmt: skip
            t, slope = _interleave(t[bad], exact[bad]), _interleave(slope[bad], exact_slope[bad])
            rows, bits = rows[bad], bits + 1
    sizes = np.array([piece.shape[0] for piece in pieces])
    return HermiteTable(
        coefficients=padded(np.concatenate(pieces).ravel()),
        octave_start=(np.cumsum(sizes) - sizes).astype(np.int32),
        octave_bits=np.log2(sizes).astype(np.int32),
    )


def _cubics(t: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hermite coefficients [..., cell, 4] from values and slopes (per cell) at the nodes; mid-cell values."""
    rise = np.diff(t, axis=-1)
    left, right = slope[..., :-1], slope[..., 1:]
    middle = t[..., :-1] + rise / 2 + (left - right) / 8
    square, cube = 3 * rise - 2 * left - right, left + right - 2 * rise
    return np.stack([t[..., :-1], left, square, cube], axis=-1), middle


def _interleave(nodes: np.ndarray, middles: np.ndarray) -> np.ndarray:
    merged = np.empty((*nodes.shape[:-1], nodes.shape[-1] + middles.shape[-1]))
    merged[..., ::2], merged[..., 1::2] = nodes, middles
    return merged
