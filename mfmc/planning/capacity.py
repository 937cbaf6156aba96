"""The memory that a hit ratio takes (THEORY B7): closed form, and corrected to the exact finite-N law."""

from __future__ import annotations

from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import capacity_for, hit_ratio_slope
from mfmc.workload import Workload

STEPS = 6


def plan_capacity(workload: Workload, hit_ratio: float, accounting: str = "whole") -> float:
    """Blocks whose mean-field hit ratio is `hit_ratio`; InputError at or above the reuse ceiling."""
    return capacity_for(workload, hit_ratio, accounting)


def exact_capacity(workload: Workload, hit_ratio: float, accounting: str = "whole", tolerance: float = 1e-6) -> float:
    """Blocks N at which the exact h(N) (THEORY B4) is `hit_ratio`, to `tolerance` in the hit ratio.

    Secant steps from the mean-field answer with its slope dh/dN: h(N) is smooth between whole N where sizes vary,
    and a few steps suffice. Raises InputError as `plan_capacity` does.
    """
    capacity = capacity_for(workload, hit_ratio, accounting)
    slope = float(hit_ratio_slope(workload, capacity, accounting))
    error = hit_ratio_exact(workload, capacity, accounting) - hit_ratio
    for _ in range(STEPS):
        if abs(error) <= tolerance or slope <= 0:
            break
        previous, before = capacity, error
        capacity = max(capacity - error / slope, capacity / 2)
        error = hit_ratio_exact(workload, capacity, accounting) - hit_ratio
        if error != before and capacity != previous:
            measured = (error - before) / (capacity - previous)
            slope = measured if measured > 0 else slope
    return capacity
