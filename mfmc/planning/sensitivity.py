"""How the hit ratio answers to memory, load and pace: exact derivatives of the mean field by automatic
differentiation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.laws.gaps import EmpiricalGaps
from mfmc.theory.mean_field import hit_ratio
from mfmc.words import require_double_precision
from mfmc.workload import Workload

#: Leaves of the gap laws that are times; all others (shapes, weights, probabilities) do not change with the
#: pace.
TIMES = ("mean", "means", "low", "high", "knots")


#: Of a recorded law, F is joined by lines between points at least so far apart, in probability and as a ratio of times.
SMOOTH_LEVELS, SMOOTH_RATIO = 64, 1.05


class Sensitivities(NamedTuple):
    """dh/dN per block, dh/d(arrival rate) in units of time per conversation, dh/d(mean gap) per unit of time
    (all gaps stretched alike), and the same as elasticities-of-1%: change of h for 1% more.
    """

    hit_ratio: float
    per_block: float
    per_arrival_rate: float
    per_mean_gap: float
    one_percent_capacity: float
    one_percent_arrival_rate: float
    one_percent_mean_gap: float


def sensitivities(workload: Workload, capacity: float, accounting: str = "whole") -> Sensitivities:
    """Derivatives of the mean-field hit ratio at `capacity` blocks. Needs 64-bit types.

    Recorded gaps have no density: many may be equal, and one block more or less crosses them all at once. Their law is
    smoothed first (`smoothed`).
    """
    require_double_precision("a derivative of the hit ratio")
    gaps = smoothed(workload.gaps)

    def ratio(logs: Any) -> Any:
        size, rate, pace = jnp.exp(logs)
        changed = dataclasses.replace(
            workload, arrival_rate=workload.arrival_rate * rate, gaps=stretched(gaps, pace)
        )
        return hit_ratio(changed, capacity * size, accounting)

    by_capacity, by_rate, by_gap = map(float, jax.grad(ratio)(jnp.zeros(3)))
    return Sensitivities(
        float(hit_ratio(workload, capacity, accounting)),
        by_capacity / capacity,
        by_rate / float(workload.arrival_rate),
        by_gap / float(workload.gaps.mean),
        by_capacity / 100,
        by_rate / 100,
        by_gap / 100,
    )


def smoothed(gaps: Any) -> Any:
    """A recorded law at no more than SMOOTH_LEVELS points of F, none closer than SMOOTH_RATIO; others as they are."""
    if not isinstance(gaps, EmpiricalGaps):
        return gaps
    knots, heights = map(np.asarray, gaps.piecewise())
    levels = np.arange(1, SMOOTH_LEVELS + 1) / SMOOTH_LEVELS
    times = np.interp(levels, heights, knots)
    kept = [SMOOTH_LEVELS - 1]
    for i in range(SMOOTH_LEVELS - 2, -1, -1):
        if 0 < times[i] * SMOOTH_RATIO < times[kept[-1]]:
            kept.append(i)
    return EmpiricalGaps.from_cdf(times[kept[::-1]], levels[kept[::-1]])


def stretched(gaps: Any, factor: Any) -> Any:
    """The law of `factor` times the gap."""

    def leaf(path: Any, value: Any) -> Any:
        return value * factor if any(getattr(key, "name", None) in TIMES for key in path) else jnp.asarray(value)

    arrays = jax.tree.map(jnp.asarray, gaps)
    return jax.tree_util.tree_map_with_path(leaf, arrays)
