"""Sample paths of the displacement process D_N(t) and what the theorems bound of them (Theorems C.2 and C.4).

One pass over a replication gives, exactly and for every accounting from the same draw: D_N at given times, the sup over
[0, horizon] of |D_N(t) - E D_N(t)|, first passages tau_C(j), and E[F(tau)] over all sizes (Lemma D.6). No event list
is sorted: masses are added up in time cells. Since D_N and its mean both increase, the values at a cell's edges bracket
all that happens inside; only the few cells that can hold a maximum, a passage or a given time are looked into, and
their events, a hundred or so, are sorted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.buckets import padded, round_up
from mfmc.conversations import Accesses, Shape, Window, walk, window
from mfmc.errors import InputError
from mfmc.laws import alias
from mfmc.laws.alias import Leaf
from mfmc.replication import Replicator
from mfmc.theory.mean_field import characteristic_time, mean_displacement
from mfmc.words import Lanes, lanes, require_double_precision, word
from mfmc.workload import Workload

#: Accesses per time cell: few, so that little is left to sort, enough that cells cost less than accesses.
_PER_CELL = 2
#: Cells that are worked on at once on a CPU: what stays in a core's cache while masses are scattered over them.
_CELLS_IN_CACHE = 1 << 14
#: Equal cells up to the horizon at least: a power of two, and so is every number of cells.
_FEWEST_CELLS = 64
#: Share of the reusable blocks that the largest histories may hold and be left out of E[F(tau)].
_SIZE_TAIL = 1e-10


class _Measures(NamedTuple):
    """One accounting's tables on the device."""

    edges: Leaf  # E D_N at the cell edges, float64 [cells + 1]
    allocated: Leaf  # arrival_rate * E[sum new]: E D_N(t) = allocated t + reusable I(t)
    reusable: Leaf
    reuse_below: Leaf  # sum_{r <= y} r a(r) at index y, float64, at least [largest + 1]
    largest: Leaf  # size of a history, int64
    sizes: alias.AliasTable  # reuse_j by turn asked for
    address: Leaf  # uint32 [turns asked for]


class _Problem(NamedTuple):
    """Everything that the jitted pass reads."""

    window: Window
    gaps: Any
    measures: tuple[_Measures, ...]
    capacity: Leaf
    horizon: Leaf  # of the sup
    times: Leaf


class _Sizes(NamedTuple):
    """Static sizes of the jitted pass."""

    shape: Shape
    cells: int
    sup_cells: int  # cells up to the horizon of the sup
    buffer: int  # events that are looked into, per replication
    path_steps: int  # steps of the horizon at whose ends D_N is reported
    cells_at_once: int = _CELLS_IN_CACHE

    def grown(self) -> _Sizes:
        """Twice the room for accesses and for events."""
        return self._replace(shape=self.shape._replace(steps=2 * self.shape.steps), buffer=2 * self.buffer)


class _Outcome(NamedTuple):
    """One accounting's results of one replication."""

    values: jax.Array
    sup: jax.Array
    passage: jax.Array
    reuse: jax.Array
    path: jax.Array


@dataclass(frozen=True)
class DisplacementPaths:
    """Results of `simulate_displacement`, one row per replication. D_N in blocks, times in the workload's unit."""

    accounting: str
    capacity: int
    horizon: float  # of the sup
    length: float  # of the simulated window; passages beyond it are infinite
    times: np.ndarray  # [times]
    turns: tuple[int, ...]
    values: np.ndarray  # int64 [replications, times]: D_N at the times
    mean: np.ndarray  # [times]: E D_N
    sup: np.ndarray  # [replications]: sup over [0, horizon] of |D_N(t)/N - d(t)|
    passage: np.ndarray  # [replications, turns]: tau_C(j) (14), with reuse_j drawn anew
    reuse_given_path: np.ndarray  # [replications]: sum_r r a(r) F(tau_C of size r), blocks per conversation
    path: np.ndarray  # int64 [replications, path_steps + 1]: D_N at equal steps of [0, horizon], if asked for

    @property
    def deviation(self) -> np.ndarray:
        """|D_N(t)/N - d(t)| at the times: [replications, times]."""
        return np.abs(self.values - self.mean) / self.capacity


