"""The hit-ratio bounds (26) and (33), minimised over every admissible (epsilon, J, theta, T)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from mfmc.theory.bounds import (
    bound_constants,
    hit_ratio_bound,
    hit_ratio_parts,
    largest_theta,
    log_mgf,
)
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload

_GRID = 64


@dataclass(frozen=True)
class BestHitRatioBound:
    """The least value of (26) or (33), and where it is attained. It may exceed 1: then it says nothing."""

    value: float
    epsilon: float  # units of time
    truncation: int  # J
    theta: float  # per block
    horizon: float  # T: the least admissible, its limit T_C + epsilon


def best_hit_ratio_bound(workload: Workload, capacity: float, accounting: str = "whole") -> BestHitRatioBound:
    """The minimum of `hit_ratio_bound`: a grid over J, epsilon and theta, then a search from its best points.

    T enters through V_T alone, so the best T is the least, T_C + epsilon.
    """
    centre = float(characteristic_time(workload, capacity, accounting))
    parts, top = hit_ratio_parts(workload, accounting), largest_theta(workload)
    epsilons = centre * np.geomspace(1e-5, 1 - 1e-9, _GRID)
    thetas = top * np.geomspace(1e-4, 1, _GRID)
    # V_T is affine in T.
    low, high = (bound_constants(workload, capacity, t, accounting) for t in (centre, 2 * centre))
    slope = (high.second_moment_envelope - low.second_moment_envelope) / centre
    speed = low.smallest_slope
    chebyshev = 18 * (low.second_moment_envelope + slope * epsilons) / (capacity * (speed * epsilons) ** 2)
    exponents = log_mgf(workload, thetas) - np.multiply.outer(speed * capacity * epsilons / 3, thetas)
    tails = log_mgf(workload, thetas, power=2)
    least = []
    for truncation in range(1, parts.largest_truncation + 1):
        with np.errstate(over="ignore"):
            unlikely = chebyshev[:, None] + np.exp(exponents) / parts.survival[truncation]
            tail = 2 * np.exp(tails - thetas * (truncation + 2))
        bulk = parts.lipschitz * epsilons[:, None] * parts.reusable[truncation]
        total = bulk + parts.root_second_moments[truncation] * np.sqrt(unlikely) + tail
        index = np.unravel_index(np.argmin(total), total.shape)
        least.append((total[index], truncation, epsilons[index[0]], thetas[index[1]]))
    found = [
        _polished(workload, capacity, accounting, centre, top, *point[1:]) for point in sorted(least)[:3]
    ]
    value, epsilon, truncation, theta = min(found)
    return BestHitRatioBound(value, epsilon, truncation, theta, centre + epsilon)


def _polished(workload, capacity, accounting, centre, top, truncation, epsilon, theta):
    """Nelder-Mead in (log epsilon, log theta), clipped to the admissible box."""

    def point(x: np.ndarray) -> tuple[float, float]:
        epsilon = float(np.clip(np.exp(x[0]), 1e-8 * centre, (1 - 1e-9) * centre))
        return epsilon, float(np.clip(np.exp(x[1]), 1e-8 * top, top))

    def value(x: np.ndarray) -> float:
        epsilon, theta = point(x)
        return hit_ratio_bound(workload, capacity, epsilon, truncation, theta, accounting=accounting)

    result = minimize(value, np.log([epsilon, theta]), method="Nelder-Mead",
                      options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 200})  # fmt: skip
    epsilon, theta = point(result.x)
    return float(result.fun), epsilon, truncation, theta
