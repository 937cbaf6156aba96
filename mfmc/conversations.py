"""The stationary marked Poisson measure of background conversations, drawn exactly and without burn-in (THEORY B6).

Seen from time 0, the conversations that a window (0, horizon] sees are two Poisson populations (Lemma D.2):

    arrivals          rate * horizon               conversations, first access uniform over the window,
    waiting at 0      rate * I(horizon) * S_{l+1}  after turn l, first access at a residual gap given that it is
                                                   within the window, with (M, Z) from the law given M > l.

Both are one population whose conversations draw their kind, turn and class together from a start law. They are dealt
to *lanes*, which walk through their conversations one access at a time: a lane is busy at every step, so nothing is
wasted on conversations of different lengths, and a step over all lanes of all replications is one vector operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.laws import alias
from mfmc.laws.alias import AliasTable, CountTable
from mfmc.laws.quantile_table import QuantileTable, lookup, quantile_table, residual_table
from mfmc.laws.tokens import TokenConversations
from mfmc.words import Lanes, uniform, word
from mfmc.workload import Workload

#: Conversations per lane: enough to average their lengths out, few enough that replications fill a vector.
_PER_LANE = 1024

_LAST, _ARRIVAL = np.uint64(1), np.uint64(2)


class Marks(NamedTuple):
    """The law of conversations as tables (see `mfmc.laws.conversations.NodeTable`)."""

    start: AliasTable  # value: node
    start_address: jax.Array  # uint32
    node: jax.Array  # uint64: entry row address << 34 | advance row address << 4 | flags; addresses below 2^30
    rows: AliasTable  # values: mass under each accounting asked for


class Window(NamedTuple):
    """All that sampling (0, horizon] needs; a pytree of arrays."""

    marks: Marks
    count: CountTable  # conversations of one lane
    gap: QuantileTable
    residual: QuantileTable  # of a residual gap given that it ends within the window
    horizon: jax.Array


class Shape(NamedTuple):
    """Static sizes of one replication."""

    lanes: int
    steps: int


class Accesses(NamedTuple):
    """Accesses of conversations in a window: arrays [steps, replications * lanes], in no particular order of time.

    In unused slots time is infinite and mass 0. `mass` holds, for each accounting, the blocks that an access brings in
    front of a tagged conversation: reuse_l + new_{l+1} at the first access that the window sees of a conversation
    waiting after turn l, and new_j at every other.
    """

    time: jax.Array
    mass: tuple[jax.Array, ...]  # int32 each
    place: jax.Array  # int32: what the caller's `locate` made of time
    overflow: jax.Array  # bool [replications]: some lane had not finished


def window(workload: Workload, horizon: float, accountings: tuple[str, ...]) -> tuple[Window, Shape]:
    """Tables and sizes for drawing the accesses in (0, horizon]."""
    law, rate = workload.law, float(workload.arrival_rate)
    for name in accountings:
        law.check_accounting(name)
    residence = float(workload.gaps.residence(horizon))
    marks, steps_mean, steps_square = _marks(law, accountings, residence / horizon)
    expected = rate * (horizon + residence * (_mean_turns(law) - 1))
    lanes = 1 << max(0, round(math.log2(max(expected, 1) / _PER_LANE)))
    each = expected / lanes
    # A step per access: E[M] of them per conversation and unit time. Accesses of a conversation within the window
    # vary no more than its turns do.
    mean = rate * horizon * _mean_turns(law) / lanes
    spread = math.sqrt(each * steps_square * min(1.0, mean / (each * steps_mean)))
    steps = mean + 5 * spread + 2 * math.sqrt(steps_square) + 24
    shape = Shape(lanes, 32 * math.ceil(steps / 32))
    tables = Window(
        marks,
        alias.poisson_table(each),
        quantile_table(workload.gaps),
        residual_table(workload.gaps, horizon),
        np.float64(horizon),
    )
    return tables, shape


def _mean_turns(law) -> float:
    pmf = law.turn_pmf()
    return float(pmf @ np.arange(pmf.size))


@lru_cache(maxsize=32)
def _marks(law, accountings: tuple[str, ...], residence_share: float) -> tuple[Marks, float, float]:
    """Tables of a law for a window with I(T)/T = residence_share; mean and mean square of the steps a conversation takes."""
    nodes = law.nodes()
    columns = [law.accountings.index(name) for name in accountings]
    rows, address = alias.build([(values[:, columns], p) for values, p in nodes.rows])
    weight = nodes.arrival + residence_share * nodes.waiting
    start, start_address = alias.build([(np.arange(weight.size)[:, None], weight)])
    flags = nodes.last * _LAST | (nodes.arrival > 0) * _ARRIVAL
    packed = (
        address[nodes.entry_row].astype(np.uint64) << np.uint64(34)
        | address[nodes.advance_row].astype(np.uint64) << np.uint64(4)
        | flags.astype(np.uint64)
    )
    remaining = _turns_left(nodes.last)
    p = weight / weight.sum()
    return Marks(start, start_address[0], packed, rows), float(p @ remaining), float(p @ remaining**2)


def _turns_left(last: np.ndarray) -> np.ndarray:
    """Turns from each node to the end of its conversation, itself included."""
    ends = np.flatnonzero(last)
    return (ends[np.searchsorted(ends, np.arange(last.size))] - np.arange(last.size) + 1).astype(float)


class _Walk(NamedTuple):
    step: jax.Array
    remaining: jax.Array  # conversations that this lane still has to begin
    node: jax.Array
    time: jax.Array
    active: jax.Array  # in the middle of a conversation


def walk(window: Window, lanes: Lanes, steps: int, locate: Callable[[jax.Array], jax.Array]) -> Accesses:
    """Draw all accesses of the lanes [replications, lanes]; `locate(time)` is evaluated in passing."""
    flat = Lanes(lanes.state.reshape(-1), lanes.gamma.reshape(-1))
    width, columns = flat.state.shape[0], len(window.marks.rows.values)
    start = _Walk(
        jnp.int32(0),
        alias.poisson(window.count, uniform(word(flat, jnp.uint64(0)))),
        jnp.zeros(width, jnp.int32),
        jnp.zeros(width, window.horizon.dtype),
        jnp.zeros(width, bool),
    )
    unused = jnp.full(width, jnp.inf, window.horizon.dtype)
    empty = Accesses(
        jnp.broadcast_to(unused, (steps, width)),
        tuple(jnp.zeros((steps, width), jnp.int32) for _ in range(columns)),
        jnp.broadcast_to(locate(unused), (steps, width)),
        jnp.zeros(0, bool),
    )

    def unfinished(carry: tuple[_Walk, Accesses]) -> jax.Array:
        state = carry[0]
        return (state.step < steps) & jnp.any(state.active | (state.remaining > 0))

    def advance(carry: tuple[_Walk, Accesses]) -> tuple[_Walk, Accesses]:
        state, accesses = carry
        following, time, mass = _access(window, flat, state)

        def put(array: jax.Array, row: jax.Array) -> jax.Array:
            return jax.lax.dynamic_update_index_in_dim(array, row, state.step, 0)

        return following, Accesses(
            put(accesses.time, time), tuple(put(a, m) for a, m in zip(accesses.mass, mass)),
            put(accesses.place, locate(time)), accesses.overflow,
        )

    state, accesses = jax.lax.while_loop(unfinished, advance, (start, empty))
    left = (state.active | (state.remaining > 0)).reshape(lanes.state.shape).any(axis=-1)
    return accesses._replace(overflow=left)


def _access(window: Window, lanes: Lanes, state: _Walk) -> tuple[_Walk, jax.Array, tuple[jax.Array, ...]]:
    """One access in every lane: its time (infinite if there is none left) and its masses.

    A conversation that has ended, or whose next turn falls behind the window, makes room for the lane's next one within
    the step, so that every step is an access.
    """
    marks = window.marks
    counter = 4 * state.step.astype(jnp.uint64)
    for_gap, for_start, for_first, for_mass = (word(lanes, counter + jnp.uint64(i)) for i in (1, 2, 3, 4))
    next_turn = state.time + lookup(window.gap, uniform(for_gap))
    goes_on = state.active & (next_turn <= window.horizon)
    begins = ~goes_on & (state.remaining > 0)

    started = alias.values(marks.start, alias.pick(marks.start, marks.start_address, for_start))[0]
    node = jnp.where(goes_on, state.node + 1, started)
    info = marks.node.at[node].get(mode="promise_in_bounds")
    u = uniform(for_first)
    first = jnp.where((info & _ARRIVAL) != 0, u * window.horizon, lookup(window.residual, u))
    time = jnp.where(goes_on, next_turn, first)

    address = jnp.where(goes_on, info >> np.uint64(4), info >> np.uint64(34)) & np.uint64((1 << 30) - 1)
    mass = alias.values(marks.rows, alias.pick(marks.rows, address.astype(jnp.uint32), for_mass))
    happens = goes_on | begins
    following = _Walk(state.step + 1, state.remaining - begins, node, time, happens & ((info & _LAST) == 0))
    return following, jnp.where(happens, time, jnp.inf), tuple(jnp.where(happens, m, 0) for m in mass)
