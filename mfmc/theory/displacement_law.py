"""The law of D_N(t) at fixed times: compound Poisson, whatever the accounting (THEORY B2, B3).

    D_N(t) ~ CompoundPoisson(m_t),  m_t(r) = arrival_rate sum_k G_k(t) coefficients[k, r],  G_k' = F^{*k}

so that every cumulant, the log moment generating function and the characteristic exponent are linear in G.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mfmc.errors import InputError
from mfmc.laws.renewal import iterated_integrals
from mfmc.laws.spectrum import Spectrum
from mfmc.workload import Workload


class DisplacementLaw:
    """D_N(t) of one workload under one accounting. Times in units of time, masses in blocks.

    Jumps above `largest` are set apart: they matter to P(D_N(t) <= x), x <= largest, only through the
    probability exp(-killing) that there is none.
    """

    def __init__(self, workload: Workload, accounting: str = "whole", largest: float = np.inf):
        profile = workload.profile(accounting)
        jumps = profile.jumps
        kept = jumps.support <= largest
        self.workload, self.profile = workload, profile
        self.rate = float(workload.arrival_rate)
        self._horizon = 0.0
        self.support = jumps.support[kept]  # int64 [n]
        self.coefficients = jumps.coefficients[:, kept]  # float64 [K, n]
        if not kept.any():  # D_N(t) is 0 unless killed: one jump of no intensity says the same
            self.support, self.coefficients = np.array([1]), np.zeros((jumps.coefficients.shape[0], 1))
        self._above = jumps.coefficients[:, ~kept].sum(axis=1)  # float64 [K]
        self._above_mean = jumps.coefficients[:, ~kept] @ jumps.support[~kept].astype(float)

    def limited(self, largest: float) -> DisplacementLaw:
        """The same law with jumps above `largest` set apart."""
        return DisplacementLaw(self.workload, self.profile.accounting, largest)

    @property
    def span(self) -> int:
        """The largest whole number that divides every jump."""
        return int(np.gcd.reduce(self.support))

    def integrals(self, times: ArrayLike) -> np.ndarray:
        """arrival_rate G_k(t): float64 [K, times]."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        bad = ~((times >= 0) & np.isfinite(times))
        if bad.any():
            raise InputError(f"time={times[bad][0]!r}: expected a finite time of at least 0")
        count = self.coefficients.shape[0]
        if count > 2:
            # The integrals of one horizon are solved for at once: ask for the largest so far every time.
            self._horizon = max(self._horizon, times.max(initial=0.0))
            found = iterated_integrals(self.workload.gaps, np.append(times, self._horizon), count)
            return self.rate * np.asarray(found, dtype=float)[:, :-1]
        residence = np.asarray(self.workload.gaps.residence(times), dtype=float)
        return self.rate * np.stack((times, times - residence))[:count]

    def mean(self, times: ArrayLike) -> np.ndarray:
        """E[D_N(t)] without jumps above `largest`, from (15) so that nothing cancels: shape of `times`."""
        times = np.asarray(times, dtype=float)
        residence = np.asarray(self.workload.gaps.residence(times), dtype=float)
        mean = self.rate * (self.profile.allocated * times + self.profile.reusable * residence)
        if np.any(self._above_mean):
            mean = mean - (self._above_mean @ self.integrals(times)).reshape(times.shape)
        return mean

    def cumulant(self, order: int, times: ArrayLike) -> np.ndarray:
        """kappa_order(t) = sum_r r^order m_t(r), in blocks^order: shape of `times`."""
        moments = self.coefficients @ self.support.astype(float) ** order
        return (moments @ self.integrals(times)).reshape(np.shape(times))

    def killing(self, integrals: np.ndarray) -> np.ndarray:
        """Expected number of jumps above `largest`, from `integrals(times)`: float64 [times]."""
        return np.maximum(self._above @ integrals, 0.0)

    def intensity(self, integrals: np.ndarray) -> np.ndarray:
        """m_t(r) from `integrals(times)`: float64 [times, n]; rounding below 0 is set to 0."""
        return np.maximum(integrals.T @ self.coefficients, 0.0)

    def exponents(self, tilts: np.ndarray) -> np.ndarray:
        """sum_r coefficients[k, r] (e^{s r} - 1): float64 [K, tilts].

        Its product with `integrals` is log E[e^{s D_N(t)}].
        """
        return self.coefficients @ np.expm1(np.multiply.outer(self.support.astype(float), tilts))


def deviation_levels(mean: ArrayLike, deviation: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers (low, high): a count D has |D - mean| > deviation iff D <= low or D > high."""
    mean, deviation = np.asarray(mean, dtype=float), np.asarray(deviation, dtype=float)
    return np.ceil(mean - deviation) - 1, np.floor(mean + deviation)


def lattice_offsets(tagged: Spectrum, capacity: int, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes r as lattice offsets q, and their weights: D_N <= capacity - r iff D_N / span + q <= capacity //
    span.
    """
    room = (capacity - tagged.support) // span
    offsets, where = np.unique(capacity // span - room, return_inverse=True)
    return offsets, np.bincount(where, weights=tagged.weight)
