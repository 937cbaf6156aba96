"""Tail probabilities of X = D_N(t) / span + Q to full relative accuracy, however small.

The law is tilted until the threshold y + 1 is its mean, m_s(r) = m(r) e^{s r}, and inverted there: exactly

    P(X > y) = e^{K(s) - s (y + 1)} (1 / 2 pi) int E_s[e^{i theta (X - y - 1)}] / (1 - e^{-s - i theta}) d
    theta

with K the log moment generating function of X, and in mirror image P(X <= y). The nodes are those of
`lattice_inversion`, of the tilted law.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from mfmc.errors import InputError
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels, lattice_offsets
from mfmc.theory.lattice_inversion import angles, candidate_nodes, centred_sums
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload

#: Exponents of e past which nothing is evaluated.
_LARGEST_EXPONENT = 600.0

#: Standard deviations of the tilted law that one period spans, and how far e^{-s j} has to decay within it.
_PERIOD, _DECAY = 20.0, 40.0


def displacement_deviation(
    workload: Workload, capacity: float, epsilon: ArrayLike, time: float, accounting: str = "whole"
) -> np.ndarray:
    """P(|D_N(time)/N - d(time)| > epsilon), what (16) bounds, to about 1e-10 relative; the shape of
    `epsilon`.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    if not (capacity > 0 and time > 0 and np.all(epsilon > 0)):
        raise InputError(
            f"capacity={capacity!r}, epsilon={epsilon!r}, time={time!r}: expected positive numbers"
        )
    law = DisplacementLaw(workload, accounting)
    low, high = deviation_levels(law.mean(time), capacity * epsilon)
    tails = DisplacementTails(law, time)
    found = [tails.below(a // law.span) + tails.above(b // law.span) for a, b in zip(low.flat, high.flat)]
    return np.reshape(found, epsilon.shape)[()]


def characteristic_time_deviation(
    workload: Workload, capacity: float, epsilon: ArrayLike, turn: int, accounting: str = "whole"
) -> np.ndarray:
    """P(|tau_C(turn) - T_C| > epsilon), what (22) bounds, to about 1e-10 relative; the shape of `epsilon`."""
    epsilon = np.asarray(epsilon, dtype=float)
    if not (capacity > 0 and np.all(epsilon > 0)):
        raise InputError(f"capacity={capacity!r}, epsilon={epsilon!r}: expected positive numbers")
    law, level = DisplacementLaw(workload, accounting), math.floor(capacity)
    tagged = workload.profile(accounting).turn_reuse(turn)
    offsets, probabilities = lattice_offsets(tagged, level, law.span)
    centre = float(characteristic_time(workload, capacity, accounting))

    def one(eps: float) -> float:
        late = DisplacementTails(law, centre + eps, offsets, probabilities).below(level // law.span)
        if eps >= centre:
            return late
        return late + DisplacementTails(law, centre - eps, offsets, probabilities).above(level // law.span)

    return np.vectorize(one, otypes=[float])(epsilon)[()]


_NO_TAG = np.zeros(1, dtype=np.int64), np.ones(1)


class DisplacementTails:
    """The law of X = D_N(time) / span + Q, Q on `offsets` with `probabilities` (0 where none are given)."""

    def __init__(
        self,
        law: DisplacementLaw,
        time: float,
        offsets: np.ndarray = _NO_TAG[0],
        probabilities: np.ndarray = _NO_TAG[1],
    ):
        self._points, self._offsets, self._probabilities = law.support // law.span, offsets, probabilities
        self._intensity = law.intensity(law.integrals([time]))[0]
        self._mean = float(law.mean(time)) / law.span
        self._largest = _LARGEST_EXPONENT / max(self._points[-1], offsets[-1])

    def above(self, level: float) -> float:
        """P(X > level), for a whole `level`."""
        return self._tail(level + 1, +1)

    def below(self, level: float) -> float:
        """P(X <= level), for a whole `level`."""
        if level < self._offsets[0]:
            return 0.0
        if level < self._offsets[0] + self._points[0]:
            return math.exp(-self._intensity.sum()) * float(self._probabilities[self._offsets <= level].sum())
        return self._tail(level, -1)

    def _tail(self, start: float, side: int) -> float:
        """P(X >= start) for side = 1, P(X <= start) for side = -1: sum_j P(X = start + side j)."""
        tilt = self._saddle(start, side)
        if tilt == 0:
            return 1 - self._tail(start - side, -side)
        points, weight = self._points.astype(float), self._intensity * np.exp(side * tilt * self._points)
        tag = self._probabilities * np.exp(side * tilt * self._offsets)
        tag_mass = float(tag.sum())
        tag_mean = float(tag @ self._offsets) / tag_mass
        spread = math.sqrt(weight @ points**2 + tag @ (self._offsets - tag_mean) ** 2 / tag_mass)
        period = 2 * math.ceil(max(_PERIOD * spread, _DECAY / tilt, 2.0 * self._points[-1]) / 2) + 2
        nodes = candidate_nodes(self._points, weight, period)
        theta = angles(nodes, period)
        jumps = float(weight.sum())
        wave = centred_sums(self._points, weight[None, :], nodes, period, jumps)[0]
        tags = (
            1
            + centred_sums(self._offsets, tag[None, :] / tag_mass, nodes, period, 1.0)[0]
            + 1j * theta * tag_mean
        )
        # Means are subtracted from the threshold before they meet theta or the tilt: all may be 1e12.
        shift = self._mean - start
        drift = shift + float((weight - self._intensity) @ points)
        exponent = float(self._intensity @ (_expm1_minus(side * tilt * points))) + side * tilt * shift
        terms = tags * np.exp(wave + 1j * theta * drift) / -np.expm1(-tilt - 1j * side * theta)
        return math.exp(exponent) * tag_mass * 2 / period * float(terms.real.sum())

    def _saddle(self, start: float, side: int) -> float:
        """The tilt s > 0 with E_{side s}[X] = start, or a slight one; 0 where the mean is beyond."""
        points, offsets = self._points.astype(float), self._offsets.astype(float)

        def beyond(tilt: float) -> float:
            weight = self._intensity * np.expm1(side * tilt * points)
            tag = self._probabilities * np.exp(side * tilt * offsets)
            return side * (self._mean - start + weight @ points + tag @ offsets / tag.sum())

        if beyond(0.0) >= 0:
            return 0.0
        low = min(1 / math.sqrt(self._intensity @ points**2 + 1), self._largest)
        while self._intensity @ _expm1_minus(side * low * points) > 2:  # far from normal: tilt less
            low /= 2
        high = low
        while beyond(high) < 0 and high < self._largest:
            low, high = high, min(2 * high, self._largest)
        return high if high == low or beyond(high) <= 0 else brentq(beyond, low, high, rtol=1e-10)


def _expm1_minus(z: np.ndarray) -> np.ndarray:
    """e^z - 1 - z to full relative accuracy."""
    small = np.abs(z) < 0.5
    near = np.where(small, z, 0.0)
    series = np.ones_like(z)
    for n in range(18, 2, -1):  # z^2/2 (1 + z/3 (1 + z/4 (1 + ..
        series = 1 + near / n * series
    return np.where(small, near**2 / 2 * series, np.expm1(z) - z)
