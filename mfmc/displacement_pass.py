"""The jitted pass over replications of the displacement process: from accesses to what is read off their paths.

No event list is sorted: masses are added up in time cells. Since D_N and its mean both increase, the values at a cell's
edges bracket all that happens inside; only the few cells that can hold a maximum, a passage or a given time are looked
into, and their events, a hundred or so, are sorted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mfmc.conversations import Accesses, Shape, Window, walk
from mfmc.displacement_events import look_into
from mfmc.laws import alias
from mfmc.laws.alias import Leaf
from mfmc.words import Lanes, lanes, word

#: Cells that are worked on at once on a CPU: what stays in a core's cache while masses are scattered over them.
_CELLS_IN_CACHE = 1 << 14


class Measures(NamedTuple):
    """One accounting's tables on the device."""

    edges: Leaf  # E D_N at the cell edges, float64 [cells + 1]
    allocated: Leaf  # arrival_rate * E[sum new]: E D_N(t) = allocated t + reusable I(t)
    reusable: Leaf
    reuse_below: Leaf  # sum_{r <= y} r a(r) at index y, float64, at least [largest + 1]
    largest: Leaf  # size of a history, int64
    sizes: alias.AliasTable  # reuse_j by turn asked for
    address: Leaf  # uint32 [turns asked for]


class Problem(NamedTuple):
    """Everything that the jitted pass reads."""

    window: Window
    gaps: Any
    measures: tuple[Measures, ...]
    capacity: Leaf
    horizon: Leaf  # of the sup
    times: Leaf


class Sizes(NamedTuple):
    """Static sizes of the jitted pass."""

    shape: Shape
    cells: int
    sup_cells: int  # cells up to the horizon of the sup
    buffer: int  # events that are looked into, per replication
    path_steps: int  # steps of the horizon at whose ends D_N is reported
    cells_at_once: int = _CELLS_IN_CACHE

    def grown(self) -> Sizes:
        """Twice the room for accesses and for events."""
        return self._replace(shape=self.shape._replace(steps=2 * self.shape.steps), buffer=2 * self.buffer)


class Outcome(NamedTuple):
    """One accounting's results of one replication."""

    values: jax.Array
    sup: jax.Array
    passage: jax.Array
    reuse: jax.Array
    path: jax.Array


