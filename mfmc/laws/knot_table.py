"""Exact look-up for laws whose cdf is piecewise linear (uniform, empirical), where a smooth table would not
do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["cumulative", "guide", "position", "offset", "rate", "curvature"],
    meta_fields=["steps"],
)
@dataclasses.dataclass(frozen=True)
class KnotTable:
    """Inverse of a cumulative probability that is quadratic between knots, from either end of the piece.

    A guide table brings u to within 2^steps pieces of its own, bisection finds the piece, and a quadratic
    equation the time in it, solved from the piece's left end for u < 1/2 and from its right end otherwise (no
    digits are lost in either tail). With n pieces: cumulative [n], probability at the left ends; guide int32
    [buckets + 1]; and, left ends then right ends, each [2 n]: position of the end (time), offset (probability
    below it, or above it), rate (density there), with curvature [2 n] the density's change per unit time,
    moving away from the end.
    """

    cumulative: Any
    guide: Any
    position: Any
    offset: Any
    rate: Any
    curvature: Any
    steps: int

    def at(self, v: jax.Array, upper: jax.Array) -> jax.Array:
        """The time below which a share v lies (or above which, where `upper`)."""
        dtype = v.dtype
        pieces, buckets = self.cumulative.shape[0], self.guide.shape[0] - 1
        cumulative, guide = jnp.asarray(self.cumulative, dtype), jnp.asarray(self.guide)
        p = jnp.where(upper, 1 - v, v)
        bucket = jnp.minimum((p * buckets).astype(jnp.int32), buckets - 1)
        low, high = guide[bucket], guide[bucket + 1]
        for _ in range(self.steps):
            middle = (low + high + 1) // 2
            inside = cumulative[middle] <= p
            low, high = jnp.where(inside, middle, low), jnp.where(inside, high, middle - 1)
        end = low + jnp.where(upper, pieces, 0)
        ends = (self.position, self.offset, self.rate, self.curvature)
        position, offset, rate, curvature = (jnp.asarray(array, dtype)[end] for array in ends)
        # rate x + curvature x^2 / 2 = area
        area = jnp.maximum(v - offset, 0)
        root = jnp.sqrt(jnp.maximum(rate * rate + 2 * curvature * area, 0))
        along = 2 * area / jnp.maximum(rate + root, np.finfo(dtype).tiny)
        return position + jnp.where(upper, -along, along)


def piecewise_table(
    knots: np.ndarray, heights: np.ndarray, residual: bool, horizon: float = math.inf
) -> KnotTable:
    """Table of the law with cdf `heights` at `knots`, linear in between; or of its residual gap up to
    `horizon`.
    """
    if residual:
        inside = knots < horizon
        end = min(horizon, knots[-1])
        heights = np.append(heights[inside & (knots < end)], np.interp(end, knots, heights))
        knots = np.append(knots[inside & (knots < end)], end)
    width = np.diff(knots)
    slope = np.diff(heights) / width
    if residual:
        survival = 1 - heights
        mass = width * (survival[:-1] + survival[1:]) / 2
        left_rate, right_rate, change = survival[:-1], survival[1:], slope
    else:
        mass = np.diff(heights)
        left_rate, right_rate, change = slope, slope, np.zeros_like(slope)
    keep = mass > 0
    total = mass.sum()
    mass = mass[keep] / total
    left = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
    right = np.concatenate([np.cumsum(mass[::-1])[-2::-1], [0.0]])
    buckets = 1 << min(max(int(2 * mass.size - 1).bit_length(), 1), 20)
    guide = np.searchsorted(left, np.arange(buckets + 1) / buckets, side="right") - 1
    return KnotTable(
        cumulative=left,
        guide=guide.astype(np.int32),
        position=np.concatenate([knots[:-1][keep], knots[1:][keep]]),
        offset=np.concatenate([left, right]),
        rate=np.concatenate([left_rate[keep], right_rate[keep]]) / total,
        curvature=np.concatenate([-change[keep], change[keep]]) / total,
        steps=int(np.max(np.diff(guide))).bit_length(),
    )
