"""The hit-ratio bounds (26) and (33), minimised over every admissible (epsilon, J, theta, T)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from mfmc.theory.bounds import bound_constants, hit_ratio_parts, largest_theta, log_mgf
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
    # V_T is affine in T.
    low, high = (bound_constants(workload, capacity, t, accounting) for t in (centre, 2 * centre))
    slope, speed = (high.second_moment_envelope - low.second_moment_envelope) / centre, low.smallest_slope

    def bounds(truncation: int, epsilon: np.ndarray, theta: np.ndarray, mgf: tuple) -> np.ndarray:
        """(26) at T = T_C + epsilon; `mgf` holds log E[e^{theta B}] and log E[B^2 e^{theta B}]."""
        chebyshev = 18 * (low.second_moment_envelope + slope * epsilon) / (capacity * (speed * epsilon) ** 2)
        with np.errstate(over="ignore"):
            exponential = np.exp(mgf[0] - theta * speed * capacity * epsilon / 3) / parts.survival[truncation]
            tail = 2 * np.exp(mgf[1] - theta * (truncation + 2))
        bulk = parts.lipschitz * epsilon * parts.reusable[truncation]
        deviation = parts.root_second_moments[truncation] * np.sqrt(chebyshev + exponential)
        return (bulk + deviation + tail) / parts.content

    epsilons = centre * np.geomspace(1e-5, 1 - 1e-9, _GRID)[:, None]
    thetas = top * np.geomspace(1e-4, 1, _GRID)
    mgf = log_mgf(workload, thetas), log_mgf(workload, thetas, power=2)
    least = []
    for truncation in range(1, parts.largest_truncation + 1):
        total = bounds(truncation, epsilons, thetas, mgf)
        row, column = np.unravel_index(np.argmin(total), total.shape)
        least.append((total[row, column], truncation, epsilons[row, 0], thetas[column]))

    def polished(truncation: int, epsilon: float, theta: float) -> tuple[float, int, float, float]:
        """Nelder-Mead in (log epsilon, log theta), clipped to the admissible box."""

        def point(x: np.ndarray) -> tuple[float, float]:
            shares = np.clip(np.exp(np.minimum(x, 0)), 1e-8, [1 - 1e-9, 1])
            return float(shares[0] * centre), float(shares[1] * top)

        def value(x: np.ndarray) -> float:
            epsilon, theta = point(x)
            mgf = log_mgf(workload, theta), log_mgf(workload, theta, power=2)
            return float(bounds(truncation, np.asarray(epsilon), np.asarray(theta), mgf))

        result = minimize(value, np.log([epsilon / centre, theta / top]), method="Nelder-Mead",
                          options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 150})  # fmt: skip
        return float(result.fun), truncation, *point(result.x)

    value, truncation, epsilon, theta = min(polished(*start[1:]) for start in sorted(least)[:3])
    return BestHitRatioBound(value, epsilon, truncation, theta, centre + epsilon)