def replicate(
    arguments: tuple[jax.Array, Problem], replications: jax.Array, sizes: Sizes
) -> tuple[tuple[Outcome, ...], jax.Array]:
    """Outcomes by accounting and overflow flags of the replications with the given indices."""
    key, problem = arguments
    # One lane more than the walk needs: it draws the sizes of the tagged conversations.
    streams = lanes(key, replications, sizes.shape.lanes + 1)
    own = Lanes(streams.state[:, -1:], streams.gamma[:, -1:])
    accesses = walk(
        problem.window, Lanes(streams.state[:, :-1], streams.gamma[:, :-1]), sizes.shape.steps,
        columns=len(problem.measures), locate=partial(_cell, problem, sizes),
    )
    count = len(replications)
    block = _divisor(count, max(1, sizes.cells_at_once // sizes.cells))
    if block == count:
        outcomes, overflow = _outcomes(problem, sizes, accesses, own)
    else:

        def part(first: jax.Array) -> tuple[tuple[Outcome, ...], jax.Array]:
            def columns(array: jax.Array) -> jax.Array:
                wide = block * sizes.shape.lanes
                own_part = jax.lax.dynamic_slice_in_dim(array, first * sizes.shape.lanes, wide, 1)
                return jax.lax.optimization_barrier(own_part)  # copied once, not read in strides again and again

            own_part = jax.tree_util.tree_map(lambda x: jax.lax.dynamic_slice_in_dim(x, first, block), own)
            found = Accesses(
                columns(accesses.time), tuple(map(columns, accesses.mass)), columns(accesses.place),
                jax.lax.dynamic_slice_in_dim(accesses.overflow, first, block),
            )
            return _outcomes(problem, sizes, found, own_part)

        parts = jax.lax.map(part, jnp.arange(0, count, block, dtype=jnp.int32))
        outcomes, overflow = jax.tree_util.tree_map(lambda x: x.reshape(count, *x.shape[2:]), parts)
    return outcomes, overflow | accesses.overflow


def _divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most `most`."""
    return max(d for d in range(1, min(number, most) + 1) if number % d == 0)


def _outcomes(
    problem: Problem, sizes: Sizes, accesses: Accesses, own: Lanes
) -> tuple[tuple[Outcome, ...], jax.Array]:
    """Outcomes by accounting of all replications in `accesses`, and which had more events than the buffer holds."""
    count = own.state.shape[0]
    # One flat index over all replications: XLA's gathers and scatters are several times faster on flat arrays.
    first_cell = jnp.repeat(jnp.arange(count, dtype=jnp.int32) * sizes.cells, sizes.shape.lanes)
    flat = accesses.place + first_cell
    edges = tuple(_edge_values(flat, m, count, sizes.cells) for m in accesses.mass)
    thresholds = tuple(problem.capacity - _tagged_sizes(measures, own) for measures in problem.measures)
    wanted = jax.vmap(partial(_wanted_cells, problem, sizes))(edges, thresholds)
    events, overflow = look_into(accesses, wanted.reshape(-1)[flat], count, sizes.buffer)
    outcomes = tuple(
        jax.vmap(partial(_measure, problem, sizes, measures))(edge, threshold, events.time, events.cell, m)
        for measures, edge, threshold, m in zip(problem.measures, edges, thresholds, events.mass)
    )
    return outcomes, overflow


def _edge_values(flat: jax.Array, mass: jax.Array, count: int, cells: int) -> jax.Array:
    """D_N at every cell edge: int64 [replications, cells + 1]. Unused slots lie outside and are dropped."""
    inside = jnp.zeros(count * cells, jnp.int32).at[jnp.where(mass > 0, flat, count * cells)].add(mass, mode="drop")
    until = jnp.cumsum(inside.reshape(count, cells), axis=1, dtype=jnp.int64)
    return jnp.pad(until, ((0, 0), (1, 0)))


def _tagged_sizes(measures: Measures, own: Lanes) -> jax.Array:
    """reuse_j of one tagged conversation per replication and turn: int32 [replications, turns]."""
    words = word(own, jnp.arange(measures.address.shape[0]))
    return alias.values(measures.sizes, alias.pick(measures.sizes, measures.address, words))[0]


def _wanted_cells(problem: Problem, sizes: Sizes, edges, thresholds) -> jax.Array:
    """Cells of one replication that can hold a sup, a passage or a given time: bool [cells]."""
    wanted = jnp.zeros(sizes.cells, bool).at[_cell(problem, sizes, problem.times)].set(True)
    for measures, edge, threshold in zip(problem.measures, edges, thresholds):
        wanted = wanted.at[: sizes.sup_cells].max(_may_hold_sup(measures.edges, edge, sizes.sup_cells))
        wanted |= _may_hold_passage(edge, problem.capacity, measures.largest + 1)
        crossing = jnp.searchsorted(edge[1:], threshold, side="right")
        wanted = wanted.at[crossing].set(True, mode="drop")
    return wanted


def _cell(problem: Problem, sizes: Sizes, time: jax.Array) -> jax.Array:
    """The cell of a time, int32; unused slots (infinite) fall into the last one, with mass 0."""
    inner = time * (sizes.sup_cells / problem.horizon)
    if sizes.cells > sizes.sup_cells:
        outer = (time - problem.horizon) * (
            (sizes.cells - sizes.sup_cells) / (problem.window.horizon - problem.horizon)
        )
        inner = jnp.where(time <= problem.horizon, inner, sizes.sup_cells + outer)
    return jnp.minimum(inner, sizes.cells - 1).astype(jnp.int32)


def _may_hold_sup(mean: jax.Array, edge: jax.Array, sup_cells: int) -> jax.Array:
    """Cells in which |D - E D| may exceed its largest value at an edge: both increase within a cell."""
    mean, path = mean[: sup_cells + 1], edge[: sup_cells + 1].astype(mean.dtype)
    at_edges = jnp.max(jnp.abs(path - mean))
    upper = jnp.maximum(path[1:] - mean[:-1], mean[1:] - path[:-1])
    return upper > at_edges


def _may_hold_passage(edge: jax.Array, capacity: jax.Array, above: jax.Array) -> jax.Array:
    """Cells in which a content of some size below `above` may leave: N - above < D <= N somewhere inside."""
    return (edge[1:] > capacity - above) & (edge[:-1] <= capacity)


def _measure(problem, sizes, measures: Measures, edge, threshold, time, cell, mass) -> Outcome:
    """What one accounting reads off one path: exact, since every event that matters is among the given ones."""
    before, after = _path_at(cell, mass, edge)
    finite = jnp.where(jnp.isfinite(time), time, 0.0)
    mean = measures.allocated * finite + measures.reusable * problem.gaps.residence(finite)
    counts = time <= problem.horizon
    mean_at_edges = measures.edges[: sizes.sup_cells + 1]
    sup = jnp.maximum(
        jnp.max(jnp.abs(edge[: sizes.sup_cells + 1] - mean_at_edges)),
        jnp.max(jnp.where(counts, jnp.maximum(jnp.abs(after - mean), jnp.abs(before - mean)), 0)),
    )
    passage = jnp.min(
        jnp.where(after[None, :] > threshold[:, None], time[None, :], jnp.inf), axis=1, initial=jnp.inf
    )
    passage = jnp.where(threshold < 0, 0.0, passage)
    at = _cell(problem, sizes, problem.times)
    within = (cell[None, :] == at[:, None]) & (time[None, :] <= problem.times[:, None])
    values = edge[at] + jnp.sum(jnp.where(within, mass[None, :], 0), axis=1)
    every = sizes.sup_cells // sizes.path_steps if sizes.path_steps else 0
    path = edge[: sizes.sup_cells + 1 : every] if every else edge[:0]
    return Outcome(values, sup, passage, _reuse_given_path(problem, measures, edge, time, before, after), path)


def _path_at(cell: jax.Array, mass: jax.Array, edge: jax.Array) -> tuple[jax.Array, jax.Array]:
    """D just before and at every event: the edge value of its cell plus what came before it in the cell."""
    until = jnp.cumsum(mass.astype(jnp.int64))
    opens = jnp.concatenate((jnp.ones(1, bool), cell[1:] != cell[:-1]))
    # Edge values grow at least as fast as the sums over the chosen events, so a running maximum carries them on.
    offset = jax.lax.cummax(jnp.where(opens, edge[cell] - (until - mass), jnp.iinfo(jnp.int64).min))
    return offset + until - mass, offset + until


def _reuse_given_path(problem, measures: Measures, edge, time, before, after) -> jax.Array:
    """sum_r r a(r) F(tau(r)) = sum over events of the blocks that leave at the event times F of its time.

    A content of r blocks leaves at the first event after which D > N - r.
    """
    def kept(displaced):
        room = problem.capacity - displaced
        index = jnp.clip(room, 0, measures.reuse_below.shape[0] - 1)
        return jnp.where(room < 0, 0.0, measures.reuse_below[index])

    leaves = kept(before) - kept(after)
    finite = jnp.isfinite(time)
    at_events = jnp.sum(jnp.where(finite, leaves * problem.gaps.cdf(jnp.where(finite, time, 0.0)), 0.0))
    # What is still there at the end of the window: `passage_length` makes this vanish.
    return at_events + kept(edge[-1])
