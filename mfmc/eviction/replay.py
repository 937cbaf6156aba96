"""What an LRU memory hits on the steps of the table, by replay.

The table has no common clock, so session starts are drawn. Time is a circle: Poisson starts are uniform given
their number, a session that runs over the end goes on at the beginning, and the laps before serve as warm-up.
The cache is then stationary throughout, and every covered step counts exactly once per copy of the table.

Generation takes no time here, so the time between two accesses is the gap: the contexts being decoded are
pinned in memory beside the LRU one (`TimeoutMemory.decoding`). That is the model of the theory, where an
access is an instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..lru.accesses import AccessStream, accesses_from_arrays
from ..lru.curve import hit_ratio_curve
from .memory import reused
from .steps import Steps

#: No further copy of the table is added to a lap that has as many accesses.
LAP_ACCESSES = 500_000


@dataclass(frozen=True, eq=False)
class LruReplay:
    """Token-weighted hit rates over covered steps, float64 [capacities]; standard errors over the starts."""

    capacities: np.ndarray  # int64, tokens
    hit_rate: np.ndarray
    standard_error: np.ndarray
    steps: int  # covered steps counted in all replications
    period: float  # s, length of the circle
    longest_session: float  # s


def lru_hit_rates(
    steps: Steps,
    capacities: np.ndarray,
    session_rate: float,
    *,
    warm_up: float,
    replications: int = 4,
    seed: int = 0,
) -> LruReplay:
    """Hit rates of LRU memories of `capacities` tokens when sessions start at `session_rate` per second.

    `warm_up`: at least as many seconds precede the counted lap, more until the largest memory is full.
    Replication i draws its starts from (seed, i). A lap holds enough copies of the table to be longer than
    the longest session (shorter circles would smooth the load), or as many as `LAP_ACCESSES` allows: compare
    `period` with `longest_session`.
    """
    if replications < 2:
        raise InputError(f"replications is {replications}: expected 2 or more, for a standard error")
    capacities = np.maximum(np.rint(capacities).astype(np.int64), 1)
    longest = float(_clock(steps).max())
    copies = int(np.ceil(longest * session_rate / steps.sessions))
    copies = max(1, min(copies, LAP_ACCESSES // len(steps)))
    period = steps.sessions * copies / session_rate
    looked_up = copies * steps.total[steps.covered].sum()
    rates = np.empty((replications, len(capacities)))
    for replication in range(replications):
        starts = np.random.default_rng([seed, replication]).uniform(0.0, period, (copies, steps.sessions))
        lap = _one_lap(steps, starts, period)
        stream, _ = _stationary_stream(steps, lap, period, warm_up, int(capacities.max()))
        # One token a block, and only covered steps reuse anything: the curve counts just the tokens wanted.
        # No largest capacity is given, because it would cost an array of as many entries.
        curve = hit_ratio_curve(stream, "token")
        rates[replication] = curve.served(capacities) / looked_up
    return LruReplay(
        capacities=capacities,
        hit_rate=rates.mean(axis=0),
        standard_error=rates.std(axis=0, ddof=1) / np.sqrt(replications),
        steps=replications * copies * int(steps.covered.sum()),
        period=period,
        longest_session=longest,
    )


class _Lap(NamedTuple):
    """The accesses of one lap, one per step, [accesses] each."""

    time: np.ndarray  # s, in [0, period]
    turns: np.ndarray  # how often the session had come round by then
    session: np.ndarray
    step: np.ndarray


def _clock(steps: Steps) -> np.ndarray:
    """float64 [n], s: idle time from the session's start to each step; an unknown gap counts as 0."""
    elapsed = np.cumsum(np.where(steps.first, 0.0, np.nan_to_num(steps.gap)))
    return elapsed - elapsed[steps.first][_session_number(steps)]


def _session_number(steps: Steps) -> np.ndarray:
    return np.cumsum(steps.first) - 1


def _one_lap(steps: Steps, starts: np.ndarray, period: float) -> _Lap:
    """`starts`: float64 [copies, sessions], s."""
    copies, sessions = starts.shape
    step = np.flatnonzero(steps.held > 0)
    number = _session_number(steps)[step]
    time = starts[:, number] + _clock(steps)[step]
    turns = np.floor(time / period)
    return _Lap(
        time=np.clip(time - turns * period, 0.0, period).ravel(),
        turns=turns.astype(np.int64).ravel(),
        session=(number + sessions * np.arange(copies)[:, None]).ravel(),
        step=np.tile(step, copies),
    )


def _stationary_stream(
    steps: Steps, lap: _Lap, period: float, warm_up: float, capacity: int
) -> tuple[AccessStream, np.ndarray]:
    """Accesses from `warm_up` or more before time 0 to one period, and the step of each."""
    while True:
        stream, step = _unroll(steps, lap, period, warm_up)
        sizes = stream.sizes("token")
        allocated = np.where(stream.previous < 0, sizes.held, sizes.held - sizes.moved)
        begin = int(np.searchsorted(stream.time, 0.0))
        if allocated[:begin].sum() >= capacity:
            return replace(stream, counted=slice(begin, None)), step
        warm_up = 2 * warm_up + period


def _unroll(steps: Steps, lap: _Lap, period: float, warm_up: float) -> tuple[AccessStream, np.ndarray]:
    laps = int(np.ceil(warm_up / period))
    parts = [(number, np.flatnonzero(lap.time + number * period >= -warm_up)) for number in range(-laps, 1)]
    rows = np.concatenate([inside for _, inside in parts])
    number = np.concatenate([np.full(len(inside), number) for number, inside in parts])
    # A session starts anew in every lap: it is told apart by the lap of its start.
    started = number - lap.turns[rows]
    step = lap.step[rows]
    stream = accesses_from_arrays(
        lap.time[rows] + number * period,
        lap.session[rows] * (1 - started.min()) - started,
        tokens=steps.held[step],
        new_tokens=steps.held[step] - reused(steps)[step],
        block_tokens=1,
    )
    return stream, step[stream.row]
