"""Exponential tilts of the Poisson measure of conversations, and mixtures of them as proposals for rare events.

Tilted by (s, theta), the measure has density exp(theta Phi_s(z)) with respect to the original one, Phi_s(z) the blocks
that a conversation z contributes to D_N(s). The likelihood ratio of a whole path is then

    dP_{s, theta} / dP = exp(theta D_N(s) - K_s(theta)),    K_s(theta) = log E[exp(theta D_N(s))],

exact and closed by the compound Poisson law (THEORY B2), so that a mixture over many s weighs a path by D_N at those
times alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mfmc.laws.spectrum import Spectrum
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels

#: Distance of neighbouring tilt times: over it the mean displacement grows by so many times 1 / theta.
_STEP = 1.0
_MOST_TIMES = 2000
#: Tilts whose boundary is reached with less than this share of the largest probability are left out.
_NEGLIGIBLE = 1e-4
#: Exponent of e beyond which a tilt does not go.
_LARGEST_EXPONENT = 200.0
_ITERATIONS = 60


class Tilts(NamedTuple):
    """Tilts and their weights in the mixture: float64 [tilts] each."""

    time: np.ndarray  # s
    theta: np.ndarray  # per block; positive: more displacement than on average
    log_mgf: np.ndarray  # K_s(theta), of D_N(s) without the tagged content
    weight: np.ndarray  # adds up to 1

    def log_weights(self, displaced: np.ndarray) -> np.ndarray:
        """log dP/dQ of paths, Q the mixture (balance heuristic), from D_N at `time`: [paths, tilts] -> [paths]."""
        return -logsumexp(np.log(self.weight) + self.theta * displaced - self.log_mgf, axis=1)


class Saddlepoints(NamedTuple):
    """The tilts that move the mean of X = D_N(t) + R to given levels; R a tagged content, if there is one."""

    theta: np.ndarray
    log_mgf: np.ndarray  # of D_N(t)
    exponent: np.ndarray  # -log of Chernoff's bound of X passing the level
    deviation: np.ndarray  # standard deviation of X under the tilt

    @property
    def probability(self) -> np.ndarray:
        """About P(X beyond its level), to first order; good enough to weigh tilts."""
        return np.exp(-self.exponent) / (1 + np.sqrt(2 * np.pi) * np.abs(self.theta) * self.deviation)


def saddlepoints(
    law: DisplacementLaw, times: np.ndarray, levels: np.ndarray, tagged: Spectrum | None = None
) -> Saddlepoints:
    """Newton's method for log K'(theta) = log level: convex, as the logarithm of a sum of exponentials, and nearly linear.

    After its first step it comes down on the root. Any tilt makes an unbiased estimator: tilts need not be precise.
    """
    sizes = law.support.astype(float)
    intensity = law.intensity(law.integrals(times))
    tag = Spectrum(np.zeros(1, dtype=np.int64), np.ones(1)) if tagged is None else tagged
    largest = max(sizes[-1], float(tag.support[-1]))

    def moments(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        jumps = intensity * np.exp(np.multiply.outer(theta, sizes))
        tags = tag.weight * np.exp(np.multiply.outer(theta, tag.support.astype(float)))
        tags /= tags.sum(axis=1, keepdims=True)
        tag_mean = tags @ tag.support
        return jumps @ sizes + tag_mean, jumps @ sizes**2 + tags @ tag.support**2.0 - tag_mean**2

    theta, target = np.zeros(times.size), np.maximum(levels, 0.5)
    for _ in range(_ITERATIONS):
        mean, variance = moments(theta)
        step = np.log(target / mean) * mean / variance
        theta = np.clip(theta + step, -_LARGEST_EXPONENT / sizes[0], _LARGEST_EXPONENT / largest)
        if np.all(np.abs(step) <= 1e-9 * np.abs(theta)):
            break
    deviation = np.sqrt(moments(theta)[1])
    log_mgf = np.sum(intensity * np.expm1(np.multiply.outer(theta, sizes)), axis=1)
    with_tag = log_mgf + logsumexp(np.multiply.outer(theta, tag.support), b=tag.weight / tag.mass, axis=1)
    return Saddlepoints(theta, log_mgf, np.maximum(theta * levels - with_tag, 0.0), deviation)


def sup_tilts(law: DisplacementLaw, capacity: float, epsilon: float, horizon: float) -> Tilts:
    """A mixture for sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon: both boundaries, over a grid of times.

    A path that leaves above at t is above the boundary, but for the growth of the mean, at the next grid time, one that
    leaves below at t was below it at the last one: its weight is bounded by about e^_STEP times the best.
    """
    times = even_times(law, horizon, theta_at(law, capacity, epsilon, horizon) / _STEP)
    mean = law.mean(times)
    reachable = mean > capacity * epsilon
    both = np.concatenate((times, times[reachable]))
    levels = np.concatenate((mean + capacity * epsilon, mean[reachable] - capacity * epsilon))
    return _mixture(both, saddlepoints(law, both, levels))


def theta_at(law: DisplacementLaw, capacity: float, epsilon: float, horizon: float) -> float:
    """The tilt that moves E D_N(horizon) up by N epsilon, per block: the scale on which probabilities decay."""
    level = law.mean(np.array([horizon])) + capacity * epsilon
    return float(saddlepoints(law, np.array([horizon]), level).theta[0])


def even_times(law: DisplacementLaw, horizon: float, per_block: float) -> np.ndarray:
    """Times in (0, horizon], the last one included, between which E D_N grows evenly, by at most 1 / per_block."""
    total = float(law.mean(horizon))
    cells = min(max(16, int(np.ceil(total * per_block))), _MOST_TIMES)
    # Only to place them: the inverse of the mean displacement, interpolated.
    ladder = np.linspace(0, horizon, 4001)
    times = np.interp(np.arange(1, cells + 1) * (total / cells), law.mean(ladder), ladder)
    times[-1] = horizon
    return times


def passage_tilts(
    law: DisplacementLaw, capacity: float, early: float, late: float, tagged: Spectrum
) -> Tilts:
    """A mixture for tau_C(j) < early or > late, reuse_j ~ `tagged`: two tilts, or one where early <= 0."""
    times = np.array([early, late]) if early > 0 else np.array([late])
    return _mixture(times, saddlepoints(law, times, np.full(times.size, float(capacity)), tagged))


def _mixture(times: np.ndarray, points: Saddlepoints) -> Tilts:
    probability = points.probability
    kept = probability > _NEGLIGIBLE * probability.max()
    weight = probability[kept] / probability[kept].sum()
    return Tilts(times[kept], points.theta[kept], points.log_mgf[kept], weight)


def exact_tail(
    law: DisplacementLaw, time: float, level: float, theta: float, tagged: Spectrum | None = None
) -> float:
    """P(X > level) for theta > 0, P(X <= level) for theta <= 0, X = D_N(time) + R: with full relative accuracy.

    P(X > x) = E[e^{theta X}] sum_{y > x} e^{-theta y} P_theta(X = y): under a tilt with its mean near the level no
    digits are lost, however small the probability. P_theta by FFT, on a period that holds all of it but 1e-13.
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
    if theta <= 0:
        values = values[above <= level]  # none is negative
    return float(np.exp(log_mgf - theta * level) * values.sum())


