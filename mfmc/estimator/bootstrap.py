"""Bootstrap over conversations: how far the estimate would move had other conversations come.

Conversations are resampled with replacement, the sizes with their conversation and so are its gaps. Of a large
trace they are first put into `UNITS` groups at random, which are then resampled: sums of independent conversations
vary alike. Of a very large one `MOST_CONVERSATIONS` are taken, and as many drawn of them as the trace has (the bag
of little bootstraps, Kleiner et al. 2014). F is taken on a grid of quantiles, where only differences between
replicates matter; the interval is put around the estimate made with the full law.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from mfmc.cores import chunks, on_cores
from mfmc.estimator.moments import with_unseen_turns
from mfmc.laws.gaps import ExponentialGaps
from mfmc.traces.table import Gaps

MOST_CONVERSATIONS = 1 << 18
UNITS = 2048
GRID = 512
GAPS_AT_ONCE = 1 << 20
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Units:
    """Sums over resampling units: [units] each; `blocks[accounting]` [units, 3]; `waits`, `weighted` [2, units,
    grid]: gaps that ended, and waits that the file cut, in each cell (grid[k], grid[k+1]], counted and
    weighted by the tokens of the prompt before. scale: conversations of the trace for each that is in a unit.
    """

    conversations: np.ndarray
    blocks: dict[str, np.ndarray]
    grid: np.ndarray
    waits: np.ndarray
    weighted: np.ndarray
    scale: float

    @classmethod
    def of(
        cls,
        owner: np.ndarray,
        blocks: dict[str, np.ndarray],
        gaps: Gaps,
        grid: np.ndarray,
        rng: np.random.Generator,
    ) -> Units:
        """`owner` [conversations]: whose they are; blocks[..] [3, conversations]; grid: seconds, from 0."""
        people = int(max(owner.max(initial=0), gaps.conversation.max(initial=0))) + 1
        taken = min(people, MOST_CONVERSATIONS)
        units, width = min(taken, UNITS), grid.size - 1
        unit_of = np.full(people, -1, dtype=np.int32)
        unit_of[rng.permutation(people)[:taken]] = np.arange(taken) % units
        counts, lock = np.zeros((2, 2 * units * (width + 1))), Lock()

        def count(part: slice) -> None:
            unit = unit_of[gaps.conversation[part]]
            use = unit >= 0
            # A wait cut beyond the last gap is at risk of all of them: cell `width`.
            cell = np.searchsorted(grid[1:], gaps.seconds[part][use], side="left")
            cell += (units * gaps.censored[part][use] + unit[use]) * (width + 1)
            size = gaps.prompt_tokens[part][use]
            found = [np.bincount(cell, weight, minlength=counts.shape[1]) for weight in (None, size)]
            with lock:
                np.add(counts, found, out=counts)

        on_cores(count, chunks(gaps.seconds.size, GAPS_AT_ONCE))
        unit = unit_of[owner]
        if taken < people:
            blocks = {name: sums[:, unit >= 0] for name, sums in blocks.items()}
            unit = unit[unit >= 0]
        waits, weighted = counts.reshape(2, 2, units, width + 1)
        summed = {
            name: np.stack([np.bincount(unit, column, minlength=units) for column in sums], axis=1)
            for name, sums in blocks.items()
        }
        conversations = np.bincount(unit, minlength=units).astype(float)
        return cls(conversations, summed, grid, waits, weighted, people / taken)

    def weights(self, replicates: int, rng: np.random.Generator) -> np.ndarray:
        """[replicates + 1, units]: how often each unit is drawn; in row 0 once each, which is the trace.

        A draw without a conversation, or without a gap where the trace has some, says nothing: it counts as row 0.
        """
        units = self.conversations.size
        drawn = rng.multinomial(round(units * self.scale), np.full(units, 1 / units), size=replicates)
        gaps = [ended.sum(axis=1) for ended in (self.waits[0], self.weighted[0]) if ended.any()]
        needed = [self.conversations, *gaps]
        drawn[np.any([drawn @ present == 0 for present in needed], axis=0)] = 1
        return np.concatenate([np.ones((1, units)), drawn])


@dataclass(frozen=True, eq=False)
class Replicates:
    """The mean field on every resample: row 0 is the trace itself. All arrays [rows] or [rows, grid]."""

    arrival_rate: np.ndarray
    allocated: np.ndarray
    reusable: np.ndarray
    content: np.ndarray
    grid: np.ndarray
    cdf: np.ndarray
    residence: np.ndarray

    @classmethod
    def of(
        cls,
        units: Units,
        weights: np.ndarray,
        accounting: str,
        arrival_rate: np.ndarray,
        law: str | Any,
        unseen: float,
        first_blocks: float,
    ) -> Replicates:
        """`law`: "empirical", "kaplan_meier", "size_weighted", "posterior" (exponential of each resample's mean
        gap), or a gap law that is not resampled. `unseen`, `first_blocks`: see `with_unseen_turns`.
        """
        count = weights @ units.conversations
        allocated, reusable, content = (weights @ units.blocks[accounting] / count[:, None]).T
        grid, cdf = _laws(units, weights, law)
        steps = np.diff(grid) * (1 - (cdf[:, 1:] + cdf[:, :-1]) / 2)
        residence = np.concatenate([np.zeros((len(cdf), 1)), np.cumsum(steps, axis=1)], axis=1)
        sizes = with_unseen_turns(allocated, reusable, content, unseen, first_blocks)
        return cls(arrival_rate, *sizes, grid, cdf, residence)

    def characteristic_time(self, capacity: float) -> np.ndarray:
        """T_C of every resample."""
        displaced = self.arrival_rate[:, None] * (
            self.allocated[:, None] * self.grid + self.reusable[:, None] * self.residence
        )
        beyond = (capacity - displaced[:, -1]) / (self.arrival_rate * self.allocated)
        inside = np.array([np.interp(capacity, row, self.grid) for row in displaced])
        return inside + np.maximum(beyond, 0)

    def hit_ratio(self, capacity: float) -> np.ndarray:
        """h of every resample."""
        times = self.characteristic_time(capacity)
        served = np.array([np.interp(t, self.grid, row) for t, row in zip(times, self.cdf)])
        return self.reusable / self.content * served

    def capacity_for(self, hit_ratio: float) -> np.ndarray:
        """N of every resample; infinite where its ceiling lies below the target."""
        level = hit_ratio * self.content / self.reusable
        times = np.array([np.interp(u, row, self.grid) for u, row in zip(level, self.cdf)])
        inside = np.array([np.interp(t, self.grid, row) for t, row in zip(times, self.residence)])
        capacity = self.arrival_rate * (self.allocated * times + self.reusable * inside)
        return np.where(level < 1, capacity, np.inf)


def interval(estimate: float, resampled: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The estimate with the percentile interval of how far the resamples lie from row 0."""
    tail = (1 - level) / 2
    low, high = np.quantile(resampled[1:] - resampled[0], [tail, 1 - tail], method="inverted_cdf")
    return float(estimate + low), float(estimate + high)


