"""Exact tails of D_N(t) to full relative accuracy, and what they say of deviations over all times and tau_C.

`compound_poisson.displacement_cdf` is exact to 1e-14 in absolute terms, which says little of a probability of
1e-14; these tails have ten digits at any depth.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from mfmc.laws.spectrum import Spectrum
from mfmc.rare_tilts import NEGLIGIBLE, even_times, saddlepoints, theta_at
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels


def exact_tail(
    law: DisplacementLaw, time: float, level: float, theta: float, tagged: Spectrum | None = None
) -> float:
    """P(X > level) for theta > 0, P(X <= level) for theta <= 0, X = D_N(time) + R, to full relative accuracy.

    P(X > x) = E[e^{theta X}] sum_{y > x} e^{-theta y} P_theta(X = y): under a tilt with its mean near the
    level no digits are lost, however small the probability. P_theta by FFT, on a period that holds all of it
    but 1e-13.
    """
    sizes, level = law.support.astype(float), float(level)
    jumps = law.intensity(law.integrals([time]))[0]
    log_mgf = float(jumps @ np.expm1(theta * sizes))
    jumps = jumps * np.exp(theta * sizes)
    beyond = np.cumsum(jumps[::-1])[::-1]
    kept = beyond > 1e-13 * min(1.0, beyond[0])
    spread = float(np.sqrt(jumps @ sizes**2))
    largest = float(sizes[kept][-1])
    if tagged is not None:
        log_tags = np.log(tagged.weight / tagged.mass) + theta * tagged.support
        tag_mgf = float(logsumexp(log_tags))
        log_mgf += tag_mgf
        largest = max(largest, float(tagged.support[-1]))
    period = 1 << int(np.ceil(np.log2(24 * spread + 4 * largest + 2)))
    law_of_sum = np.exp(_transform(law.support[kept], jumps[kept], period) - jumps[kept].sum())
    if tagged is not None:
        law_of_sum *= _transform(tagged.support, np.exp(log_tags - tag_mgf), period)
    pmf = np.maximum(np.fft.irfft(law_of_sum, period), 0.0)
    above = np.arange(period // 2)
    distance = above + 1 if theta > 0 else -above
    values = np.exp(-theta * distance) * pmf[(int(level) + distance) % period]
    values = values[level + distance >= 0]
    return float(np.exp(log_mgf - theta * level) * values.sum())


def _transform(support: np.ndarray, weight: np.ndarray, period: int) -> np.ndarray:
    return np.fft.rfft(np.bincount(support % period, weights=weight, minlength=period))


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


def passage_probability(
    law: DisplacementLaw, capacity: float, early: float, late: float, tagged: Spectrum
) -> float:
    """P(tau_C(j) < early) + P(tau_C(j) > late), reuse_j ~ `tagged`; an `early` of 0 or less adds nothing."""
    times, level = np.array([max(early, 0.0), late]), np.floor(capacity)
    theta = saddlepoints(law, times, np.full(2, level), tagged).theta
    tails = [exact_tail(law, t, level, s, tagged) for t, s in zip(times[early <= 0 :], theta[early <= 0 :])]
    after = tails[-1] if theta[1] <= 0 else 1 - tails[-1]
    if early <= 0:
        return after
    return after + (tails[0] if theta[0] > 0 else 1 - tails[0])


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
    for i, theta in zip(possible[matter], points.theta[matter]):
        theta = max(theta, 1e-12) if levels[i] >= mean[i] else min(theta, -1e-12)
        out[i] = exact_tail(law, times[i], levels[i], theta)
    return out
