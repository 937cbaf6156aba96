"""The memory that a hit ratio takes, corrected from the closed form (THEORY B7) to the exact finite-N law."""

from __future__ import annotations

import math

from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import capacity_for, hit_ratio_slope
from mfmc.workload import Workload


def exact_capacity(
    workload: Workload,
    hit_ratio: float,
    accounting: str = "whole",
    tolerance: float = 0.0,
    eviction: str = "conversation",
) -> int:
    """The fewest whole blocks N whose exact h(N) (THEORY B4) reaches `hit_ratio`, or one within `tolerance`
    of it; ``eviction`` as in `hit_ratio_exact`.

    Newton's steps with the mean-field slope dh/dN from the mean-field answer, kept inside what is already
    known to be too little and enough. Raises InputError as `capacity_for` does.
    """
    start = capacity_for(workload, hit_ratio, accounting)
    slope = float(hit_ratio_slope(workload, start, accounting))
    too_little, enough, before = 0.0, math.inf, None
    capacity = max(round(start), 1)
    while enough - too_little > 1:
        error = hit_ratio_exact(workload, capacity, accounting, eviction=eviction) - hit_ratio
        if abs(error) <= tolerance:
            return capacity
        if error < 0:
            too_little = capacity
        else:
            enough = capacity
        if before is not None and (error - before[1]) * (capacity - before[0]) > 0:
            slope = (error - before[1]) / (capacity - before[0])
        before = capacity, error
        step = -error / slope if slope > 0 else math.copysign(capacity, -error)
        lowest, highest = too_little + 1, min(enough - 1, 2 * capacity + 1)
        capacity = int(min(max(round(capacity + step), lowest), highest)) if lowest <= highest else capacity
    return int(enough)
