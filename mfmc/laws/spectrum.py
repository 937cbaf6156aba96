"""Measures on whole numbers of blocks: the spectra of THEORY B1 and the jump measure of THEORY B2 and B3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A measure on block counts: `weight[i]` at `support[i]`, sorted, without repetition."""

    support: np.ndarray  # int64 [n]
    weight: np.ndarray  # float64 [n]

    @classmethod
    def from_dense(cls, dense: np.ndarray, first: int = 0) -> Spectrum:
        """The measure with `dense[i]` at `first + i`; points of weight 0 are left out."""
        kept = np.flatnonzero(dense)
        return cls(kept + first, dense[kept])

    def moment(self, power: int) -> float:
        """sum_r r^power weight(r)."""
        return float(self.weight @ self.support.astype(float) ** power)

    @property
    def mass(self) -> float:
        return float(self.weight.sum())


@dataclass(frozen=True, eq=False)
class JumpMeasure:
    """D_N(t) ~ CompoundPoisson(arrival_rate * sum_k G_k(t) coefficients[k, :]) on `support` (THEORY B2, B3).

    G_k(t) = int_0^t F^{*k}(u) du; the rows are signed, their weighted sum is not. For whole content only
    G_0 = t and G_1 = t - I(t) occur.
    """

    support: np.ndarray  # int64 [n]
    coefficients: np.ndarray  # float64 [K, n]

    def moments(self, power: int) -> np.ndarray:
        """sum_r r^power coefficients[k, r], for every k: float64 [K]."""
        return self.coefficients @ self.support.astype(float) ** power

    @classmethod
    def from_dense(cls, dense: np.ndarray) -> JumpMeasure:
        """From an array [K, r]; columns of zeros, and mass 0 (which moves nothing), are left out."""
        kept = np.flatnonzero(np.any(dense != 0, axis=0))
        kept = kept[kept > 0]
        return cls(kept, np.ascontiguousarray(dense[:, kept]))


@dataclass(frozen=True, eq=False)
class HistoryTable:
    """The joint law of M and a history size (THEORY B1), by turn.

    ends[n, i] = P(M = n, R_n = support[i]), continues[n, i] = P(M > n, R_n = support[i]); row 0 is zero.
    """

    support: np.ndarray  # int64 [r]
    ends: np.ndarray  # float64 [turns + 1, r]
    continues: np.ndarray  # float64 [turns + 1, r]

    @classmethod
    def from_dense(cls, ends: np.ndarray, continues: np.ndarray) -> HistoryTable:
        kept = np.flatnonzero(np.any((ends != 0) | (continues != 0), axis=0))
        return cls(kept, np.ascontiguousarray(ends[:, kept]), np.ascontiguousarray(continues[:, kept]))

    def shifted(self, blocks: int) -> HistoryTable:
        """The same law with `blocks` added to every size."""
        return HistoryTable(self.support + blocks, self.ends, self.continues)

    @property
    def reuse(self) -> Spectrum:
        """a(r) = E[#{j < M : R_j = r}]."""
        return _without_zeros(self.support, self.continues.sum(axis=0))

    @property
    def terminal(self) -> Spectrum:
        """b(r) = P(B = r)."""
        return _without_zeros(self.support, self.ends.sum(axis=0))

    def at_turn(self, turn: int) -> Spectrum:
        """The law of R_turn given M >= turn (mass 1)."""
        weight = self.ends[turn] + self.continues[turn]
        return _without_zeros(self.support, weight / weight.sum())


def _without_zeros(support: np.ndarray, weight: np.ndarray) -> Spectrum:
    kept = np.flatnonzero(weight)
    return Spectrum(support[kept], weight[kept])
