"""The limit of fluctuations: sqrt(N) (D_N/N - d) as a Gaussian process (THEORY B10, whole content).

With J_k the lag-k moments of `cross_moments`, Gamma = sum_k (coefficients) G_k and Gamma_1 the same with
G_{k+1}, the formula of B10, integrated by parts in A_k and summed over m and n, reads for s <= t

    c(s, t) / lambda0 = E[B^2] s + E[sum_{j<M} R_j^2] (I(t) - I(t-s))
                        + F(s) Gamma(t-s) + Gamma_1(t) - Gamma_1(t-s) - int_0^s f(v) Gamma(t-v) dv.

The sup of the process is the limit law of sqrt(N) sup |D_N/N - d|, so that the rate of the sup is N^(-1/2).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import ArrayLike

from mfmc.errors import InputError
from mfmc.laws.renewal import iterated_integrals
from mfmc.theory.cross_moments import lagged_moments
from mfmc.workload import Workload

#: Cells of the integral over v for each cell of the grid of times.
_FINER = 16

#: Paths simulated at a time.
_CHUNK = 4096


@dataclass(frozen=True, eq=False)
class GaussianLimit:
    """The limit process on an even grid of times h, 2h, .., T: covariance [n, n], N times that of D_N/N."""

    times: np.ndarray
    covariance: np.ndarray

    def sup_samples(self, key: jax.Array, paths: int) -> np.ndarray:
        """sup_{t <= T} |process|, float64 [paths].

        The process moves like Brownian motion between grid times: the extremes of the bridges in between are
        drawn from their law, so that the grid does not cut them off.
        """
        increments, factor = _increments(self.covariance), np.linalg.cholesky(self.covariance)
        seed = np.random.SeedSequence(np.asarray(jax.random.key_data(key), dtype=np.uint32).ravel().tolist())
        chunks = -(-paths // _CHUNK)
        found = []
        for number, child in enumerate(seed.spawn(chunks)):
            random, count = np.random.default_rng(child), min(_CHUNK, paths - number * _CHUNK)
            values = random.standard_normal((count, self.times.size)) @ factor.T
            left = np.concatenate((np.zeros((count, 1)), values[:, :-1]), axis=1)
            # Given both ends and their distance, the maximum m of a bridge has (2m - left - right)^2
            # exponential.
            high, low = (
                np.sqrt((left - values) ** 2 + 2 * increments * random.standard_exponential(values.shape))
                for _ in range(2)
            )
            found.append(np.maximum(left + values + high, low - left - values).max(axis=1) / 2)
        return np.concatenate(found)

    def sup_quantiles(
        self, key: jax.Array, probabilities: ArrayLike, paths: int = 20_000
    ) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of sup |process| and their standard errors; the shape of `probabilities`."""
        probabilities = np.asarray(probabilities, dtype=float)
        if not np.all((probabilities > 0) & (probabilities < 1)):
            raise InputError(f"probabilities={probabilities!r}: expected numbers strictly between 0 and 1")
        samples = self.sup_samples(key, paths)
        error = np.sqrt(probabilities * (1 - probabilities) / paths)
        low, high = (np.clip(probabilities + sign * error, 0, 1) for sign in (-1, 1))
        return np.quantile(samples, probabilities), (
            np.quantile(samples, high) - np.quantile(samples, low)
        ) / 2

    def sup_survival(self, key: jax.Array, levels: ArrayLike, paths: int = 20_000) -> np.ndarray:
        """P(sup |process| > level), simulated; its shape. At capacity N a level is sqrt(N) epsilon."""
        samples = np.sort(self.sup_samples(key, paths))
        return 1 - np.searchsorted(samples, np.asarray(levels, dtype=float), side="right") / paths


def gaussian_limit(workload: Workload, capacity: float, horizon: float, points: int = 256) -> GaussianLimit:
    """The limit of sqrt(N) (D_N/N - d) on [0, horizon] at `points` times, whole content.

    It depends on the capacity through lambda0 = arrival_rate / capacity only, as d does.
    """
    if not (capacity > 0 and horizon > 0 and points >= 2):
        raise InputError(
            f"capacity={capacity!r}, horizon={horizon!r}, points={points!r}: expected positive numbers"
        )
    times = horizon * np.arange(1, points + 1) / points
    return GaussianLimit(times, displacement_covariance(workload, horizon, points) / capacity)


def displacement_covariance(workload: Workload, horizon: float, points: int) -> np.ndarray:
    """Cov(D_N(t_i), D_N(t_j)) in blocks^2, exact for every N, at t_i = i horizon / points: float64 [points,
    points].

    Whole content. The integral over v errs by the square of 1/16 of a cell.
    """
    profile = workload.profile("whole")
    if profile.allocated > profile.histories.terminal.moment(1) * (1 + 1e-9):
        raise InputError("histories of this workload shrink: the covariance formula (B10) needs R_j to grow")
    gaps, cells = workload.gaps, points * _FINER
    fine = horizon * np.arange(cells + 1) / cells
    gamma, gamma_next = _gammas(workload, fine)
    residence, cdf = (np.asarray(f(fine), dtype=float) for f in (gaps.residence, gaps.cdf))
    # int over one fine cell of f(v) times a linear function, from its mass and first moment: any F will do.
    width, mass = horizon / cells, np.diff(cdf)
    share = np.diff(residence) / width - 1 + cdf[1:]  # int f(v) (v - v_l) dv / width
    grid = np.arange(1, points + 1) * _FINER
    lag = np.abs(grid[:, None] - np.arange(cells + 1)[None, :])
    along = gamma[lag]  # Gamma(t_j - v) where v <= t_j
    pieces = (mass - share) * along[:, :-1] + share * along[:, 1:]
    integral = np.concatenate((np.zeros((points, 1)), np.cumsum(pieces, axis=1)), axis=1)[:, grid].T  # [s, t]
    s, t = np.meshgrid(grid, grid, indexing="ij")
    apart = np.maximum(t - s, 0)
    upper = (
        profile.histories.terminal.moment(2) * fine[s]
        + profile.reuse.moment(2) * (residence[t] - residence[apart])
        + cdf[s] * gamma[apart]
        + gamma_next[t]
        - gamma_next[apart]
        - integral
    )
    upper = np.triu(upper)
    return float(workload.arrival_rate) * (upper + np.triu(upper, 1).T)


def _gammas(workload: Workload, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gamma and Gamma_1 at the given times. A_{n-m-1} of B10 is the lag k = n - m; its weight J_k collects
    E[R_m R_n 1{M=n}] + E[R_m R_n 1{M>n}] of lag k + 1 and -E[R_m R_n 1{M>n}] of lag k.
    """
    ends, continues = lagged_moments(workload.law)
    weights = np.append(ends[1:] + continues[1:], 0.0)
    weights[1:] -= continues[1:]
    integrals = np.asarray(iterated_integrals(workload.gaps, times, weights.size + 1), dtype=float)
    return weights @ integrals[:-1], weights @ integrals[1:]


def _increments(covariance: np.ndarray) -> np.ndarray:
    """Variances of the increments between neighbouring grid times, from 0 on: float64 [n]."""
    variance = np.diagonal(covariance)
    step = variance.copy()
    step[1:] += variance[:-1] - 2 * np.diagonal(covariance, 1)
    return step