def _transform(support: np.ndarray, weight: np.ndarray, period: int) -> np.ndarray:
    return np.fft.rfft(np.bincount(support % period, weights=weight, minlength=period))


def deviation_probabilities(
    law: DisplacementLaw, capacity: float, epsilon: float, horizon: float
) -> tuple[float, float]:
    """Exact bounds of P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon), from below and from above.

    Below: the largest P(|D_N(t)/N - d(t)| > epsilon) at one time. Above: the union bound over a grid, on which D_N and
    its mean are squeezed by their values at both ends of a cell, with exact probabilities; the best of three grids.
    """
    per_block = theta_at(law, capacity, epsilon, horizon)
    times = even_times(law, horizon, per_block)
    mean = law.mean(times)
    low, high = deviation_levels(mean, capacity * epsilon)
    lower = (_tails(law, times, high, mean) + _tails(law, times, low, mean)).max()
    upper = 1.0
    for fineness in (0.7, 1.0, 1.4):
        times = np.concatenate(([0.0], even_times(law, horizon, fineness * per_block)))
        mean = law.mean(times)
        if mean[1] > capacity * epsilon:  # the first cell alone may hold a deviation: a bound of 1
            continue
        high = deviation_levels(mean[:-1], capacity * epsilon)[1]
        low = deviation_levels(mean[1:], capacity * epsilon)[0]
        above = _tails(law, times[1:], high, mean[1:])
        below = _tails(law, times[1:-1], low[1:], mean[1:-1])
        upper = min(upper, float(above.sum() + below.sum()))
    return float(lower), upper


def _tails(law: DisplacementLaw, times: np.ndarray, levels: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """P(D > level) where the level is at or above the mean, P(D <= level) where below.

    Terms with a negligible share of the largest are replaced by Chernoff's bound, which is not smaller.
    """
    out = np.zeros(times.size)
    possible = np.flatnonzero(levels >= 0)
    if possible.size == 0:
        return out
    points = saddlepoints(law, times[possible], levels[possible])
    out[possible] = np.exp(np.minimum(points.log_mgf - points.theta * levels[possible], 0.0))
    matter = out[possible] > _NEGLIGIBLE * out.max()
    for i, theta in zip(possible[matter], points.theta[matter]):
        theta = max(theta, 1e-12) if levels[i] >= mean[i] else min(theta, -1e-12)
        out[i] = exact_tail(law, times[i], levels[i], theta)
    return out
