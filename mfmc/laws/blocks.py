"""Laws of the block increments Z_1, Z_2, ... >= 1 of a conversation (Assumption B.2 of the paper).

The increments of one conversation are independent given its number of turns M. Their means may differ between the
first turn and later ones, follow a trend over the turns, and depend on M:

    E[Z_1] = first,    E[Z_j | M = m] = later * trend^(j-2) * (m/2)^length_power    (j >= 2)

With `length_power = 0`, Assumption B.2 (M independent of Z) holds; real conversations need a negative one: long
conversations have shorter turns (THEORY B1). Support points are whole numbers of blocks from 1 up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from mfmc.errors import InputError
from mfmc.laws.pmf import pmf_from_one

#: Probability that the pmf of one increment may cut off (renormalised away).
LOST_MASS = 1e-15


def _check(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise InputError(f"blocks.{name}={value!r}: expected {expected}")


def _number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class BlockLaw:
    """Common part: the mean of every increment; subclasses turn a mean into a pmf."""

    first: float
    later: float
    trend: float = 1.0
    length_power: float = 0.0

    def __post_init__(self) -> None:
        for name in ("first", "later"):
            value = getattr(self, name)
            _check(_number(value) and value >= self._least(name), name, value,
                   f"a number of at least {self._least(name):g}")
        _check(_number(self.trend) and self.trend > 0, "trend", self.trend, "a positive number")
        _check(_number(self.length_power), "length_power", self.length_power, "a finite number")

    def _least(self, name: str) -> float:
        return 1.0

    @property
    def depends_on_length(self) -> bool:
        """Whether Assumption B.2 fails: increments depend on M."""
        return self.length_power != 0

    def parameter(self, turn: int, turns: int) -> float:
        """The mean parameter of Z_turn in a conversation of `turns` turns."""
        if turn == 1:
            return self.first
        return max(self.later * self.trend ** (turn - 2) * (turns / 2) ** self.length_power, self._least("later"))

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        """P(Z_turn = z | M = turns) at index z; index 0 is 0."""
        raise NotImplementedError

    def mgf_abscissa(self, turn: int = 2, turns: int = 2) -> float:
        """sup {theta : E[exp(theta Z)] < infinity}, before truncation."""
        return math.inf

    def log_mgf(self, theta: float, turn: int = 2, turns: int = 2) -> float:
        """log E[exp(theta Z_turn)] of the law before truncation, for theta below the abscissa."""
        pmf = self.increment_pmf(turn, turns)
        z = np.arange(pmf.size)
        with np.errstate(divide="ignore"):
            terms = theta * z + np.log(pmf)
        top = terms.max()
        return float(top + np.log(np.exp(terms - top).sum()))


@dataclass(frozen=True)
class ConstantBlocks(BlockLaw):
    """Z_1 = first and Z_j = later exactly (rounded to whole blocks where trend or length_power act)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first", "later"):
            value = getattr(self, name)
            _check(float(value).is_integer(), name, value, "a whole number of blocks")

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        pmf = np.zeros(round(self.parameter(turn, turns)) + 1)
        pmf[-1] = 1
        return pmf


@dataclass(frozen=True)
class PoissonBlocks(BlockLaw):
    """minimum + Poisson: `first` and `later` are the means of the Poisson parts, above the minima."""

    first_minimum: int = 1
    later_minimum: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first_minimum", "later_minimum"):
            value = getattr(self, name)
            _check(isinstance(value, int) and value >= 1, name, value, "a whole number of at least 1")

    def _least(self, name: str) -> float:
        return 0.0

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        from scipy.stats import poisson  # takes as long to import as JAX

        minimum = self.first_minimum if turn == 1 else self.later_minimum
        law = poisson(self.parameter(turn, turns))
        pmf = np.zeros(minimum + int(law.isf(LOST_MASS)) + 2)
        pmf[minimum:] = law.pmf(np.arange(pmf.size - minimum))
        return pmf / pmf.sum()


