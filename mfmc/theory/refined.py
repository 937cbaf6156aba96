"""The refined mean field h(N) = h_inf + c/N + O(N^-2), for every accounting (THEORY B5).

Write N v(t) for the variance of D_N(t), d' for the slope of d, delta for the span of the lattice that D_N(t)
lives on, and expand P(D_N(t) <= N - r) about the normal law, with the middle of the lattice step that N - r
falls in as the threshold. The skewness of D_N(t) drops out of int f(t) P(D_N(t) <= N - r) dt at order 1/N,
and at t = T_C

    c A_R = E[sum_j reuse_j] (1/(2 d')) d/dt[f v / d']
            - (f/d') E[sum_j reuse_j (reuse_j + o(reuse_j) - delta/2)]

with o(r) = (N - r) mod delta: nothing else depends on the accounting. For delta = 1 this is B5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfmc.laws.renewal import iterated_integrals
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.mean_field import characteristic_time, displacement_rate, hit_ratio
from mfmc.workload import Workload

#: Standard deviations of tau_C about T_C within which the density of the gap has to be smooth.
_WINDOW = 8.0


@dataclass(frozen=True)
class RefinedHitRatio:
    """The refined hit ratio at one capacity N, or a statement of why there is none."""

    value: float  # h_inf + coefficient / N where it applies, else the exact h(N)
    mean_field: float  # h_inf
    coefficient: float  # c in blocks; else N (h(N) - h_inf), the exact value's own slope in 1/N
    applies: bool
    statement: str


def hit_ratio_refined(workload: Workload, capacity: float, accounting: str = "whole") -> float:
    """h_inf + c/N; where the expansion does not apply, the exact h(N). `refined_hit_ratio` says which."""
    return refined_hit_ratio(workload, capacity, accounting).value


def refined_hit_ratio(workload: Workload, capacity: float, accounting: str = "whole") -> RefinedHitRatio:
    """The expansion at `capacity` blocks, with c and whether it applies."""
    limit = float(hit_ratio(workload, capacity, accounting))
    time = float(characteristic_time(workload, capacity, accounting))
    law = DisplacementLaw(workload, accounting)
    slope = float(displacement_rate(workload, time, accounting))
    spread = float(np.sqrt(law.cumulant(2, time))) / slope
    obstacle = _obstacle(workload, time, spread)
    if not obstacle:
        coefficient = refined_coefficient(workload, capacity, accounting)
        value = limit + coefficient / capacity
        if not -1e-12 <= value <= law.profile.reuse_ceiling + 1e-12:
            obstacle = f"limit + c/N = {value:.3g}, no hit ratio: N={capacity:g} is too small; the exact value is given"
    if obstacle:
        exact = hit_ratio_exact(workload, capacity, accounting)
        return RefinedHitRatio(exact, limit, capacity * (exact - limit), False, obstacle)
    return RefinedHitRatio(value, limit, coefficient, True, "the density of the gap is smooth about T_C")


def refined_coefficient(workload: Workload, capacity: float, accounting: str = "whole") -> float:
    """c of B5 in blocks, whether or not f is smooth at T_C; it varies with N only through N mod span."""
    profile, gaps, law = workload.profile(accounting), workload.gaps, DisplacementLaw(workload, accounting)
    time = float(characteristic_time(workload, capacity, accounting))
    density, bend = float(gaps.density(time)), float(gaps.density_derivative(time))
    # Rates per unit of capacity: d', d'', v and v' of the paper's normalisation.
    slope = float(displacement_rate(workload, time, accounting)) / capacity
    curvature = -law.rate * profile.reusable * density / capacity
    variance = float(law.cumulant(2, time)) / capacity
    variance_slope = _variance_slope(law, time) / capacity
    drift = (
        bend * variance / slope + density * variance_slope / slope - density * variance * curvature / slope**2
    )
    sizes, weights = np.maximum(profile.reuse.support, 0), profile.reuse.weight
    step = law.span
    lost = float(weights @ (sizes * (sizes + (capacity - sizes) % step - step / 2)))
    return (profile.reusable * drift / (2 * slope) - density / slope * lost) / profile.content


def _variance_slope(law: DisplacementLaw, time: float) -> float:
    """d/dt Var D_N(t) = arrival_rate sum_k F^{*k}(t) sum_r r^2 coefficients[k, r], in blocks^2 per unit time.

    F^{*0} = 1 and F^{*1} = F are known; the rest, small corrections, by differences of fourth order.
    """
    moments = law.coefficients @ law.support.astype(float) ** 2
    known = moments[0] + moments[1] * float(law.workload.gaps.cdf(time))
    if moments.size == 2:
        return law.rate * known
    step = 2e-3 * time
    nodes = iterated_integrals(law.workload.gaps, time + step * np.array([-2, -1, 1, 2]), moments.size)
    return law.rate * (known + float(moments[2:] @ nodes[2:] @ np.array([1, -8, 8, -1])) / (12 * step))


def _obstacle(workload: Workload, time: float, spread: float) -> str:
    """Why the expansion does not apply, or nothing."""
    points = np.asarray(workload.gaps.breakpoints, dtype=float)
    close = np.abs(points - time) < _WINDOW * spread
    if not close.any():
        return ""
    nearest = points[np.argmin(np.abs(points - time))]
    away = abs(nearest - time) / spread
    return (
        f"the density of the gap jumps or kinks at t={nearest:g}, {away:.2g} sd of tau_C away from "
        f"T_C={time:g}: h(N) - h_inf has no expansion in 1/N at this capacity; the exact value is given"
    )
