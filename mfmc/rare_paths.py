"""Accesses of a window under a tilted Poisson measure of conversations, drawn exactly.

By their last access up to the tilt's time s, the conversations of the window (0, T] fall into three Poisson
populations (the time reversal of THEORY B2), the first two for every n:

    rate s E[e^{theta R_n} 1{M = n}]     last access at turn n, uniform over (0, s], and no turn after it;
    rate I(s) E[e^{theta R_n} 1{M > n}]  last access at turn n, at an age before s of density Fbar / I(s);
    untilted                             no access in (0, s]: arrivals in (s, T], and gaps over all of (0, s].

Given a conversation's class and n, the tilt falls on Z_1, .., Z_n alone, each tilted by itself. From its last
access a conversation is walked backward to 0 through tilted increments, and from s forward to T through the
original ones. That is whole content; in the practical model a conversation that waited at 0 brings R_n - 1,
a factor e^{-theta} that a thinning puts right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.conversations import BlockConversations, NodeTable
from mfmc.laws.recorded import RecordedConversations
from mfmc.workload import Workload


class Events(NamedTuple):
    """Accesses, in no order: arrays [events]."""

    path: np.ndarray
    time: np.ndarray
    mass: np.ndarray  # blocks in front of a tagged conversation


class _Walkers(NamedTuple):
    """Conversations on their way: arrays [conversations]."""

    identity: np.ndarray
    path: np.ndarray
    node: np.ndarray
    time: np.ndarray

    def where(self, chosen: np.ndarray) -> _Walkers:
        return _Walkers(*(array[chosen] for array in self))


class _Rows:
    """Laws of masses, one after another in flat arrays, tilted by e^{theta value}; drawn by inversion."""

    def __init__(self, nodes: NodeTable, column: int, theta: float):
        counts = np.array([p.size for _, p in nodes.rows])
        start = np.cumsum(counts) - counts
        row = np.repeat(np.arange(counts.size), counts)
        values = np.concatenate([v for v, _ in nodes.rows])
        exponent = theta * values[:, 0]
        shift = np.maximum.reduceat(exponent, start)
        weight = np.concatenate([p for _, p in nodes.rows]) * np.exp(exponent - shift[row])
        total = np.add.reduceat(weight, start)
        until = np.cumsum(weight / total[row])
        self.mgf = total * np.exp(shift)  # E[e^{theta value}] of every row
        self._values = values[:, column]
        self._cdf = row + (until - (until - weight / total[row])[start][row])
        self._last = start + counts - 1

    def draw(self, rng: np.random.Generator, row: np.ndarray) -> np.ndarray:
        found = np.searchsorted(self._cdf, row + rng.random(row.size), side="right")
        return self._values[np.minimum(found, self._last[row])]


class TiltedConversations:
    """The conversations that (0, horizon] sees, under any tilt of their masses in one accounting."""

    def __init__(self, workload: Workload, horizon: float, accounting: str):
        law = workload.law
        # Masses that telescope to R_n (B2) leave a jump measure of two terms, t and t - I(t).
        if (
            not isinstance(law, BlockConversations | RecordedConversations)
            or accounting not in ("whole", "practical")
            or len(law.jumps("whole").coefficients) != 2
        ):
            raise InputError(
                f"accounting={accounting!r}: rare events need the accounting whole or practical of workloads "
                "in blocks, and of recorded ones whose histories never shrink"
            )
        self.workload, self.horizon, self.accounting = workload, horizon, accounting
        self._nodes = law.nodes()
        self._column = law.accountings.index(accounting)
        self._first = self._nodes.arrival > 0
        self._class_weight = self._nodes.arrival + self._nodes.waiting
        self._plain = _Rows(self._nodes, self._column, 0.0)

    def draw(self, rng: np.random.Generator, time: float, theta: float, paths: int) -> Events:
        """All accesses in (0, horizon] of so many independent paths, tilted by e^{theta Phi_time}."""
        waiting, events = self._seen(rng, time, theta, paths)
        unseen = self._unseen(rng, time, paths)
        entry = self._plain.draw(rng, self._nodes.entry_row[unseen.node])
        events.append(Events(unseen.path, unseen.time, entry))
        # The law of a gap that is open at `time`, given its age.
        age = time - waiting.time
        survival = np.asarray(self.workload.gaps.survival(age))
        gap = self.workload.gaps.upper_quantile(survival * rng.random(age.size))
        going = unseen.where(~self._nodes.last[unseen.node])
        fresh = self.workload.gaps.quantile(rng.random(going.time.size))
        walkers = _Walkers(*(np.concatenate(pair) for pair in zip(waiting, going)))
        walkers = walkers._replace(time=np.concatenate((waiting.time + gap, going.time + fresh)))
        events += self._forward(rng, walkers)
        return Events(*(np.concatenate(parts) for parts in zip(*events)))

    def _seen(
        self, rng: np.random.Generator, time: float, theta: float, paths: int
    ) -> tuple[_Walkers, list[Events]]:
        """Of conversations with an access in (0, time]: those that wait at `time`, and all the accesses."""
        nodes, gaps, rows = self._nodes, self.workload.gaps, _Rows(self._nodes, self._column, theta)
        residence = float(gaps.residence(time))
        weight = self._class_weight * rows.mgf[nodes.entry_row] * np.where(nodes.last, time, residence)
        practical = self.accounting == "practical"
        surplus = max(1.0, np.exp(-theta)) if practical else 1.0
        start = self._populate(rng, weight * surplus, paths)
        u = rng.random(start.node.size)
        goes_on = ~nodes.last[start.node]
        last_access = time * u
        last_access[goes_on] = time - gaps.residual_quantile(u[goes_on] * (residence / gaps.mean))
        start = start._replace(time=last_access)
        events, waited = self._backward(rng, rows, start)
        if practical:
            kept = rng.random(waited.size) * surplus < np.where(waited, np.exp(-theta), 1.0)
            events = [(Events(*(a[kept[who]] for a in found)), who) for found, who in events]
            goes_on &= kept
        return start.where(goes_on), [found for found, _ in events]

    def _unseen(self, rng: np.random.Generator, time: float, paths: int) -> _Walkers:
        """Conversations whose first access in the window falls into (time, horizon]."""
        nodes, gaps = self._nodes, self.workload.gaps
        residence, whole = (float(gaps.residence(t)) for t in (time, self.horizon))
        weight = nodes.arrival * (self.horizon - time) + nodes.waiting * (whole - residence)
        start = self._populate(rng, weight, paths)
        u = rng.random(start.node.size)
        first_access = time + (self.horizon - time) * u
        waited = ~self._first[start.node]
        share = (residence + u[waited] * (whole - residence)) / gaps.mean
        first_access[waited] = gaps.residual_quantile(share)
        return start._replace(time=first_access)

    def _populate(self, rng: np.random.Generator, weight: np.ndarray, paths: int) -> _Walkers:
        """A Poisson number of conversations, dealt to paths and nodes; their times are still to be drawn."""
        cdf = np.cumsum(weight)
        count = rng.poisson(paths * float(self.workload.arrival_rate) * cdf[-1])
        node = np.searchsorted(cdf, cdf[-1] * rng.random(count), side="right")
        node = np.minimum(node, np.flatnonzero(weight)[-1] if count else 0)
        return _Walkers(np.arange(count), rng.integers(0, paths, count), node, np.zeros(count))

    def _backward(
        self, rng: np.random.Generator, rows: _Rows, walkers: _Walkers
    ) -> tuple[list[tuple[Events, np.ndarray]], np.ndarray]:
        """Accesses from the last one down to the first of the window; and who waited at 0."""
        nodes, waited = self._nodes, np.zeros(walkers.node.size, dtype=bool)
        events: list = []
        while walkers.node.size:
            before = walkers.time - self.workload.gaps.quantile(rng.random(walkers.node.size))
            first = self._first[walkers.node] | (before <= 0)
            row = np.where(first, nodes.entry_row[walkers.node], nodes.advance_row[walkers.node])
            events.append((Events(walkers.path, walkers.time, rows.draw(rng, row)), walkers.identity))
            waited[walkers.identity[first]] = ~self._first[walkers.node[first]]
            walkers = walkers._replace(time=before, node=walkers.node - 1).where(~first)
        return events, waited

    def _forward(self, rng: np.random.Generator, walkers: _Walkers) -> list[Events]:
        """Accesses up to the horizon; `time` is that of the next turn, `node` the turn before it."""
        events: list = []
        while True:
            walkers = walkers._replace(node=walkers.node + 1).where(walkers.time <= self.horizon)
            if not walkers.node.size:
                return events
            mass = self._plain.draw(rng, self._nodes.advance_row[walkers.node])
            events.append(Events(walkers.path, walkers.time, mass))
            walkers = walkers.where(~self._nodes.last[walkers.node])
            gap = self.workload.gaps.quantile(rng.random(walkers.node.size))
            walkers = walkers._replace(time=walkers.time + gap)


class SortedPaths:
    """Sample paths of D_N from their events, every path closed by an event of no mass at the horizon."""

    def __init__(self, events: Events, paths: int, horizon: float):
        closing = np.arange(paths)
        path = np.concatenate((events.path, closing))
        time = np.concatenate((events.time, np.full(paths, horizon)))
        # One number sorts by path, then time; a path's times fill less than 1.
        self._scale = (1 - 1e-9) / horizon
        key = path + time * self._scale
        order = np.argsort(key)
        self._key, self.time = key[order], time[order]
        mass = np.concatenate((events.mass, np.zeros(paths, dtype=events.mass.dtype)))[order]
        total = np.concatenate(([0], np.cumsum(mass, dtype=np.int64)))
        self.start = np.searchsorted(self._key, closing)
        self._total, self._paths = total, closing
        lengths = np.diff(np.append(self.start, order.size))
        self.before = total[:-1] - np.repeat(total[self.start], lengths)
        self.after = self.before + mass

    def at(self, times: np.ndarray) -> np.ndarray:
        """D_N at the times: int64 [paths, times]."""
        place = np.searchsorted(self._key, self._paths[:, None] + times * self._scale, side="right")
        return self._total[place] - self._total[self.start][:, None]
