"""Bounds as in Theorems C.2 and C.4, but sharp: Chebyshev with the exact variance, and Chernoff.

Both rest on the exact law of D_N(t) (THEORY B2, B3), whose variance is several times below the envelope V_T
of (42) and whose log moment generating function makes bounds exponential in N where (16) is polynomial. They
hold for every accounting and need neither the independence of Assumption B.2 nor growing histories.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfmc.errors import InputError
from mfmc.theory.chernoff import FINE, TailTable
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels, lattice_offsets
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload

#: Grids of the union bound: cells per epsilon of mean displacement. The best of them is taken.
_CELLS_PER_EPSILON = (1.5, 2, 3, 4, 6, 8, 12, 16, 24)


def pointwise_chebyshev(
    workload: Workload, capacity: float, epsilon: ArrayLike, time: float, accounting: str = "whole"
) -> np.ndarray:
    """Var D_N(time) / (N epsilon)^2, a bound of P(|D_N(time)/N - d(time)| > epsilon) at most 1; its shape."""
    epsilon = _checked(capacity, epsilon, "epsilon")
    variance = DisplacementLaw(workload, accounting).cumulant(2, time)
    return np.minimum(variance / (capacity * epsilon) ** 2, 1.0)


def pointwise_chernoff(
    workload: Workload, capacity: float, epsilon: ArrayLike, time: float, accounting: str = "whole"
) -> np.ndarray:
    """Chernoff's bound of P(|D_N(time)/N - d(time)| > epsilon), both sides, at most 1; `epsilon`'s shape."""
    epsilon = _checked(capacity, epsilon, "epsilon")
    law = DisplacementLaw(workload, accounting)
    low, high = deviation_levels(law.mean(time), capacity * epsilon.ravel())
    times = np.full(epsilon.size, float(time))
    above, below = _tails(law, time).above, _tails(law, time).below
    integrals, span = law.integrals(times), law.span
    both = np.exp(-above(integrals, high // span)) + np.exp(-below(integrals, low // span))
    return np.minimum(both, 1.0).reshape(epsilon.shape)


def uniform_chebyshev(
    workload: Workload, capacity: float, epsilon: ArrayLike, horizon: float, accounting: str = "whole"
) -> np.ndarray:
    """Bound of P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon) by one-sided Chebyshev on a grid.

    The best of several grids, at most 1; the shape of `epsilon`.
    """

    def sides(law, integrals, low, high, mean):
        variance = law.coefficients @ law.support.astype(float) ** 2 @ integrals
        room_above, room_below = np.maximum(high - mean, 0), np.maximum(mean - low, 0)
        return _cantelli(variance, room_above), _cantelli(variance, room_below)

    return _union(workload, capacity, epsilon, horizon, accounting, sides)


def uniform_chernoff(
    workload: Workload, capacity: float, epsilon: ArrayLike, horizon: float, accounting: str = "whole"
) -> np.ndarray:
    """Bound of P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon) by Chernoff on a grid.

    The best of several grids, at most 1; the shape of `epsilon`.
    """
    tails = _tails(DisplacementLaw(workload, accounting), horizon)

    def sides(law, integrals, low, high, mean):
        above = tails.above(integrals, np.floor(high / law.span))
        below = tails.below(integrals, np.floor((np.ceil(low) - 1) / law.span))
        return np.exp(-above), np.exp(-below)

    return _union(workload, capacity, epsilon, horizon, accounting, sides)


def _union(workload, capacity, epsilon, horizon, accounting, sides) -> np.ndarray:
    """Union bound over a grid: between grid times, D_N and d are squeezed by their values at both ends.

    D_N(t) > N (d(t) + epsilon) in [t_k, t_{k+1}] forces D_N(t_{k+1}) > N (d(t_k) + epsilon), and
    D_N(t) < N (d(t) - epsilon) forces D_N(t_k) < N (d(t_{k+1}) - epsilon). The grid is even in d.
    """
    epsilon = _checked(capacity, epsilon, "epsilon")
    if not horizon > 0:
        raise InputError(f"horizon={horizon!r}: expected a positive time")
    law = DisplacementLaw(workload, accounting)
    total = float(law.mean(horizon))

    def one(eps: float) -> float:
        best = 1.0
        for per_epsilon in _CELLS_PER_EPSILON:
            cells = int(np.ceil(total / (capacity * eps) * per_epsilon)) + 1
            if cells > 20_000:
                break
            times = np.interp(np.linspace(0, total, cells + 1), *_mean_curve(law, horizon))
            mean = law.mean(times)
            integrals = law.integrals(times)
            above, _ = sides(law, integrals[:, 1:], np.zeros(cells), mean[:-1] + capacity * eps, mean[1:])
            _, below = sides(
                law, integrals[:, :-1], mean[1:] - capacity * eps, np.full(cells, np.inf), mean[:-1]
            )
            best = min(best, float(above.sum() + below.sum()))
        return best

    return np.vectorize(one, otypes=[float])(epsilon)[()]


def _mean_curve(law: DisplacementLaw, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of the inverse of the mean displacement, only to place a grid."""
    times = np.linspace(0, horizon, 2001)
    return law.mean(times), times


