"""Replayed hit ratios with their standard errors.

Both numerator and denominator are sums over a stationary window, all accesses in it counted, first turns
included: blocks served over blocks looked up, (12) and (24) by Campbell's formula. Successive accesses are
correlated, so the error comes from independent replications, or from batches of time far longer than the
memory of the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..statistics import Estimate, ratio
from ..workload import Workload
from .curve import hit_ratio_curve
from .replay import Replay, checked_capacity
from .sampling import sampler


class ReplayedHitRatio(NamedTuple):
    """h(N) by replay, arrays [capacities]; ``accesses`` counted in all replications."""

    capacity: NDArray[np.int64]
    estimate: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    accesses: int


def replayed_hit_ratio(
    key: jax.Array,
    workload: Workload,
    capacities: ArrayLike,
    accounting: str = "whole",
    *,
    conversations: float = 100_000,
    replications: int = 16,
    eviction: str = "conversation",
    backend: str | None = None,
) -> ReplayedHitRatio:
    """h(N) of LRU at every capacity asked for, from independent stationary streams.

    ``conversations`` arrive in each replication on average; replication i draws from ``fold_in(key, i)``.
    """
    capacity = np.array([checked_capacity(n) for n in np.atleast_1d(capacities)])
    if not capacity.size:
        raise InputError("capacities is empty: expected at least one capacity in blocks")
    if replications < 2:
        raise InputError(f"replications is {replications}: a standard error needs at least 2")
    largest = int(capacity.max())
    sample = sampler(workload, largest, conversations)
    served, looked_up, accesses = [], [], 0
    for replication in range(replications):
        stream = sample(jax.random.fold_in(key, replication))
        curve = hit_ratio_curve(stream, accounting, eviction=eviction, max_capacity=largest, backend=backend)
        served.append(curve.served(capacity))
        looked_up.append(curve.looked_up)
        accesses += curve.accesses
    estimates = [ratio(column, looked_up) for column in np.transpose(served)]
    values, errors = (np.array(column) for column in zip(*estimates, strict=True))
    return ReplayedHitRatio(capacity, values, errors, accesses)


def batch_means(replay: Replay, batches: int = 32) -> Estimate:
    """The hit ratio of one replay, its standard error from ``batches`` equal spans of the counted time.

    Batches must be much longer than what the cache remembers (the characteristic time) and than the gaps.
    """
    stream, counted = replay.stream, replay.stream.counted
    time = stream.time[counted]
    content = stream.sizes(replay.accounting).content[counted]
    if len(time) < batches or batches < 2:
        raise InputError(f"{len(time)} counted accesses in {batches} batches: expected at least 2 batches and as many")
    edges = np.linspace(time[0], time[-1], batches + 1)
    batch = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, batches - 1)
    served = np.bincount(batch, weights=replay.served[counted], minlength=batches)
    return ratio(served, np.bincount(batch, weights=content, minlength=batches))
