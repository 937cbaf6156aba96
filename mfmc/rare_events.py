"""Probabilities of rare deviations of D_N and of the characteristic time, by exponentially tilted sampling.

What Theorems C.2 and C.4 bound, down to probabilities that no plain Monte Carlo reaches. Paths are drawn from
a mixture of tilted Poisson measures (`rare_tilts`, `rare_paths`) and weighed by the exact likelihood ratio:
the estimators are unbiased whatever the tilts, and the tilts lie where the exact law says that paths leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from mfmc.cores import on_cores
from mfmc.errors import InputError
from mfmc.rare_bounds import deviation_probabilities
from mfmc.rare_paths import SortedPaths, TiltedConversations
from mfmc.rare_tilts import Tilts, passage_tilts, sup_tilts
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.exact_tails import characteristic_time_deviation
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload

#: Accesses that are drawn and sorted at a time.
_AT_A_TIME = 2_000_000


class RareEstimate(NamedTuple):
    """A probability estimated by weighted paths, what to trust it by, and exact values beside it."""

    estimate: float
    standard_error: float
    relative_error: float  # standard_error / estimate
    effective_sample_size: float  # (sum of weights)^2 / sum of squared weights, of the paths with the event
    largest_weight_share: float  # of one path in the estimate; large where a few paths make it
    lower: float  # exact bounds of the probability; equal where it is known exactly
    upper: float
    batches: np.ndarray  # estimates of independent batches of equally many paths: float64 [batches]
    tilts: int  # in the mixture


def rare_sup_probability(
    key: jax.Array,
    workload: Workload,
    capacity: float,
    epsilon: float,
    horizon: float,
    samples: int = 8192,
    *,
    accounting: str = "whole",
    batches: int = 8,
) -> RareEstimate:
    """P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon), stationary; what (17) bounds.

    `lower` is the largest exact probability of such a deviation at one time, `upper` the union bound over a
    grid of times with exact probabilities. Whole content or practical accounting, of workloads in blocks.
    """
    _check(capacity=capacity, epsilon=epsilon, horizon=horizon)
    sampler = TiltedConversations(workload, horizon, accounting)
    law = DisplacementLaw(workload, accounting)

    def deviates(paths: SortedPaths) -> np.ndarray:
        mean = law.mean(paths.time)
        deviation = np.maximum(paths.after - mean, mean - paths.before)
        return np.maximum.reduceat(deviation, paths.start) > capacity * epsilon

    tilts = sup_tilts(law, capacity, epsilon, horizon)
    bounds = deviation_probabilities(law, capacity, epsilon, horizon)
    return _estimate(key, sampler, tilts, samples, batches, deviates, bounds)


def rare_passage_probability(
    key: jax.Array,
    workload: Workload,
    capacity: float,
    epsilon: float,
    turn: int,
    samples: int = 8192,
    *,
    accounting: str = "whole",
    batches: int = 8,
) -> RareEstimate:
    """P(|tau_C(turn) - T_C| > epsilon), epsilon in units of time; what (22) bounds.

    Known exactly (`lower` = `upper`), by Fourier inversion under a tilt: a check of the sampler at any depth.
    """
    _check(capacity=capacity, epsilon=epsilon)
    centre = float(characteristic_time(workload, capacity, accounting))
    early, late = centre - epsilon, centre + epsilon
    sampler = TiltedConversations(workload, late, accounting)
    law = DisplacementLaw(workload, accounting)
    tagged = workload.profile(accounting).turn_reuse(turn)
    cdf = np.concatenate(([0.0], np.cumsum(tagged.weight) / tagged.mass))

    def leaves(paths: SortedPaths) -> np.ndarray:
        """P(D(early) > N - reuse_turn or D(late) <= N - reuse_turn) over reuse_turn, path by path."""
        displaced = paths.at(np.array([max(early, 0.0), late]))
        fits = cdf[np.searchsorted(tagged.support, capacity - displaced, side="right")]
        return (1 - fits[:, 0]) * (early > 0) + fits[:, 1]

    tilts = passage_tilts(law, capacity, early, late, tagged)
    exact = float(characteristic_time_deviation(workload, capacity, epsilon, turn, accounting))
    return _estimate(key, sampler, tilts, samples, batches, leaves, (exact, exact))


def _estimate(
    key: jax.Array, sampler: TiltedConversations, tilts: Tilts, samples: int, batches: int,
    event: Callable[[SortedPaths], np.ndarray], bounds: tuple[float, float],
) -> RareEstimate:
    """Weighted mean of `event` over paths of the mixture. Batch b draws from fold_in(key, b) alone."""
    if not (batches >= 2 and samples >= batches):
        raise InputError(f"samples={samples!r}, batches={batches!r}: expected samples >= batches >= 2")
    each = -(-samples // batches)

    def one(batch: int) -> np.ndarray:
        seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, batch)))
        return _batch(np.random.default_rng(seed), sampler, tilts, each, event)

    weighted = np.stack(on_cores(one, range(batches)))
    total, square = weighted.sum(), (weighted**2).sum()
    estimate = float(weighted.mean())
    error = float(weighted.std(ddof=1) / np.sqrt(weighted.size))
    return RareEstimate(
        estimate, error, error / estimate if estimate > 0 else np.inf,
        float(total**2 / square) if square > 0 else 0.0,
        float(weighted.max() / total) if total > 0 else 0.0,
        *bounds, weighted.mean(axis=1), tilts.time.size,
    )


def _batch(
    rng: np.random.Generator, sampler: TiltedConversations, tilts: Tilts, paths: int,
    event: Callable[[SortedPaths], np.ndarray],
) -> np.ndarray:
    """event times dP/dQ for so many paths: float64 [paths]."""
    profile = sampler.workload.profile(sampler.accounting)
    accesses = float(sampler.workload.arrival_rate) * sampler.horizon * profile.mean_turns
    most = max(1, int(_AT_A_TIME / max(accesses, 1.0)))
    out = []
    for tilt, count in enumerate(rng.multinomial(paths, tilts.weight)):
        for begin in range(0, count, most):
            number = min(most, count - begin)
            events = sampler.draw(rng, tilts.time[tilt], tilts.theta[tilt], number)
            found = SortedPaths(events, number, sampler.horizon)
            out.append(event(found) * np.exp(tilts.log_weights(found.at(tilts.time))))
    return np.concatenate(out)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and np.isfinite(value)):
            raise InputError(f"{name}={value!r}: expected a positive number")
