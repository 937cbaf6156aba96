"""Access streams of a stationary workload: no burn-in of conversations, and a cache known to have filled.

A stream begins at time -warm_up with an empty cache and the conversations that wait for their next turn then
(THEORY B6). Once more blocks have come in front than the cache holds, what it holds no longer depends on
how the stream began: the counted window (0, horizon] sees exactly the stationary cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..laws.quantile_table import QuantileTable, lookup, quantile_table, residual_table
from ..theory.mean_field import characteristic_time, mean_displacement
from ..words import require_double_precision
from ..workload import Workload
from .accesses import AccessStream, accesses_from_arrays
from .draws import draw_conversations
from .replay import checked_capacity

_SIGMAS = 8  # the lower tail of displacement is sub-Gaussian: it stays above this with probability 1 - 1e-14


def sample_accesses(
    key: jax.Array,
    workload: Workload,
    capacity: int,
    conversations: float,
    warm_up: float | None = None,
) -> AccessStream:
    """A stream whose counted window is stationary for caches of up to ``capacity`` blocks.

    ``conversations`` arrive in the counted window (0, horizon] on average. Every access in it counts, of
    whichever conversation, so nothing is censored: by stationarity, blocks served and blocks looked up per
    unit time are the numerator and the denominator of (12) and (24) times the arrival rate. ``warm_up``
    (units of time) is chosen unless given; that it fills the cache is checked, in every accounting.
    """
    return sampler(workload, capacity, conversations, warm_up)(key)


def sampler(
    workload: Workload, capacity: int, conversations: float, warm_up: float | None = None
) -> Callable[[jax.Array], AccessStream]:
    """`sample_accesses` as a function of the key alone, for many streams of one kind."""
    require_double_precision()
    capacity = checked_capacity(capacity)
    if not (conversations > 0 and math.isfinite(conversations)):
        raise InputError(f"conversations is {conversations}: expected a positive number")
    warm_up = filling_time(workload, capacity) if warm_up is None else warm_up
    window = warm_up + conversations / float(workload.arrival_rate)
    tables = quantile_table(workload.gaps), residual_table(workload.gaps, window)

    def sample(key: jax.Array) -> AccessStream:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        stream = _stationary(rng, workload, warm_up, window, *tables)
        counted = int(np.searchsorted(stream.time, 0.0, side="right"))
        if counted == len(stream):
            raise InputError(f"conversations is {conversations}: no access came in the counted time, give more")
        for accounting in stream.accountings:
            if brought_in_front(stream, accounting, counted) <= capacity:
                raise InputError(
                    f"a warm_up of {warm_up:g} does not fill a cache of {capacity} blocks ({accounting} "
                    "accounting): give a longer one"
                )
        return replace(stream, counted=slice(counted, None))

    return sample


def filling_time(workload: Workload, capacity: int) -> float:
    """A time in which more than ``capacity`` blocks come in front, but for a probability of 1e-14."""
    jumps = workload.profile("whole").jumps
    second = np.maximum(jumps.moments(2), 0).sum()  # variance <= rate t (E[B^2] + E[sum_{j<M} R_j^2])
    time = float(characteristic_time(workload, capacity + 1))
    while True:
        spread = _SIGMAS * math.sqrt(float(workload.arrival_rate) * time * second)
        least = min(float(mean_displacement(workload, time, name)) for name in workload.accountings)
        if least - spread > capacity:
            return time
        time *= 1.1


def brought_in_front(stream: AccessStream, accounting: str, end: int) -> int:
    """Blocks in front of all that was there before the stream, just before access ``end``."""
    sizes = stream.sizes(accounting)
    returns = stream.previous[:end] >= 0
    return int(sizes.held[:end].sum() - sizes.moved[:end][returns].sum())


def _stationary(
    rng: np.random.Generator,
    workload: Workload,
    warm_up: float,
    window: float,
    gap_table: QuantileTable,
    residual: QuantileTable,
) -> AccessStream:
    """All accesses of the stationary process in ``window`` units of time from -warm_up on."""
    rate, law = float(workload.arrival_rate), workload.law
    pmf = law.turn_pmf()
    mean_gaps = float(pmf @ np.maximum(np.arange(len(pmf)) - 1, 0))
    # Poisson counts on the host: jax.random.poisson is biased at large rates.
    arriving = int(rng.poisson(rate * window))
    waiting = int(rng.poisson(rate * float(workload.gaps.residence(window)) * mean_gaps))
    drawn = draw_conversations(rng, law, arriving, waiting)
    first = np.concatenate([rng.uniform(0, window, arriving), _times(residual, rng, waiting)])

    owner = np.repeat(np.arange(len(first)), drawn.lengths)
    steps = _times(gap_table, rng, len(owner))
    begins = np.flatnonzero(np.diff(owner, prepend=-1))
    steps[begins] = 0  # sums of gaps alone: first times are larger, and would cost them their last digits
    time = np.cumsum(steps)
    time += np.repeat(first - time[begins], drawn.lengths)
    inside = np.flatnonzero(time <= window)
    inside = inside[np.argsort(time[inside], kind="stable")]
    return accesses_from_arrays(
        time[inside] - warm_up,
        owner[inside],
        history=drawn.history[inside],
        new=drawn.new[inside],
        tokens=None if drawn.tokens is None else drawn.tokens[inside],
        new_tokens=None if drawn.new_tokens is None else drawn.new_tokens[inside],
        block_tokens=drawn.block_tokens,
        final=drawn.final[inside],
    )


def _times(table: QuantileTable, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    rows = 1 << max(count - 1, 1).bit_length()  # few shapes, so few compilations
    uniform = np.full(rows, 0.5)
    uniform[:count] = rng.random(count)
    return np.array(_lookup(table, uniform))[:count]  # sliced by NumPy: JAX would compile a program per count


_lookup = jax.jit(lookup)
