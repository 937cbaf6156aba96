"""Laws of the number of turns M of a conversation (Assumption B.2 of the paper: M >= 1).

Every law gives its probability mass function `pmf()` as an array `p` with `p[m] = P(M = m)` and `p[0] = 0`.
Unbounded laws are cut where less than `LOST_MASS` remains, and what is sampled is exactly the array: moments,
spectra and Monte Carlo all read the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.pmf import checked_probabilities, pmf_from_one

#: Probability that a truncation may cut off.
LOST_MASS = 1e-13


def _check(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise InputError(f"turns.{name}={value!r}: expected {expected}")


def _integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class TurnLaw:
    """A law on {1, 2, ...}."""

    def pmf(self) -> np.ndarray:
        """P(M = m) at index m; float64 [maximum + 1]."""
        raise NotImplementedError

    @property
    def mean(self) -> float:
        p = self.pmf()
        return float(p @ np.arange(p.size))

    @property
    def variance(self) -> float:
        p = self.pmf()
        return float(p @ (np.arange(p.size) - self.mean) ** 2)

    def generating_radius(self) -> float:
        """sup {z : E[z^M] < infinity}, of the law before truncation; infinity for bounded laws."""
        return math.inf


@dataclass(frozen=True)
class GeometricTurns(TurnLaw):
    """After each turn the conversation goes on with probability `continuation`: S_j = continuation^(j-1).

    With a `maximum`, the turn `maximum` is always the last one (it takes the tail).
    """

    continuation: float
    maximum: int | None = None

    def __post_init__(self) -> None:
        _check(0 <= self.continuation < 1, "continuation", self.continuation, "a probability in [0, 1)")
        _check(self.maximum is None or (_integer(self.maximum) and self.maximum >= 1), "maximum", self.maximum,
               "a whole number of at least 1, or null")

    def pmf(self) -> np.ndarray:
        p = self.continuation
        if p == 0:
            last = 1
        else:
            last = max(1, math.ceil(math.log(LOST_MASS) / math.log(p)))
        if self.maximum is not None:
            last = min(last, self.maximum)
        tail = p ** np.arange(last + 1)  # S_{m+1} at index m
        pmf = np.zeros(last + 1)
        pmf[1:] = tail[:-1] - tail[1:]
        pmf[last] = tail[last - 1]  # P(M >= last)
        return pmf

    def generating_radius(self) -> float:
        return math.inf if self.maximum is not None or self.continuation == 0 else 1 / self.continuation


def _cut(minimum: int, distribution, maximum: int | None) -> np.ndarray:
    """pmf of minimum + X for a scipy distribution X on {0, 1, ...}, cut at `maximum` and renormalised."""
    last = minimum + int(distribution.isf(LOST_MASS)) + 1
    if maximum is not None:
        last = min(last, maximum)
    pmf = np.zeros(last + 1)
    pmf[minimum:] = distribution.pmf(np.arange(last + 1 - minimum))
    return pmf / pmf.sum()


@dataclass(frozen=True)
class NegativeBinomialTurns(TurnLaw):
    """minimum + negative binomial, cut at `maximum` and renormalised.

    `mean` and `variance` are those before the cut; the variance must exceed `mean - minimum`.
    """

    mean_before_cut: float
    variance_before_cut: float
    minimum: int = 1
    maximum: int | None = None

    def __init__(self, mean: float, variance: float, minimum: int = 1, maximum: int | None = None):
        object.__setattr__(self, "mean_before_cut", mean)
        object.__setattr__(self, "variance_before_cut", variance)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "maximum", maximum)
        _check(_integer(minimum) and minimum >= 1, "minimum", minimum, "a whole number of at least 1")
        _check(mean > minimum, "mean", mean, f"more than the minimum, {minimum}")
        _check(variance > mean - minimum, "variance", variance,
               f"more than mean - minimum = {mean - minimum:g} (for less, use kind=poisson)")
        _check(maximum is None or (_integer(maximum) and maximum > minimum), "maximum", maximum,
               f"a whole number above the minimum, {minimum}, or null")

    def _parameters(self) -> tuple[float, float]:
        excess = self.mean_before_cut - self.minimum
        success = excess / self.variance_before_cut
        return excess * success / (1 - success), success

    def pmf(self) -> np.ndarray:
        from scipy.stats import nbinom  # takes as long to import as JAX

        return _cut(self.minimum, nbinom(*self._parameters()), self.maximum)

    def generating_radius(self) -> float:
        return math.inf if self.maximum is not None else 1 / (1 - self._parameters()[1])


@dataclass(frozen=True)
class FixedTurns(TurnLaw):
    """Every conversation has `count` turns."""

    count: int

    def __post_init__(self) -> None:
        _check(_integer(self.count) and self.count >= 1, "count", self.count, "a whole number of at least 1")

    def pmf(self) -> np.ndarray:
        pmf = np.zeros(self.count + 1)
        pmf[-1] = 1
        return pmf


@dataclass(frozen=True)
class PoissonTurns(TurnLaw):
    """minimum + Poisson, with the given mean of M."""

    mean_turns: float
    minimum: int = 1

    def __init__(self, mean: float, minimum: int = 1):
        object.__setattr__(self, "mean_turns", mean)
        object.__setattr__(self, "minimum", minimum)
        _check(_integer(minimum) and minimum >= 1, "minimum", minimum, "a whole number of at least 1")
        _check(mean >= minimum, "mean", mean, f"at least the minimum, {minimum}")

    def pmf(self) -> np.ndarray:
        from scipy.stats import poisson  # takes as long to import as JAX

        if self.mean_turns == self.minimum:
            return FixedTurns(self.minimum).pmf()
        return _cut(self.minimum, poisson(self.mean_turns - self.minimum), None)


@dataclass(frozen=True)
class EmpiricalTurns(TurnLaw):
    """P(M = 1), P(M = 2), ... as given, renormalised."""

    probabilities: tuple[float, ...]

    def __init__(self, probabilities):
        object.__setattr__(self, "probabilities", checked_probabilities("turns.probabilities", probabilities))

    def pmf(self) -> np.ndarray:
        return pmf_from_one(self.probabilities)
