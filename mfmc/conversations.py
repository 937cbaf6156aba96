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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.buckets import round_up
from mfmc.laws import alias
from mfmc.laws.alias import CountTable, Leaf
from mfmc.laws.quantile_table import QuantileTable, lookup, quantile_table, residual_table
from mfmc.marks import Marks, marks
from mfmc.words import Lanes, uniform, word
from mfmc.workload import Workload

#: Conversations per lane: enough to average their lengths out, few enough that replications fill a vector.
_PER_LANE = 1024


class Window(NamedTuple):
    """All that sampling (0, horizon] needs; a pytree of arrays."""

    marks: Marks
    conversations: CountTable  # of one lane
    gap: QuantileTable
    residual: QuantileTable  # of a residual gap given that it ends within the window
    horizon: Leaf


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
    tables, taken = marks(law, accountings, residence / horizon)
    turn_pmf = law.turn_pmf()
    mean_turns = float(turn_pmf @ np.arange(turn_pmf.size))
    expected = rate * (horizon + residence * (mean_turns - 1))  # conversations
    lanes = 1 << max(0, round(math.log2(max(expected, 1) / _PER_LANE)))
    each = expected / lanes
    # A step per access, E[M] of them per conversation and unit time, and one per silent turn. The accesses of a
    # conversation within the window vary no more than its turns do.
    mean = rate * horizon * mean_turns / lanes + each * taken.silent
    spread = math.sqrt(each * taken.mean_square * min(1.0, mean / (each * taken.mean)))
    steps = mean + 5 * spread + 2 * math.sqrt(taken.mean_square) + 24
    return (
        Window(
            tables, alias.poisson_table(each), quantile_table(workload.gaps), residual_table(workload.gaps, horizon),
            np.float64(horizon),
        ),
        Shape(lanes, 32 * round_up(math.ceil(steps / 32))),
    )


class _Walk(NamedTuple):
    step: jax.Array
    remaining: jax.Array  # conversations that this lane still has to begin
    carried: Any  # by the marks
    time: jax.Array
    active: jax.Array  # in the middle of a conversation


def walk(
    window: Window, lanes: Lanes, steps: int, columns: int, locate: Callable[[jax.Array], jax.Array]
) -> Accesses:
    """Draw all accesses of the lanes [replications, lanes], with masses in so many columns (accountings).

    `locate(time)` is evaluated in passing.
    """
    flat = Lanes(lanes.state.reshape(-1), lanes.gamma.reshape(-1))
    width = flat.state.shape[0]
    start = _Walk(
        jnp.int32(0),
        alias.poisson(window.conversations, uniform(word(flat, jnp.uint64(0)))),
        window.marks.begin(width),
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
    counter = 4 * state.step.astype(jnp.uint64)
    for_gap, for_start, for_first, for_mass = (word(lanes, counter + jnp.uint64(i)) for i in (1, 2, 3, 4))
    next_turn = state.time + lookup(window.gap, uniform(for_gap))
    goes_on = state.active & ((next_turn <= window.horizon) | window.marks.unseen(state.carried))
    begins = ~goes_on & (state.remaining > 0)
    happens = goes_on | begins

    turn = window.marks.draw(state.carried, goes_on, for_start, for_mass)
    u = uniform(for_first)
    first = jnp.where(turn.arrival, u * window.horizon, lookup(window.residual, u))
    time = jnp.where(turn.first, first, next_turn)
    following = _Walk(state.step + 1, state.remaining - begins, turn.carried, time, happens & ~turn.last)
    seen = happens & ~turn.silent
    return following, jnp.where(seen, time, jnp.inf), tuple(jnp.where(seen, m, 0) for m in turn.mass)
