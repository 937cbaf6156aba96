"""Hit ratio, prefill and storage of a cache whose only imperfection is an idle time-out, for every time-out
at once.

The rule is binary: a step whose gap is at most tau finds all of its cacheable tokens, one with a longer gap
finds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .steps import Coverage, Steps

#: Time-outs that people name, in seconds: 1, 5, 10 and 30 minutes, 1, 2 and 4 hours.
LANDMARKS = (60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)
EVERYTHING = "all"


def timeout_grid(shortest: float = 1.0, longest: float = 14400.0, per_decade: int = 60) -> np.ndarray:
    """Time-outs in s, float64: `per_decade` to a factor of ten, both ends, and the landmarks between them."""
    if not (0 < shortest < longest < np.inf and per_decade >= 1):
        raise InputError(
            f"time-out grid from {shortest} to {longest} s with {per_decade} a decade: "
            "expected 0 < shortest < longest, and at least 1 a decade"
        )
    count = int(np.ceil(per_decade * np.log10(longest / shortest))) + 1
    even = np.geomspace(shortest, longest, count)
    inside = [mark for mark in LANDMARKS if shortest <= mark <= longest]
    return np.unique(np.concatenate([even, inside, [shortest, longest]]))


@dataclass(frozen=True, eq=False)
class Scope:
    """A named part of the steps; `chosen` is bool [n]."""

    name: str
    chosen: np.ndarray


def scopes(steps: Steps) -> list[Scope]:
    """Everything, then each provider, then each kind of step (where there is more than one)."""
    parts = [Scope(EVERYTHING, np.ones(len(steps), bool))]
    for column, codes, names in (
        ("provider", steps.provider, steps.providers),
        ("kind", steps.kind, steps.kinds),
    ):
        if len(names) > 1:
            parts += [Scope(f"{column}={name}", codes == code) for code, name in enumerate(names)]
    return parts


@dataclass(frozen=True)
class Deployed:
    """The cache that recorded the trace: it prefilled `append` and served `prefix`."""

    hit_rate: float
    amplification: float
    effective_timeout: float  # s, smallest tau whose hit rate reaches `hit_rate`; inf where none does


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """What every time-out buys and costs in one scope. Arrays are float64 [timeouts]; sums are over covered
    steps.

    hit_rate = sum_{g<=tau} cacheable / sum L; amplification A = prefill / sum fresh, with prefill = sum fresh
    + sum_{g>tau} cacheable; redundant_ratio = 1 - 1/A; storage_ratio R = sum min(g, tau) / sum of generation
    spans (over all steps of the scope; NaN where no span is known); active_ratio = 1 / (1 + R).
    """

    scope: str
    coverage: Coverage
    timeouts: np.ndarray
    hit_rate: np.ndarray
    amplification: np.ndarray
    redundant_ratio: np.ndarray
    storage_ratio: np.ndarray
    active_ratio: np.ndarray
    optimal_hit_rate: float
    unlimited_storage_ratio: float  # R without eviction
    deployed: Deployed | None  # None where the trace does not say what was served

    def hit_rate_at(self, timeout: float) -> float:
        """Hit rate at a time-out of the grid."""
        return float(self.hit_rate[self._index(timeout)])

    def amplification_at(self, timeout: float) -> float:
        """Prefill amplification at a time-out of the grid."""
        return float(self.amplification[self._index(timeout)])

    def storage_ratio_at(self, timeout: float) -> float:
        """Storage ratio R at a time-out of the grid."""
        return float(self.storage_ratio[self._index(timeout)])

    def _index(self, timeout: float) -> int:
        return int(np.flatnonzero(self.timeouts == timeout)[0])


def sweep(
    steps: Steps, timeouts: np.ndarray | None = None, parts: Sequence[Scope] | None = None
) -> list[Tradeoff]:
    """Sweep every scope that has a covered step: one sort of the gaps for all, then cumulative sums."""
    timeouts = timeout_grid() if timeouts is None else np.asarray(timeouts, float)
    parts = scopes(steps) if parts is None else parts
    covered = np.flatnonzero(steps.covered)
    if not covered.size:
        raise InputError(
            f"nothing to sweep: none of {len(steps)} steps has a predecessor, a gap and token counts "
            f"({steps.coverage()})"
        )
    by_gap = covered[np.argsort(steps.gap[covered], kind="stable")]
    gap, cacheable = steps.gap[by_gap], steps.cacheable[by_gap]
    tradeoffs = []
    for part in parts:
        inside = part.chosen[by_gap]
        if inside.any():
            tradeoffs.append(_sweep_scope(steps, part, gap[inside], cacheable[inside], timeouts))
    return tradeoffs


def _sweep_scope(
    steps: Steps, part: Scope, gap: np.ndarray, cacheable: np.ndarray, timeouts: np.ndarray
) -> Tradeoff:
    """`gap`, `cacheable`: of the covered steps of the scope, by increasing gap."""
    counted = part.chosen & steps.covered
    total, fresh = int(steps.total[counted].sum()), int(steps.fresh[counted].sum())
    served = np.concatenate([[0], np.cumsum(cacheable)])  # int64: exact
    idle = np.concatenate([[0.0], np.cumsum(gap)])
    hits = np.searchsorted(gap, timeouts, side="right")  # how many gaps are <= tau
    redundant = served[-1] - served[hits]
    amplification = _ratio(fresh + redundant, fresh)
    generation = np.nansum(steps.generation[part.chosen]) or np.nan
    storage = (idle[hits] + (len(gap) - hits) * timeouts) / generation
    deployed = None
    if steps.prefix is not None:
        prefix = int(steps.prefix[counted].sum())
        deployed = Deployed(
            hit_rate=prefix / total,
            amplification=float(_ratio(total - prefix, fresh)),
            effective_timeout=_timeout_that_serves(prefix, gap, served),
        )
    return Tradeoff(
        scope=part.name,
        coverage=steps.coverage(part.chosen),
        timeouts=timeouts,
        hit_rate=served[hits] / total,
        amplification=amplification,
        redundant_ratio=1 - 1 / amplification,
        storage_ratio=storage,
        active_ratio=1 / (1 + storage),
        optimal_hit_rate=1 - fresh / total,
        unlimited_storage_ratio=float(idle[-1] / generation),
        deployed=deployed,
    )


def _timeout_that_serves(tokens: int, gap: np.ndarray, served: np.ndarray) -> float:
    """Invert the idealised curve, which jumps at the gaps: the first gap that brings it up to `tokens`."""
    reached = int(np.searchsorted(served, tokens))
    if reached == 0:
        return 0.0
    return float(gap[reached - 1]) if reached <= len(gap) else np.inf


def _ratio(prefill: np.ndarray | int, fresh: int) -> np.ndarray:
    """prefill / fresh; without any fresh token 1 where nothing is prefilled, otherwise infinite."""
    prefill = np.asarray(prefill, float)
    return prefill / fresh if fresh else np.where(prefill > 0, np.inf, 1.0)
