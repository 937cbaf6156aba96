"""Exact bounds of the probability of a deviation at any time up to a horizon, from exact tails at single times."""

from __future__ import annotations

import numpy as np

from mfmc.rare_tilts import NEGLIGIBLE, even_times, saddlepoints, theta_at
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels
from mfmc.theory.exact_tails import DisplacementTails


def deviation_probabilities(
    law: DisplacementLaw, capacity: float, epsilon: float, horizon: float
) -> tuple[float, float]:
    """Exact bounds of P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon), from below and from above.

    Below: the largest P(|D_N(t)/N - d(t)| > epsilon) at one time. Above: the union bound over the best of
    three grids, with exact probabilities: in a cell, D_N and its mean lie between their values at its ends.
    """
    per_block = theta_at(law, capacity, epsilon, horizon)
    times = even_times(law, horizon, per_block)
    mean = law.mean(times)
    low, high = deviation_levels(mean, capacity * epsilon)
    lower = (_tails(law, times, high, mean, 0.0) + _tails(law, times, low, mean, 0.0)).max()
    upper = 1.0
    for fineness in (0.7, 1.0, 1.4):
        times = np.concatenate(([0.0], even_times(law, horizon, fineness * per_block)))
        mean = law.mean(times)
        if mean[1] > 0.9 * capacity * epsilon:  # levels near the mean: a bound of 1
            continue
        high = deviation_levels(mean[:-1], capacity * epsilon)[1]
        low = deviation_levels(mean[1:], capacity * epsilon)[0]
        above = _tails(law, times[1:], high, mean[1:], 1.0)
        below = _tails(law, times[1:-1], low[1:], mean[1:-1], 1.0)
        upper = min(upper, float(above.sum() + below.sum()))
    return float(lower), upper


def _tails(
    law: DisplacementLaw, times: np.ndarray, levels: np.ndarray, mean: np.ndarray, negligible: float
) -> np.ndarray:
    """P(D > level) where the level is at or above the mean, P(D <= level) where below.

    Terms with a negligible share of the largest become `negligible` times Chernoff's bound: 0 to stay below
    the true values, 1 to stay above.
    """
    out = np.zeros(times.size)
    possible = np.flatnonzero(levels >= 0)
    if possible.size == 0:
        return out
    points = saddlepoints(law, times[possible], levels[possible])
    out[possible] = np.exp(np.minimum(points.log_mgf - points.theta * levels[possible], 0.0))
    matter = out[possible] > NEGLIGIBLE * out.max()
    out[possible[~matter]] *= negligible
    for i in possible[matter]:
        tails, level = DisplacementTails(law, times[i]), levels[i] // law.span
        out[i] = tails.above(level) if levels[i] >= mean[i] else tails.below(level)
    return out