def passage_length(workload: Workload, capacity: float, accounting: str = "whole") -> float:
    """A window after which D_N exceeds N but for a probability below 1e-12.

    D_N(t) has positive jumps, so P(D <= mean - x) <= exp(-x^2 / (2 variance)) (Chernoff); variance from THEORY B2.
    """
    table = workload.profile("whole").histories
    second_b, second_a = table.terminal.moment(2), table.reuse.moment(2)
    rate = float(workload.arrival_rate)
    time = float(characteristic_time(workload, capacity, accounting))
    while True:
        mean = float(mean_displacement(workload, time, accounting))
        # Whole content moves at least as many blocks as the other accountings, so its variance covers theirs.
        variance = rate * (time * second_b + float(workload.gaps.residence(time)) * second_a)
        if mean > capacity and (mean - capacity) ** 2 > 2 * variance * math.log(1e12):
            return time
        time *= 1.1


def simulate_displacement(
    key: jax.Array,
    workload: Workload,
    capacity: int,
    horizon: float | None = None,
    replications: int = 1024,
    *,
    times: Any = (),
    turns: tuple[int, ...] = (),
    accountings: tuple[str, ...] = ("whole",),
    length: float | None = None,
    path_steps: int = 0,
    replicator: Replicator | None = None,
) -> dict[str, DisplacementPaths]:
    """Independent stationary displacement paths, by accounting.

    horizon: of the sup; 2 T_C if not given. length: of the simulated window, at least the horizon; if not given and
    turns are, long enough that every passage is seen (`passage_length`). times: at most the length. path_steps: whole
    paths at so many equal steps of the horizon, a power of two up to 64; they cost memory, but no time.
    """
    require_double_precision()
    if not (isinstance(replications, int | np.integer) and replications >= 1):
        raise InputError(f"replications={replications!r}: expected a whole number of at least 1")
    if horizon is None:
        horizon = 2 * float(characteristic_time(workload, capacity))
    if not horizon > 0:
        raise InputError(f"horizon={horizon!r}: expected a positive time")
    if length is None:
        length = max([horizon] + [passage_length(workload, capacity, a) for a in accountings if turns])
    times = np.atleast_1d(np.asarray(times, dtype=float))
    if times.size and not (times.min() >= 0 and times.max() <= length * (1 + 1e-12)):
        raise InputError(f"times={times.tolist()}: expected within the simulated window, 0 to {length:g}")
    if path_steps not in (0, *(1 << i for i in range(_FEWEST_CELLS.bit_length()))):
        raise InputError(f"path_steps={path_steps!r}: expected a power of two, at most {_FEWEST_CELLS}, or 0 for none")
    for turn in turns:
        workload.profile().turn_reuse(turn)  # refuses a turn that no conversation reaches

    problem, sizes = _problem(workload, capacity, horizon, max(length, horizon), times, turns, accountings, path_steps)
    replicator = replicator or Replicator()
    if replicator.platform != "cpu":
        sizes = sizes._replace(cells_at_once=1 << 62)  # all replications at once
    rows = replicator.run(
        _replicate, (key, problem), sizes, replications,
        bytes_each=sizes.shape.lanes * sizes.shape.steps * (24 + 8 * len(accountings)) + 64 * sizes.cells,
        grow=_Sizes.grown,
    )
    return {
        name: DisplacementPaths(
            name, capacity, horizon, max(length, horizon), times, tuple(turns),
            values=rows[i].values, mean=np.asarray(mean_displacement(workload, times, name), dtype=float),
            sup=rows[i].sup / capacity, passage=rows[i].passage, reuse_given_path=rows[i].reuse, path=rows[i].path,
        )
        for i, name in enumerate(accountings)
    }


def _problem(workload, capacity, horizon, length, times, turns, accountings, path_steps) -> tuple[_Problem, _Sizes]:
    tables, shape = window(workload, length, accountings)
    rate = float(workload.arrival_rate)
    turn_pmf = workload.law.turn_pmf()
    per_time = rate * float(turn_pmf @ np.arange(turn_pmf.size))  # accesses per unit time
    sup_cells = max(_FEWEST_CELLS, 1 << max(0, round(math.log2(max(per_time * horizon, 1) / _PER_CELL))))
    cells = sup_cells
    if length > horizon * (1 + 1e-12):  # more than the rounding of what was computed to be equal
        cells += round_up(math.ceil(per_time * (length - horizon) / _PER_CELL))
    edges = _edges(horizon, length, sup_cells, cells)
    measures, near = [], 0.0
    for name in accountings:
        profile = workload.profile(name)
        rows = [_column(profile.turn_reuse(turn)) for turn in turns] or [(np.zeros((1, 1), int), np.ones(1))]
        sizes, address = alias.build(rows)
        below = _reuse_below(profile.reuse)
        near = max(near, min(below.size, capacity) * per_time / float(mean_displacement(workload, 1.0, name)))
        measures.append(
            _Measures(
                np.asarray(mean_displacement(workload, edges, name)),
                np.float64(rate * profile.allocated), np.float64(rate * profile.reusable), padded(below),
                np.int64(below.size - 1), sizes, address,
            )
        )
    buffer = 32 * round_up(math.ceil((1.4 * near + _PER_CELL * (30 + 2 * times.size + 3 * len(turns))) / 32))
    buffer = min(buffer, shape.lanes * shape.steps)
    problem = _Problem(
        tables, workload.gaps, tuple(measures), np.int64(capacity), np.float64(horizon), times
    )
    return problem, _Sizes(shape, cells, sup_cells, max(buffer, 32), path_steps)