def _laws(units: Units, weights: np.ndarray, law: Any) -> tuple[np.ndarray, np.ndarray]:
    """(grid, F on it per resample)."""
    if law in ("empirical", "kaplan_meier", "size_weighted"):
        ended, cut = weights @ (units.weighted if law == "size_weighted" else units.waits)
        if law == "empirical":
            ended = ended[:, :-1]
            heights = np.cumsum(ended, axis=1) / ended.sum(axis=1, keepdims=True)
        else:
            both = ended + cut
            at_risk = np.cumsum(both[:, ::-1], axis=1)[:, ::-1][:, :-1]
            # Actuarial: what is cut inside a cell was at risk for half of it.
            exposed = np.maximum(at_risk - cut[:, :-1] / 2, 1e-9)
            survival = np.cumprod(1 - np.minimum(ended[:, :-1] / exposed, 1), axis=1)
            heights = (1 - survival) / np.maximum(1 - survival[:, -1:], 1e-12)
        return units.grid, np.concatenate([np.zeros((len(weights), 1)), heights], axis=1)
    if law == "posterior":
        ended = (weights @ units.waits[0])[:, :-1]
        middle = (units.grid[1:] + units.grid[:-1]) / 2
        means = ended @ middle / ended.sum(axis=1)
        grid = ExponentialGaps(float(means[0])).quantile(np.linspace(0, 1 - 1e-6, GRID))
        return grid, -np.expm1(-grid / means[:, None])
    grid = np.asarray(law.quantile(np.linspace(0, 1 - 1e-6, GRID)))
    grid = np.unique(np.concatenate([[0.0], grid]))
    return grid, np.tile(np.asarray(law.cdf(grid)), (len(weights), 1))
