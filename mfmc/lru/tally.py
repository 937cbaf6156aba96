"""Integers that grow with the capacity: tallied access by access, read off at any capacity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accesses import Integers


def adder(backend: str) -> Callable[..., None]:
    """What adds weights to the sums of their points, as `Tally` keeps them: beside numba's kernels, a twin by numba."""
    if backend != "numba":
        return lambda sums, points, weights: np.add.at(sums, np.maximum(points, -1) + 1, weights)
    from .scatter import add_at

    return add_at


class Tally:
    """Sums of integer weights at integer points: an array for points below ``near``, a list beyond.

    Points from ``limit`` on are not asked for and left out, as are negative ones.
    """

    def __init__(self, near: int, limit: int, add_at: Callable[..., None]) -> None:
        self.near, self.limit, self._add_at = min(near, limit), limit, add_at
        self._sums = np.zeros(2, np.int64)  # the sum at point p is _sums[p + 1]; _sums[0] collects what is left out
        self._far: list[tuple[Integers, Integers]] = []
        self._unsettled = 0  # entries added to the list since it was last summed up

    def add(self, points: Integers, weights: NDArray) -> None:
        """Add the weights (whole numbers or flags) at their points."""
        top = int(points.max(initial=0)) + 1
        if top > self.near:
            beyond = points >= self.near
            far = beyond & (points < self.limit)
            self._far.append((points[far], weights[far].astype(np.int64)))
            self._unsettled += len(self._far[-1][0])
            if self._unsettled > self.near:
                self._settle()
            points, top = np.where(beyond, -1, points), self.near
        self._reach(top)
        # No selection of the points that count: which ones do cannot be predicted, and a branch would cost more.
        self._add_at(self._sums, points, weights.astype(np.int64, copy=False))

    def merge(self, other: Tally) -> None:
        """Add what another tally of the same kind has."""
        self._reach(len(other._sums) - 1)
        self._sums[: len(other._sums)] += other._sums
        self._far += other._far

    def total(self) -> tuple[Integers, Integers]:
        """The point 0 and those with a sum other than 0, increasing, and their sums."""
        self._settle()
        sums = self._sums[1:]
        shown = sums != 0
        shown[0] = True
        near = np.flatnonzero(shown)
        if not self._far:
            return near, sums[near]
        points, weights = self._far[0]
        return np.concatenate([near, points]), np.concatenate([sums[near], weights])

    def _reach(self, top: int) -> None:
        """Make room for the sums at points below ``top``."""
        if top > len(self._sums) - 1:
            grown = np.zeros(min(self.near, max(top, 2 * len(self._sums))) + 1, np.int64)
            grown[: len(self._sums)] = self._sums
            self._sums = grown

    def _settle(self) -> None:
        """One entry for each point of the list: as many as there are capacities, however long the stream."""
        if not self._far:
            return
        points, weights = (np.concatenate(arrays) for arrays in zip(*self._far, strict=True))
        distinct, place = np.unique(points, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, place, weights)
        self._far, self._unsettled = [(distinct[sums != 0], sums[sums != 0])], 0


@dataclass(frozen=True, eq=False)
class Count:
    """A function of the capacity N: value[i] + slope[i] (N - at[i]) from N = at[i] up to the next one."""

    at: Integers
    value: Integers
    slope: Integers

    def __call__(self, capacity: ArrayLike) -> NDArray[np.int64]:
        blocks: NDArray[np.int64] = np.asarray(capacity, dtype=np.int64)
        place = np.searchsorted(self.at, blocks, side="right") - 1
        return self.value[place] + self.slope[place] * (blocks - self.at[place])


@dataclass(eq=False)
class Growth:
    """What makes a `Count`: jumps at points, and changes of slope from points on."""

    jumps: Tally
    bends: Tally

    def merge(self, other: Growth) -> None:
        self.jumps.merge(other.jumps)
        self.bends.merge(other.bends)

    def count(self) -> Count:
        at, jump = self.jumps.total()
        at_bends, bends = self.bends.total()
        if not bends.any():
            return Count(at, np.cumsum(jump), np.zeros_like(at))
        points = np.union1d(at, at_bends)
        jumps, slope = np.zeros_like(points), np.zeros_like(points)
        jumps[np.searchsorted(points, at)] = jump
        slope[np.searchsorted(points, at_bends)] = bends
        np.cumsum(slope, out=slope)
        value = np.cumsum(jumps)
        value[1:] += np.cumsum(slope[:-1] * np.diff(points))
        return Count(points, value, slope)
