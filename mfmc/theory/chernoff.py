"""Exponential tail bounds of X = D_N(t) / span + Q from its log moment generating function, on a grid of tilts.

Any tilt s gives a valid bound, P(X > y) <= exp(log E[e^{s X}] - s (y + 1)), so a grid that comes within a few percent
of the best exponent is enough to choose windows and periods by.
"""

from __future__ import annotations

import numpy as np

from mfmc.theory.displacement_law import DisplacementLaw

#: Exponents of e past which a moment generating function is not evaluated.
_LARGEST_EXPONENT = 600.0

#: Tilts are this factor apart: the best exponent is met within 4%.
_RATIO = 1.5


class TailTable:
    """Bounds for X = D_N(t) / span + Q, Q on `offsets` with probabilities `probabilities`; Q = 0 by default.

    `scale`: the standard deviation of X about which the tilts are laid, in lattice units.
    """

    def __init__(
        self,
        law: DisplacementLaw,
        scale: float,
        offsets: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
    ):
        offsets = np.zeros(1) if offsets is None else offsets.astype(float)
        probabilities = np.ones(1) if probabilities is None else probabilities
        span = law.span
        largest = max(law.support[-1] / span, offsets.max())
        self._up = _tilts(scale, _LARGEST_EXPONENT / largest)
        self._down = _tilts(scale, np.inf)
        self._up_exponents = law.exponents(self._up / span)
        self._down_exponents = law.exponents(-self._down / span)
        self._up_tag = np.log(probabilities @ np.exp(np.multiply.outer(offsets, self._up)))
        self._down_tag = np.log(probabilities @ np.exp(-np.multiply.outer(offsets, self._down)))

    def above(self, integrals: np.ndarray, level: float) -> np.ndarray:
        """-log of a bound of P(X > level) at each time: float64 [times], at least 0."""
        log_mgf = integrals.T @ self._up_exponents + self._up_tag
        return np.maximum((self._up * (level + 1) - log_mgf).max(axis=1), 0.0)

    def below(self, integrals: np.ndarray, level: float) -> np.ndarray:
        """-log of a bound of P(X <= level) at each time: float64 [times], at least 0."""
        log_mgf = integrals.T @ self._down_exponents + self._down_tag
        return np.maximum((-self._down * level - log_mgf).max(axis=1), 0.0)

    def highest(self, integrals: np.ndarray, exponent: float) -> float:
        """A level above which X lies with probability at most e^-exponent, at one time."""
        log_mgf = integrals[:, 0] @ self._up_exponents + self._up_tag
        return float(((log_mgf + exponent) / self._up).min())

    def lowest(self, integrals: np.ndarray, exponent: float) -> float:
        """A level at or below which X lies with probability at most e^-exponent, at one time; at least -1."""
        log_mgf = integrals[:, 0] @ self._down_exponents + self._down_tag
        return float(max(((-log_mgf - exponent) / self._down).max(), -1.0))


def _tilts(scale: float, limit: float) -> np.ndarray:
    high = min(100 / scale, limit)
    low = min(0.5 / scale, high / 2)
    return np.geomspace(low, high, 2 + int(np.log(high / low) / np.log(_RATIO)))
