"""The replay that an estimate is held against: the trace's own accesses through a block LRU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mfmc.estimator import TraceEstimator
from mfmc.studies.context import Context
from mfmc.workload import Workload

if TYPE_CHECKING:
    from mfmc.lru import AccessStream, HitRatioCurve
    from mfmc.traces import Trace

RESAMPLED_CONVERSATIONS = 20_000
#: A replay of conversations that were placed lasts so many of their mean durations, in at most so many turns.
DURATIONS, MOST_TURNS = 40, 2_000_000


class Replayed(NamedTuple):
    """Hit ratios at every capacity (token-exact, the deepest blocks leave first), and how they were
    replayed.
    """

    curve: HitRatioCurve
    how: str


def replay_trace(estimator: TraceEstimator, context: Context, max_capacity: int, warm_up: float) -> Replayed:
    """LRU of blocks over the trace, token-exact; the first `warm_up` share of its time is not counted.

    The file's own times where it has a clock and the rate is its own; conversations placed at Poisson moments
    where each has a clock of its own; resampled whole with gaps of the law used, where there is neither.
    """
    from mfmc.lru import hit_ratio_curve

    stream, how, end = _stream(estimator, context, max_capacity)
    if stream.counted == slice(None):
        begin = stream.time[0]
        counted = np.searchsorted(stream.time, [begin + warm_up * (end - begin), np.nextafter(end, np.inf)])
        stream = replace(stream, counted=slice(*map(int, counted)))
        how += f"; the first {100 * warm_up:.6g}% of the time is not counted"
    return Replayed(hit_ratio_curve(stream, "token", eviction="block", max_capacity=int(max_capacity)), how)


def _stream(estimator: TraceEstimator, context: Context, max_capacity: int) -> tuple[AccessStream, str, float]:
    """The accesses, how they were come by, and the time after which there are fewer than the arrival rate brings."""
    trace, block_tokens = estimator.trace, estimator.sums.block_tokens
    if trace.clock == "shared" and estimator.measured_rate:
        stream = trace.accesses(block_tokens)
        return stream, "the file's own requests at their own times", stream.time[-1]
    if trace.clock == "per conversation":
        rate = estimator.conversation_rate or estimator.arrival_rate
        rounds = _rounds(trace, rate)
        placed = trace.placed(rate, context.settings.runtime.seed, rounds)
        often = "" if rounds == 1 else f", {rounds} times over"
        # Not the last new content: a long conversation that shrinks begins anew for the cache after all have arrived.
        last_arrival = float(placed.submitted_at[placed.starts].max())
        how = f"the file's conversations with their own gaps, at Poisson moments{often}"
        return placed.accesses(block_tokens), how, last_arrival
    from mfmc.lru import sample_accesses

    workload = Workload(
        estimator.arrival_rate, estimator.laws[estimator.default_law], conversations=estimator.conversations
    )
    stream = sample_accesses(context.key("replay"), workload, int(max_capacity), conversations=RESAMPLED_CONVERSATIONS)
    how = (
        f"{RESAMPLED_CONVERSATIONS:,} conversations resampled from the file, Poisson arrivals, gaps drawn from the"
        f" {estimator.default_law.replace('_', '-')} law"
    )
    return stream, how, stream.time[-1]


def _rounds(trace: Trace, rate: float) -> int:
    """How often to place the conversations until arrivals and ends balance for most of the replay's time."""
    last = np.append(trace.starts[1:], len(trace)) - 1
    duration = float((trace.submitted_at[last] - trace.submitted_at[trace.starts]).mean())
    wanted = int(np.ceil(DURATIONS * duration * rate / trace.lengths.size))
    return max(1, min(wanted, MOST_TURNS // len(trace)))
