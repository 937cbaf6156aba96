"""Exponential tilts of the Poisson measure of conversations, mixed into proposals for rare events.

Tilted by (s, theta), the measure has density exp(theta Phi_s(z)) with respect to the original one, Phi_s(z)
the blocks that a conversation z contributes to D_N(s). The likelihood ratio of a whole path is then

    dP_{s, theta} / dP = exp(theta D_N(s) - K_s(theta)),    K_s(theta) = log E[exp(theta D_N(s))],

exact and closed by the compound Poisson law (THEORY B2), so that a mixture over many s weighs a path by D_N
at those times alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from mfmc.laws.spectrum import Spectrum
from mfmc.theory.displacement_law import DisplacementLaw

#: Distance of neighbouring tilt times: over it the mean displacement grows by so many times 1 / theta.
_STEP = 1.0
_MOST_TIMES = 2000
#: Tilts whose boundary is reached with less than this share of the largest probability are left out.
NEGLIGIBLE = 1e-4
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
        """log dP/dQ of paths, Q the mixture (balance heuristic), from D_N at `time` [paths, tilts]."""
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
    """Newton's method for log K'(theta) = log level; convex and nearly linear, as a log of sums of powers.

    After its first step it comes down on the root. Any tilt gives an unbiased estimator: none need be exact.
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

    A path that leaves above at t is above the boundary, up to the growth of the mean, at the next grid time;
    one that leaves below was below it at the last one. So weights are at most about e^_STEP times the best.
    """
    times = even_times(law, horizon, theta_at(law, capacity, epsilon, horizon) / _STEP)
    mean = law.mean(times)
    reachable = mean > capacity * epsilon
    both = np.concatenate((times, times[reachable]))
    levels = np.concatenate((mean + capacity * epsilon, mean[reachable] - capacity * epsilon))
    return _mixture(both, saddlepoints(law, both, levels))


def theta_at(law: DisplacementLaw, capacity: float, epsilon: float, horizon: float) -> float:
    """The tilt that moves E D_N(horizon) up by N epsilon, per block: probabilities decay on that scale."""
    level = law.mean(np.array([horizon])) + capacity * epsilon
    return float(saddlepoints(law, np.array([horizon]), level).theta[0])


def even_times(law: DisplacementLaw, horizon: float, per_block: float) -> np.ndarray:
    """Times in (0, horizon], the last included, between which E D_N grows by at most 1 / per_block."""
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
    kept = probability > NEGLIGIBLE * probability.max()
    weight = probability[kept] / probability[kept].sum()
    return Tilts(times[kept], points.theta[kept], points.log_mgf[kept], weight)
