"""How much tagged content is still in memory after a time without access."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.spectrum import Spectrum
from mfmc.theory.chernoff import TailTable
from mfmc.theory.displacement_law import DisplacementLaw, lattice_offsets
from mfmc.theory.lattice_inversion import ALIASED, LatticeInversion, roughness, sample_shares, sample_times
from mfmc.theory.mean_field import characteristic_time, displacement_rate
from mfmc.workload import Workload

#: Share of the mass that the curve may be off by where recorded gaps give the law of D_N(t) many kinks in t, and how
#: often a piece is halved to come there.
ROUGH, _SPLITS = 1e-5, 12


class ResidenceCurve:
    """t -> sum_r weight(r) P(D_N(t) <= N - r): falls from `mass`, that of the sizes that fit at all, to 0.

    `tagged` holds sizes in blocks with their weights. The curve varies only in the `window` (t_low, t_high),
    up to 1e-14 of the mass; t_low is 0 where some content nearly fills the memory or one conversation may
    overfill it.
    """

    def __init__(self, workload: Workload, capacity: float, accounting: str, tagged: Spectrum):
        capacity = math.floor(capacity)
        self._centre = float(characteristic_time(workload, max(capacity, 1), accounting))
        self.law = _without_improbable(DisplacementLaw(workload, accounting, largest=capacity), self._centre)
        span = self.law.span
        self._level = capacity // span
        fits = (tagged.support <= capacity) & (tagged.weight > 0)
        fitting = Spectrum(tagged.support[fits], tagged.weight[fits])
        self._offsets, self._weights = lattice_offsets(fitting, capacity, span)
        self.mass = float(self._weights.sum())
        self._pieces: dict[int, Callable[[np.ndarray], np.ndarray]] = {}
        if self.mass == 0:
            self._edges = np.zeros(2)
            return
        probabilities = self._weights / self.mass
        tag_variance = probabilities @ self._offsets**2.0 - (probabilities @ self._offsets) ** 2
        spread = float(np.sqrt(self.law.cumulant(2, self._centre) + tag_variance * span**2))
        self._tails = TailTable(self.law, max(spread / span, 1.0), self._offsets, probabilities)
        self._edges = self._octaves(*self._find_window(spread))

    @property
    def window(self) -> tuple[float, float]:
        return float(self._edges[0]), float(self._edges[-1])

    @property
    def pieces(self) -> list[tuple[float, float]]:
        """The window cut into intervals on which the law of D_N(t) keeps its scale, from the left."""
        return list(zip(self._edges[:-1], self._edges[1:]))

    def __call__(self, times: np.ndarray) -> np.ndarray:
        """float64 [n] for `times` float64 [n]; error about 1e-14 of the mass, with recorded gaps up to ROUGH of it."""
        times = np.asarray(times, dtype=float)
        low, high = self.window
        out = np.where(times <= low, self.mass, 0.0)
        piece = np.searchsorted(self._edges, times) - 1
        piece[(times <= low) | (times >= high)] = -1
        for number in np.unique(piece[piece >= 0]):
            chosen = piece == number
            out[chosen] = self._piece(int(number))(times[chosen])
        return out

    def _piece(self, number: int) -> Callable[[np.ndarray], np.ndarray]:
        if number not in self._pieces:
            self._pieces[number] = self._between(*self.pieces[number], _SPLITS)
        return self._pieces[number]

    def _between(self, first: float, last: float, splits: int) -> Callable[[np.ndarray], np.ndarray]:
        """The curve on [first, last]; where the law of D_N(t) has many kinks in t, the polynomial through samples of
        the curve, in halves where that is rougher than ROUGH.
        """
        inversion = LatticeInversion(
            self.law, self._tails, self._offsets, self._weights, (self._level, self._level), (first, last)
        )
        if inversion.everywhere:
            return lambda times: inversion(times, self._level)
        values = inversion(sample_times(first, last), self._level)
        if splits and roughness(values) > ROUGH * self.mass:
            middle = (first + last) / 2
            left, right = (self._between(*ends, splits - 1) for ends in ((first, middle), (middle, last)))
            return lambda times: np.where(
                times < middle, left(np.minimum(times, middle)), right(np.maximum(times, middle))
            )
        return lambda times: sample_shares(first, last, times) @ values

    def _octaves(self, low: float, high: float) -> np.ndarray:
        """Edges low < .. < high / 4 < high / 2 < high; far below T_C, where little leaves, one piece does."""
        edges = [high]
        while edges[-1] / 2 > max(low, self._centre / 8):
            edges.append(edges[-1] / 2)
        return np.array([low, *edges[::-1]])

    def _find_window(self, spread: float) -> tuple[float, float]:
        """Bracket the time at which D_N(t) + tagged size crosses N, on a ladder of sd's about T_C."""
        slope = float(displacement_rate(self.law.workload, self._centre, self.law.profile.accounting))
        ladder = np.concatenate((np.linspace(1, 12, 12), np.geomspace(14, 60, 8))) * (
            spread / slope / self._centre
        )
        early = self._centre * np.exp(-np.append(ladder, 7.0))
        early = -np.sort(-early)
        integrals = self.law.integrals(early)
        settled = (self._tails.above(integrals, self._level) >= ALIASED) & (
            self.law.killing(integrals) <= np.exp(-ALIASED)
        )
        low = float(early[np.argmax(settled)]) if settled.any() else 0.0
        late = self._centre * np.exp(np.unique(np.minimum(ladder, 2.0)))
        for _ in range(200):
            gone = self._tails.below(self.law.integrals(late), self._level) >= ALIASED
            if gone.any():
                return low, float(late[np.argmax(gone)])
            late = late[-1] * np.array([1.2, 1.4, 1.7, 2.0])
        raise InputError("the memory never fills: check the arrival rate and the capacity")


def _without_improbable(law: DisplacementLaw, time: float) -> DisplacementLaw:
    """The law with its largest jumps, of which 1e-17 are expected by `time`, counted as overfilling."""
    beyond = np.cumsum(law.intensity(law.integrals([time]))[0][::-1])[::-1]
    kept = np.flatnonzero(beyond > 1e-17)
    return law if kept.size == 0 else law.limited(int(law.support[kept[-1]]))
