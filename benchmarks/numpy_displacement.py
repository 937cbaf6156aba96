"""The opponent of benchmarks/displacement.py: the same statistics of the `scm` workload, hand-vectorised in NumPy.

Everything that helps NumPy is done: replications are drawn in batches that stay in cache, masses come from one look-up
in a table, lists of live conversations are compressed after every turn, and events are sorted as single unsigned
integers that pack replication, time and mass, which is several times faster than an argsort. It knows that the gaps are
exponential and M geometric, so that residual gaps and continuations need no tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfmc.workload import Workload

_TABLE_BITS, _TIME_BITS, _MASS_BITS = 16, 40, 12


class Statistics(NamedTuple):
    """One row per replication, as in mfmc.DisplacementPaths."""

    values: np.ndarray
    sup: np.ndarray
    passage: np.ndarray


def _table(support: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """2^16 equally likely values."""
    cdf = np.cumsum(weight) / weight.sum()
    return support[np.searchsorted(cdf, (np.arange(1 << _TABLE_BITS) + 0.5) / (1 << _TABLE_BITS))]


class NumpySampler:
    """Tables of a workload with geometric turns and exponential gaps."""

    def __init__(self, workload: Workload, capacity: int, horizon: float, times: np.ndarray, turn: int):
        profile, law = workload.profile(), workload.law
        self.rate, self.capacity, self.horizon, self.times = workload.arrival_rate, capacity, horizon, times
        self.mean_gap, self.continuation = workload.gaps.mean, workload.turns.continuation
        self.waiting_rate = self.rate * float(workload.gaps.residence(horizon)) * (profile.mean_turns - 1)
        self.allocated, self.reusable = self.rate * profile.allocated, self.rate * profile.reusable
        first, later = law.blocks.increment_pmf(1, 9), law.blocks.increment_pmf(2, 9)
        self.first = _table(np.arange(first.size), first)
        self.later = _table(np.arange(later.size), later)
        # A waiting conversation brings R_{l+1}, l from the law of the turns that wait: one mixture.
        table = profile.histories
        crossing = (table.ends + table.continues)[2:].sum(axis=0)
        self.entry = _table(table.support, crossing)
        tagged = profile.turn_reuse(turn)
        self.tagged = _table(tagged.support, tagged.weight)

    def mean(self, time: np.ndarray) -> np.ndarray:
        return self.allocated * time + self.reusable * self.mean_gap * -np.expm1(-time / self.mean_gap)

    def _pick(self, rng, table: np.ndarray, size: int) -> np.ndarray:
        return table[rng.integers(0, 1 << _TABLE_BITS, size, dtype=np.uint16)]

    def batch(self, rng: np.random.Generator, replications: int) -> Statistics:
        arrivals = rng.poisson(self.rate * self.horizon, replications)
        waiting = rng.poisson(self.waiting_rate, replications)
        numbers = np.arange(replications, dtype=np.uint64)
        owner = np.concatenate((np.repeat(numbers, arrivals), np.repeat(numbers, waiting)))
        new, old = int(arrivals.sum()), int(waiting.sum())
        share = -np.expm1(-self.horizon / self.mean_gap)
        time = np.concatenate(
            (self.horizon * rng.random(new), -self.mean_gap * np.log1p(-share * rng.random(old)))
        )
        mass = np.concatenate((self._pick(rng, self.first, new), self._pick(rng, self.entry, old)))
        packed = [self._pack(owner, time, mass)]
        while time.size:
            going_on = rng.random(time.size, dtype=np.float32) < self.continuation
            time, owner = time[going_on], owner[going_on]
            time = time + self.mean_gap * rng.standard_exponential(time.size)
            inside = time < self.horizon
            time, owner = time[inside], owner[inside]
            packed.append(self._pack(owner, time, self._pick(rng, self.later, time.size)))
        return self._measure(rng, np.sort(np.concatenate(packed)), replications)

    def _pack(self, owner: np.ndarray, time: np.ndarray, mass: np.ndarray) -> np.ndarray:
        ticks = (time * ((1 << _TIME_BITS) / self.horizon)).astype(np.uint64)
        return (owner << np.uint64(_TIME_BITS + _MASS_BITS)) | (ticks << np.uint64(_MASS_BITS)) | mass.astype(np.uint64)

    def _measure(self, rng, events: np.ndarray, replications: int) -> Statistics:
        numbers = np.arange(replications, dtype=np.uint64) << np.uint64(_TIME_BITS + _MASS_BITS)
        start = np.searchsorted(events, numbers)
        mass = (events & np.uint64((1 << _MASS_BITS) - 1)).astype(np.int64)
        ticks = (events >> np.uint64(_MASS_BITS)) & np.uint64((1 << _TIME_BITS) - 1)
        time = ticks * (self.horizon / (1 << _TIME_BITS))
        until = np.cumsum(mass)
        until = np.concatenate(([0], until))
        base = until[start]
        owner = (events >> np.uint64(_TIME_BITS + _MASS_BITS)).astype(np.int64)
        after = until[1:] - base[owner]
        above = after - self.mean(time)
        sup = np.maximum(np.maximum.reduceat(above, start), np.maximum.reduceat(mass - above, start))
        last = np.append(start[1:], events.size)
        sup = np.maximum(sup, np.abs(until[last] - base - self.mean(np.array(self.horizon))))
        at = [
            np.searchsorted(
                events, numbers + (np.uint64(t / self.horizon * (1 << _TIME_BITS)) << np.uint64(_MASS_BITS)), "right"
            )
            for t in self.times
        ]
        values = np.stack([until[i] - base for i in at], axis=1)
        threshold = self.capacity - self._pick(rng, self.tagged, replications)
        index = np.searchsorted(until, base + threshold, side="right") - 1
        passage = np.where(index < last, time[np.minimum(index, events.size - 1)], np.inf)
        return Statistics(values, sup / self.capacity, passage)
