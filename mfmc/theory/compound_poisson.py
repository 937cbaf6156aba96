"""Exact finite-N quantities: the law of D_N(t), of the characteristic time tau_C(j), and the hit ratio h(N).

THEORY B2-B4. Nothing here is simulated or asymptotic, and the cost does not grow with N.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from mfmc.errors import InputError
from mfmc.laws.spectrum import Spectrum
from mfmc.theory.chernoff import TailTable
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.lattice_inversion import ALIASED, LatticeInversion
from mfmc.theory.mean_field import check_capacity
from mfmc.theory.quadrature import integrate
from mfmc.theory.residence import ResidenceCurve
from mfmc.workload import Workload

EVICTIONS = ("conversation", "block")


def hit_ratio_exact(
    workload: Workload, capacity: float, accounting: str = "whole", eviction: str = "conversation"
) -> float:
    """h(N) = sum_r r a(r) int f(t) P(D_N(t) <= N - r) dt / A_R (THEORY B4); `capacity` N in blocks.

    a(r) = E[#{j < M : reuse_j = r}], and A_R are the expected blocks looked up. `eviction`: a ``conversation``
    leaves whole, as above, or a ``block`` at a time, the deepest first, where the i-th block of a content
    stays while D_N(t) <= N - i: sum_r r a(r) P(D <= N - r) becomes sum_i P(D <= N - i) sum_{r >= i} a(r).
    Absolute error below 1e-11; for practical and token accounting under gap laws without closed F^{*k}, plus
    about f(T_C) T_C times `mfmc.laws.renewal.iterated_error` (1e-12 for smooth laws, 1e-5 for recorded gaps; with
    more than some 20 turns, recorded gaps add up to 1e-5).
    """
    check_capacity(capacity)
    if eviction not in EVICTIONS:
        raise InputError(f"eviction={eviction!r}: choose one of {', '.join(EVICTIONS)}")
    profile = workload.profile(accounting)
    size, weight = np.maximum(profile.reuse.support, 0), profile.reuse.weight / profile.content
    if eviction == "block":
        deeper = np.cumsum(np.bincount(size, weight)[::-1])[::-1]
        tagged = Spectrum.from_dense(deeper[1:], 1)
    else:
        tagged = Spectrum(profile.reuse.support, size * weight)
    return resident_at_gap(workload, ResidenceCurve(workload, capacity, accounting, tagged))


def resident_at_gap(workload: Workload, curve: ResidenceCurve) -> float:
    """int f(t) curve(t) dt, f the density of the gap: the weight in memory when the next turn comes."""
    gaps = workload.gaps
    total = curve.mass * float(gaps.cdf(curve.window[0]))
    if curve.mass == 0:
        return total
    breakpoints = np.unique(np.asarray(gaps.breakpoints, dtype=float))
    for left, right in curve.pieces:
        # From 0, t = right v^4 smooths densities with a pole there (gamma or Weibull gaps of shape below 1).
        power = 4 if left == 0 else 1

        def integrand(v: np.ndarray, right=right, power=power) -> np.ndarray:
            times = right * v**power
            return (
                np.asarray(gaps.density(times), dtype=float)
                * curve(times)
                * (power * right * v ** (power - 1))
            )

        inner = breakpoints[(breakpoints > left) & (breakpoints < right)]
        edges = np.unique(np.concatenate(([left, (left + right) / 2, right], inner)) / right) ** (1 / power)
        total += integrate(integrand, edges, 1e-15 * curve.mass)
    return total


def displacement_cdf(workload: Workload, x: ArrayLike, time: float, accounting: str = "whole") -> np.ndarray:
    """P(D_N(time) <= x), x in blocks; the shape of `x`. Absolute error about 1e-14."""
    level = np.asarray(x, dtype=float)
    if np.any(np.isnan(level)) or np.ndim(time) or not (time >= 0 and np.isfinite(time)):
        raise InputError(f"x={x!r}, time={time!r}: expected numbers, and one finite time of at least 0")
    flat = np.minimum(np.floor(level.ravel()), _unreachable(workload, time, accounting))
    return _cdf_values(workload, flat, time, accounting).reshape(level.shape)


def _unreachable(workload: Workload, time: float, accounting: str) -> float:
    """A level above which D_N(time) lies with probability below 1e-15."""
    law = DisplacementLaw(workload, accounting)
    spread = max(float(np.sqrt(law.cumulant(2, time))), 1.0)
    return law.span * (np.ceil(TailTable(law, spread / law.span).highest(law.integrals([time]), ALIASED)) + 1)


def _cdf_values(workload: Workload, x: np.ndarray, time: float, accounting: str) -> np.ndarray:
    if x.size == 0 or x.max() < 0:
        return np.zeros(x.shape)
    law = DisplacementLaw(workload, accounting, largest=max(x.max(), 0.0))
    integrals = law.integrals([time])
    spread = max(float(np.sqrt(law.cumulant(2, time))), 1.0)
    tails = TailTable(law, spread / law.span)
    low = int(np.floor(tails.lowest(integrals, ALIASED)))
    high = max(int(np.ceil(tails.highest(integrals, ALIASED))), low + 1)
    inversion = LatticeInversion(
        law, tails, np.zeros(1, dtype=np.int64), np.ones(1), (low, high), (time, time)
    )
    level = np.floor(x / law.span)
    inside = np.clip(level, low, high)
    values = inversion(np.full(x.shape, time), inside)
    return np.where(level < max(low, 0), 0.0, values)


def displacement_quantile(
    workload: Workload, probability: float, time: float, accounting: str = "whole"
) -> int:
    """The smallest whole x with P(D_N(time) <= x) >= probability, 0 < probability < 1, in blocks."""
    _check_probability(probability)
    if np.ndim(probability):
        raise InputError(f"probability={probability!r}: expected one number")
    low, high = -1, int(_unreachable(workload, time, accounting))
    while high - low > 1:
        points = np.unique(np.linspace(low, high, 66).astype(np.int64))[1:-1]
        reached = np.append(displacement_cdf(workload, points, time, accounting) >= probability, True)
        index = int(np.argmax(reached))
        ends = np.concatenate(([low], points, [high]))
        low, high = int(ends[index]), int(ends[index + 1])
    return high


def characteristic_time_cdf(
    workload: Workload, t: ArrayLike, capacity: float, turn: int, accounting: str = "whole"
) -> np.ndarray:
    """P(tau_C(turn) <= t) = 1 - sum_r P(reuse_turn = r) P(D_N(t) <= N - r) (B4); the shape of `t`.

    tau_C is that of Definition B.8, of a conversation that reaches `turn`; contents above N have tau_C = 0.
    """
    t = np.asarray(t, dtype=float)
    curve = _turn_curve(workload, capacity, turn, accounting)
    return np.where(t < 0, 0.0, 1.0 - curve(t.ravel()).reshape(t.shape))


def characteristic_time_quantile(
    workload: Workload, probability: ArrayLike, capacity: float, turn: int, accounting: str = "whole"
) -> np.ndarray:
    """The time t with P(tau_C(turn) <= t) = probability, in (0, 1); its shape, in units of time."""
    probability = np.asarray(probability, dtype=float)
    _check_probability(probability)
    curve = _turn_curve(workload, capacity, turn, accounting)

    def one(p: float) -> float:
        low, high = curve.window
        if 1 - curve.mass >= p:
            return 0.0
        return brentq(
            lambda t: float(curve(np.array([t]))[0]) - (1 - p), low, high, xtol=1e-14 * high, rtol=1e-14
        )

    return np.vectorize(one, otypes=[float])(probability)[()]


def _turn_curve(workload: Workload, capacity: float, turn: int, accounting: str) -> ResidenceCurve:
    check_capacity(capacity)
    return ResidenceCurve(workload, capacity, accounting, workload.profile(accounting).turn_reuse(turn))


def _check_probability(probability: ArrayLike) -> None:
    if not np.all((np.asarray(probability) > 0) & (np.asarray(probability) < 1)):
        raise InputError(f"probability={probability!r}: expected numbers strictly between 0 and 1")


def displacement_cumulant(
    workload: Workload, order: int, time: ArrayLike, accounting: str = "whole"
) -> np.ndarray:
    """kappa_order of D_N(time) in blocks^order: mean (1), variance (2), .. (B2); the shape of `time`."""
    if not (isinstance(order, int) and order >= 1):
        raise InputError(f"order={order!r}: expected a whole number of at least 1")
    return DisplacementLaw(workload, accounting).cumulant(order, time)


def displacement_log_mgf(
    workload: Workload, tilt: ArrayLike, time: float, accounting: str = "whole"
) -> np.ndarray:
    """log E[exp(tilt D_N(time))], `tilt` per block; its shape. Infinite where e^(tilt r) overflows."""
    law, tilt = DisplacementLaw(workload, accounting), np.asarray(tilt, dtype=float)
    intensity = law.intensity(law.integrals([time]))[0]
    with np.errstate(over="ignore"):
        return (np.expm1(np.multiply.outer(tilt, law.support.astype(float))) @ intensity)[()]