def _edges(horizon: float, length: float, sup_cells: int, cells: int) -> np.ndarray:
    """Cell edges: `sup_cells` equal cells up to the horizon, equal ones from there to the end of the window."""
    inner = np.linspace(0, horizon, sup_cells + 1)
    if cells == sup_cells:
        return inner
    return np.concatenate((inner, np.linspace(horizon, length, cells - sup_cells + 1)[1:]))


def _column(spectrum) -> tuple[np.ndarray, np.ndarray]:
    return spectrum.support[:, None], spectrum.weight


def _reuse_below(reuse) -> np.ndarray:
    """sum_{r <= y} r a(r) for y = 0, 1, ..; sizes that together hold 1e-10 of the blocks are left out."""
    blocks = reuse.support * reuse.weight
    if not blocks.size or blocks.sum() == 0:
        return np.zeros(1)
    kept = 1 + np.searchsorted(np.cumsum(blocks), (1 - _SIZE_TAIL) * blocks.sum())
    dense = np.bincount(reuse.support[:kept], weights=blocks[:kept])
    return np.cumsum(dense)


def _replicate(
    arguments: tuple[jax.Array, _Problem], replications: jax.Array, sizes: _Sizes
) -> tuple[tuple[_Outcome, ...], jax.Array]:
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

        def part(first: jax.Array) -> tuple[tuple[_Outcome, ...], jax.Array]:
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
    problem: _Problem, sizes: _Sizes, accesses: Accesses, own: Lanes
) -> tuple[tuple[_Outcome, ...], jax.Array]:
    """Outcomes by accounting of all replications in `accesses`, and which had more events than the buffer holds."""
    count = own.state.shape[0]
    # One flat index over all replications: XLA's gathers and scatters are several times faster on flat arrays.
    first_cell = jnp.repeat(jnp.arange(count, dtype=jnp.int32) * sizes.cells, sizes.shape.lanes)
    flat = accesses.place + first_cell
    edges = tuple(_edge_values(flat, m, count, sizes.cells) for m in accesses.mass)
    thresholds = tuple(problem.capacity - _tagged_sizes(measures, own) for measures in problem.measures)
    wanted = jax.vmap(partial(_wanted_cells, problem, sizes))(edges, thresholds)
    events, overflow = _look_into(accesses, wanted.reshape(-1)[flat], count, sizes.buffer)
    outcomes = tuple(
        jax.vmap(partial(_measure, problem, sizes, measures))(edge, threshold, events.time, events.cell, m)
        for measures, edge, threshold, m in zip(problem.measures, edges, thresholds, events.mass)
    )
    return outcomes, overflow


class _Events(NamedTuple):
    """The events that are looked into, in time order: arrays [replications, buffer]."""

    time: jax.Array
    cell: jax.Array
    mass: tuple[jax.Array, ...]


def _edge_values(flat: jax.Array, mass: jax.Array, count: int, cells: int) -> jax.Array:
    """D_N at every cell edge: int64 [replications, cells + 1]. Unused slots lie outside and are dropped."""
    inside = jnp.zeros(count * cells, jnp.int32).at[jnp.where(mass > 0, flat, count * cells)].add(mass, mode="drop")
    until = jnp.cumsum(inside.reshape(count, cells), axis=1, dtype=jnp.int64)
    return jnp.pad(until, ((0, 0), (1, 0)))


def _tagged_sizes(measures: _Measures, own: Lanes) -> jax.Array:
    """reuse_j of one tagged conversation per replication and turn: int32 [replications, turns]."""
    words = word(own, jnp.arange(measures.address.shape[0]))
    return alias.values(measures.sizes, alias.pick(measures.sizes, measures.address, words))[0]


