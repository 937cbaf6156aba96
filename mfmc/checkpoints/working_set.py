"""How much memory a design needs before it starts to pay: T_C, with what that design displaces.

An entry is still there when its conversation returns after a gap W if the mass displaced since then is below
the capacity N: if W <= T_C, with d(T_C) = N. What a turn displaces is the design's own. Let
T(r) = 1 + .. + r blocks, what the full-prefix checkpoints of a history of r blocks take together, and F the
law of the gaps.

* A design that holds every block once (keep_longest, shared_blocks, whole_conversation) is the paper's
  whole-content model: d(t) = arrival_rate (E[B] t + A_H I(t)), eq. (15). value_per_byte holds little more,
  and is predicted alike.
* every_checkpoint admits 1..R_j again after a miss, T(R_j) blocks, and only what is new after a hit,
  T(R_j) - T(R_{j-1}), beside the one checkpoint that was used. A turn within the window hits if its gap is at
  most t = T_C, so that

      d(t) = arrival_rate ( t (E[T(B)] + Fbar(t) E[sum_{j<M} T(R_j)]) + A_H (I(t) - t Fbar(t)) ).

  (Put T(r) = r and the first formula comes back.) This d can fall: misses feed on themselves. Where d(t) = N
  has several roots, a cold cache, which fills along d, stops at the smallest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from mfmc.errors import InputError
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.workload import Workload

#: The designs that are whole-content LRU, for which THEORY B4 gives the hit ratio of a finite memory exactly.
WHOLE_CONTENT = ("keep_longest", "shared_blocks", "whole_conversation")
#: Times at which d is tabulated; linear interpolation between them is exact to about 1e-6.
GRID = 20_001


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """d(t) of one design on one workload: `times`, `displaced` (blocks), `cdf` = F(times)."""

    times: NDArray[np.float64]
    displaced: NDArray[np.float64]
    cdf: NDArray[np.float64]
    reuse_ceiling: float

    @property
    def filled(self) -> NDArray[np.float64]:
        """max_{s<=t} d(s): the capacity below which a cold cache has a characteristic time below t."""
        return np.maximum.accumulate(self.displaced)

    def characteristic_time(self, capacity: ArrayLike) -> NDArray[np.float64]:
        """The smallest root of d(t) = N, for N in blocks; the last time of the table where there is none."""
        place = np.searchsorted(self.filled, np.asarray(capacity, dtype=np.float64))
        above = np.clip(place, 1, len(self.times) - 1)
        below = above - 1
        rise = self.displaced[above] - self.displaced[below]
        share = np.clip(
            (np.asarray(capacity) - self.displaced[below]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0
        )
        return self.times[below] + share * (self.times[above] - self.times[below])

    def hit_ratio(self, capacity: ArrayLike) -> NDArray[np.float64]:
        """Mean-field share of prompt blocks served, (A_H / A_R) F(T_C), eq. (25)."""
        return self.reuse_ceiling * np.interp(self.characteristic_time(capacity), self.times, self.cdf)

    def threshold(self, share: float) -> float:
        """The smallest capacity (blocks) that reaches `share` of the reuse ceiling: d at F^{-1}(share)."""
        if not 0 < share < self.cdf[-1]:
            raise InputError(f"share={share}: expected a number between 0 and {self.cdf[-1]:.6g}")
        time = np.interp(share, self.cdf, self.times)
        return float(np.interp(time, self.times, self.filled))


def written_blocks(design: str, history: NDArray[np.int64]) -> NDArray[np.float64]:
    """Blocks that a design writes for a history computed from nothing: T(r) or r."""
    return history * (history + 1.0) / 2 if design == "every_checkpoint" else history.astype(np.float64)


def exact_threshold(workload: Workload, share: float) -> float:
    """The capacity (blocks) at which the exact law of whole content reaches `share` of the ceiling."""
    target = share * workload.profile("whole").reuse_ceiling
    guess = working_set(workload, WHOLE_CONTENT[0]).threshold(share)
    return brentq(
        lambda capacity: hit_ratio_exact(workload, capacity) - target, 0.1 * guess, 10 * guess, xtol=1.0
    )


def working_set(workload: Workload, design: str) -> WorkingSet:
    """Tabulate d(t) for a design up to twice the time by which all but 1e-6 of the gaps have ended."""
    profile = workload.profile("whole")
    times = np.linspace(0.0, 2 * float(workload.gaps.quantile(1 - 1e-6)), GRID)
    survival, residence = workload.gaps.survival(times), workload.gaps.residence(times)
    rate = float(workload.arrival_rate)
    if design == "every_checkpoint":
        stacked = written_blocks(design, profile.histories.support)
        final = float(profile.histories.ends.sum(axis=0) @ stacked)
        again = float(profile.histories.continues.sum(axis=0) @ stacked)
        reused = profile.reusable * (residence - times * survival)
        displaced = rate * (times * (final + survival * again) + reused)
    else:
        displaced = rate * (profile.allocated * times + profile.reusable * residence)
    return WorkingSet(times, displaced, workload.gaps.cdf(times), profile.reuse_ceiling)