def characteristic_time_chebyshev(
    workload: Workload, capacity: float, epsilon: ArrayLike, turn: int, accounting: str = "whole"
) -> np.ndarray:
    """Bound of P(|tau_C(turn) - T_C| > epsilon) by one-sided Chebyshev on D_N(T_C -+ epsilon) + reuse_turn.

    At most 1; `epsilon` > 0 in units of time; its shape.
    """
    law, tagged, (early, late) = _both_ends(workload, capacity, epsilon, turn, accounting)
    tag_mean = tagged.moment(1)
    tag_variance = tagged.moment(2) - tag_mean**2
    room_early = np.maximum(capacity - law.mean(early) - tag_mean, 0)
    room_late = np.maximum(law.mean(late) + tag_mean - capacity, 0)
    before = _cantelli(law.cumulant(2, early) + tag_variance, room_early)
    after = _cantelli(law.cumulant(2, late) + tag_variance, room_late)
    return _both(np.where(early > 0, before, 0.0), after, epsilon)


def characteristic_time_chernoff(
    workload: Workload, capacity: float, epsilon: ArrayLike, turn: int, accounting: str = "whole"
) -> np.ndarray:
    """Chernoff's bound of P(|tau_C(turn) - T_C| > epsilon), from the law of D_N(T_C -+ epsilon) + reuse_turn.

    At most 1; `epsilon` > 0 in units of time; its shape.
    """
    law, tagged, (early, late) = _both_ends(workload, capacity, epsilon, turn, accounting)
    span, level = law.span, int(capacity // law.span)
    offsets, probabilities = lattice_offsets(tagged, int(capacity), span)
    centre = float(characteristic_time(workload, capacity, accounting))
    scale = np.sqrt(float(law.cumulant(2, centre)) / span**2 + tagged.moment(2) / span**2)
    tails = TailTable(law, max(float(scale), 1.0), offsets, probabilities, FINE)
    before = np.exp(-tails.above(law.integrals(early), level))
    after = np.exp(-tails.below(law.integrals(late), level))
    return _both(np.where(early > 0, before, 0.0), after, epsilon)


def _both_ends(workload, capacity, epsilon, turn, accounting):
    """The law, that of reuse_turn, and the times T_C - epsilon (at least 0) and T_C + epsilon."""
    epsilon = _checked(capacity, epsilon, "epsilon")
    centre = float(characteristic_time(workload, capacity, accounting))
    times = np.maximum(centre - epsilon.ravel(), 0.0), centre + epsilon.ravel()
    return DisplacementLaw(workload, accounting), workload.profile(accounting).turn_reuse(turn), times


def _both(before: np.ndarray, after: np.ndarray, epsilon: ArrayLike) -> np.ndarray:
    return np.minimum(before + after, 1.0).reshape(np.shape(epsilon))[()]


def _cantelli(variance: np.ndarray, room: np.ndarray) -> np.ndarray:
    """P(X - E X >= room) <= Var / (Var + room^2), room >= 0."""
    room = np.minimum(room, 1e150)
    return np.where(room > 0, variance / np.maximum(variance + room**2, np.finfo(float).tiny), 1.0)


def _tails(law: DisplacementLaw, time: float) -> TailTable:
    spread = float(np.sqrt(law.cumulant(2, time))) / law.span
    return TailTable(law, max(spread, 1.0), ratio=FINE)


def _checked(capacity: float, values: ArrayLike, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if not (capacity > 0 and np.all(values > 0)):
        raise InputError(f"capacity={capacity!r}, {name}={values!r}: expected positive numbers")
    return values