def _wanted_cells(problem: _Problem, sizes: _Sizes, edges, thresholds) -> jax.Array:
    """Cells of one replication that can hold a sup, a passage or a given time: bool [cells]."""
    wanted = jnp.zeros(sizes.cells, bool).at[_cell(problem, sizes, problem.times)].set(True)
    for measures, edge, threshold in zip(problem.measures, edges, thresholds):
        wanted = wanted.at[: sizes.sup_cells].max(_may_hold_sup(measures.edges, edge, sizes.sup_cells))
        wanted |= _may_hold_passage(edge, problem.capacity, measures.largest + 1)
        crossing = jnp.searchsorted(edge[1:], threshold, side="right")
        wanted = wanted.at[crossing].set(True, mode="drop")
    return wanted


def _cell(problem: _Problem, sizes: _Sizes, time: jax.Array) -> jax.Array:
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


def _look_into(accesses: Accesses, wanted: jax.Array, count: int, buffer: int) -> tuple[_Events, jax.Array]:
    """Gather and sort the events of the wanted cells; and whether they were more than the buffer holds.

    Flags are packed into words of 32 steps, so that a search over a few words finds the n-th event.
    """
    steps, width = wanted.shape
    bit = (jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32))[None, :, None]
    chosen = (wanted & (accesses.mass[0] > 0)).reshape(-1, 32, width)
    packed = jnp.sum(jnp.where(chosen, bit, jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    packed = packed.reshape(steps // 32, count, width // count).transpose(1, 2, 0).reshape(count, -1)
    until = jnp.cumsum(jax.lax.population_count(packed).astype(jnp.int32), axis=1)
    slot = jnp.arange(buffer, dtype=jnp.int32)
    group = jax.vmap(lambda u: jnp.searchsorted(u, slot, side="right").astype(jnp.int32))(until)
    group = jnp.minimum(group, packed.shape[1] - 1)
    row = jnp.arange(count, dtype=jnp.int32)[:, None]
    starts = jnp.pad(until, ((0, 0), (1, 0)))
    before = starts.reshape(-1)[row * starts.shape[1] + group]
    position = _nth_set_bit(packed.reshape(-1)[row * packed.shape[1] + group], slot - before)
    lane, word_of_steps = group // (steps // 32), group % (steps // 32)
    source = ((32 * word_of_steps + position) * width + row * (width // count) + lane).reshape(-1)
    used = slot < until[:, -1:]

    def take(array: jax.Array, unused: float) -> jax.Array:
        return jnp.where(used, array.reshape(-1)[source].reshape(count, buffer), unused)

    time, cell, *mass = jax.lax.sort(
        (take(accesses.time, jnp.inf), take(accesses.place, 0), *(take(m, 0) for m in accesses.mass)), num_keys=1
    )
    return _Events(time, cell, tuple(mass)), until[:, -1] > buffer


def _nth_set_bit(bits: jax.Array, n: jax.Array) -> jax.Array:
    """Position of the set bit number n (from 0), by halving the word."""
    position = jnp.zeros_like(n)
    for width in (16, 8, 4, 2, 1):
        low = bits & jnp.uint32((1 << width) - 1)
        below = jax.lax.population_count(low).astype(n.dtype)
        above = n >= below
        position = position + jnp.where(above, width, 0)
        n = jnp.where(above, n - below, n)
        bits = jnp.where(above, bits >> jnp.uint32(width), low)
    return position


def _measure(problem, sizes, measures: _Measures, edge, threshold, time, cell, mass) -> _Outcome:
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
    return _Outcome(values, sup, passage, _reuse_given_path(problem, measures, edge, time, before, after), path)


def _path_at(cell: jax.Array, mass: jax.Array, edge: jax.Array) -> tuple[jax.Array, jax.Array]:
    """D just before and at every event: the edge value of its cell plus what came before it in the cell."""
    until = jnp.cumsum(mass.astype(jnp.int64))
    opens = jnp.concatenate((jnp.ones(1, bool), cell[1:] != cell[:-1]))
    # Edge values grow at least as fast as the sums over the chosen events, so a running maximum carries them on.
    offset = jax.lax.cummax(jnp.where(opens, edge[cell] - (until - mass), jnp.iinfo(jnp.int64).min))
    return offset + until - mass, offset + until


def _reuse_given_path(problem, measures: _Measures, edge, time, before, after) -> jax.Array:
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