@dataclass(frozen=True)
class GeometricBlocks(BlockLaw):
    """Geometric on {1, 2, ...} with the given means."""

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        mean = self.parameter(turn, turns)
        if mean == 1:
            return np.array([0.0, 1.0])
        last = max(1, math.ceil(math.log(LOST_MASS) / math.log1p(-1 / mean)))
        pmf = np.zeros(last + 1)
        pmf[1:] = (1 - 1 / mean) ** np.arange(last) / mean
        return pmf / pmf.sum()

    def mgf_abscissa(self, turn: int = 2, turns: int = 2) -> float:
        mean = self.parameter(turn, turns)
        return math.inf if mean == 1 else -math.log1p(-1 / mean)

    def log_mgf(self, theta: float, turn: int = 2, turns: int = 2) -> float:
        mean = self.parameter(turn, turns)
        return theta - math.log(mean) - math.log1p(-math.exp(theta) * (1 - 1 / mean))


@dataclass(frozen=True)
class LognormalBlocks(BlockLaw):
    """ceil of a lognormal of log-sd `sigma`, at most `maximum`; the given means are those of the block counts.

    Its moment generating function is infinite for every theta > 0 unless it is cut: Assumption B.3 fails
    without a `maximum`. Without one the pmf is cut where 1e-15 of the mass remains.
    """

    sigma: float = 1.0
    maximum: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(_number(self.sigma) and self.sigma > 0, "sigma", self.sigma, "a positive number")
        _check(self.maximum is None or (isinstance(self.maximum, int) and self.maximum >= 1), "maximum",
               self.maximum, "a whole number of at least 1, or null")

    def _pmf_of_scale(self, log_scale: float) -> np.ndarray:
        last = math.ceil(math.exp(log_scale + self.sigma * -ndtri(LOST_MASS)))
        if self.maximum is not None:
            last = min(last, self.maximum)
        edges = np.arange(1, last + 1)
        cdf = ndtr((np.log(edges) - log_scale) / self.sigma)
        cdf[-1] = 1.0
        return np.diff(np.concatenate(([0.0, 0.0], cdf)))

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        return _lognormal_with_mean(self, self.parameter(turn, turns))

    def mgf_abscissa(self, turn: int = 2, turns: int = 2) -> float:
        return 0.0 if self.maximum is None else math.inf


def _lognormal_with_mean(law: LognormalBlocks, mean: float) -> np.ndarray:
    """The pmf whose mean in whole blocks is `mean`, by bisection on the scale."""
    if mean == 1:
        return np.array([0.0, 1.0])
    low, high = -12.0, math.log(mean) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        pmf = law._pmf_of_scale(middle)
        if pmf @ np.arange(pmf.size) < mean:
            low = middle
        else:
            high = middle
    pmf = law._pmf_of_scale(high)
    reached = float(pmf @ np.arange(pmf.size))
    _check(abs(reached - mean) < 1e-6 * mean, "maximum", law.maximum, f"room for a mean of {mean:g} blocks")
    return pmf


@dataclass(frozen=True)
class EmpiricalBlocks(BlockLaw):
    """P(Z = 1), P(Z = 2), ... as given for the first turn and for later ones, renormalised.

    A trend or a dependence on the length would need a family of laws: neither is available here.
    """

    first: tuple[float, ...]  # type: ignore[assignment]
    later: tuple[float, ...]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("first", "later"):
            values = tuple(float(p) for p in getattr(self, name))
            object.__setattr__(self, name, values)
            _check(len(values) > 0 and all(p >= 0 and math.isfinite(p) for p in values) and sum(values) > 0,
                   name, list(values), "the probabilities of 1, 2, ... blocks: non-negative, positive sum")
        _check(self.trend == 1, "trend", self.trend, "1 for an empirical law")
        _check(self.length_power == 0, "length_power", self.length_power, "0 for an empirical law")

    def increment_pmf(self, turn: int, turns: int) -> np.ndarray:
        return pmf_from_one(self.first if turn == 1 else self.later)
