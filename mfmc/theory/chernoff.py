"""Exponential tail bounds of X = D_N(t) / span + Q from its log moment generating function.

Any tilt s gives a valid bound, P(X > y) <= exp(log E[e^{s X}] - s (y + 1)), so that a grid of tilts that
comes near the best exponent loses little and never errs. The grid serves every time and level at once.
"""

from __future__ import annotations

import numpy as np

from mfmc.theory.displacement_law import DisplacementLaw

#: Exponents of e past which a moment generating function is not evaluated.
_LARGEST_EXPONENT = 600.0

#: Ratios of consecutive tilts with which the best exponent is met within 4%, and within 0.01%.
COARSE, FINE = 1.5, 1.02


class TailTable:
    """Bounds for X = D_N(t) / span + Q, Q on `offsets` with `probabilities`; Q = 0 by default.

    `scale`: the standard deviation of X, in lattice units, about whose inverse the tilts are laid. Every
    method takes `integrals(times)` of the law, float64 [K, times], and gives float64 [times].
    """

    def __init__(
        self,
        law: DisplacementLaw,
        scale: float,
        offsets: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
        ratio: float = COARSE,
    ):
        offsets = np.zeros(1) if offsets is None else offsets.astype(float)
        probabilities = np.ones(1) if probabilities is None else probabilities
        largest = max(law.support[-1] / law.span, offsets.max())
        self._up = _tilts(scale, _LARGEST_EXPONENT / largest, ratio)
        self._down = _tilts(scale, np.inf, ratio)
        self._up_exponents = law.exponents(self._up / law.span)
        self._down_exponents = law.exponents(-self._down / law.span)
        self._up_tag = np.log(probabilities @ np.exp(np.multiply.outer(offsets, self._up)))
        self._down_tag = np.log(probabilities @ np.exp(-np.multiply.outer(offsets, self._down)))

    def above(self, integrals: np.ndarray, level: float | np.ndarray) -> np.ndarray:
        """-log of a bound of P(X > level), at least 0; `level` of one value or float64 [times]."""
        log_mgf = integrals.T @ self._up_exponents + self._up_tag
        next_level = np.floor(np.broadcast_to(level, log_mgf.shape[:1])) + 1
        return np.maximum((np.multiply.outer(next_level, self._up) - log_mgf).max(axis=1), 0.0)

    def below(self, integrals: np.ndarray, level: float | np.ndarray) -> np.ndarray:
        """-log of a bound of P(X <= level), at least 0 and infinite for negative levels; see `above`."""
        log_mgf = integrals.T @ self._down_exponents + self._down_tag
        level = np.floor(np.broadcast_to(level, log_mgf.shape[:1]))
        exponent = np.maximum((np.multiply.outer(-level, self._down) - log_mgf).max(axis=1), 0.0)
        return np.where(level < 0, np.inf, exponent)

    def highest(self, integrals: np.ndarray, exponent: float) -> float:
        """A level above which X lies with probability at most e^-exponent, at one time."""
        log_mgf = integrals[:, 0] @ self._up_exponents + self._up_tag
        return float(((log_mgf + exponent) / self._up).min())

    def lowest(self, integrals: np.ndarray, exponent: float) -> float:
        """A level at or below which X lies with probability at most e^-exponent, at one time; at least -1."""
        log_mgf = integrals[:, 0] @ self._down_exponents + self._down_tag
        return float(max(((-log_mgf - exponent) / self._down).max(), -1.0))


def _tilts(scale: float, limit: float, ratio: float) -> np.ndarray:
    high = min(100 / scale, limit)
    low = min(0.5 / scale, high / 2)
    return np.geomspace(low, high, 2 + int(np.log(high / low) / np.log(ratio)))
