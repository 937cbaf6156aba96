"""Sample paths of the displacement process D_N(t) and what the theorems bound of them (Theorems C.2 and C.4).

One pass over a replication gives, exactly and for every accounting from the same draw: D_N at given times, the sup over
[0, horizon] of |D_N(t) - E D_N(t)|, first passages tau_C(j), and E[F(tau)] over all sizes (Lemma D.6). This module
prepares the pass and names its results; `displacement_pass` is the pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mfmc.buckets import padded, round_up
from mfmc.conversations import window
from mfmc.displacement_pass import Measures, Problem, Sizes, replicate
from mfmc.errors import InputError
from mfmc.laws import alias
from mfmc.replication import Replicator
from mfmc.theory.mean_field import characteristic_time, mean_displacement
from mfmc.words import require_double_precision
from mfmc.workload import Workload

#: Accesses per time cell: few, so that little is left to sort, enough that cells cost less than accesses.
_PER_CELL = 2
#: Equal cells up to the horizon at least: a power of two, and so is every number of cells.
_FEWEST_CELLS = 64
#: Share of the reusable blocks that the largest histories may hold and be left out of E[F(tau)].
_SIZE_TAIL = 1e-10


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
        replicate, (key, problem), sizes, replications,
        bytes_each=sizes.shape.lanes * sizes.shape.steps * (24 + 8 * len(accountings)) + 64 * sizes.cells,
        grow=Sizes.grown,
    )
    return {
        name: DisplacementPaths(
            name, capacity, horizon, max(length, horizon), times, tuple(turns),
            values=rows[i].values, mean=np.asarray(mean_displacement(workload, times, name), dtype=float),
            sup=rows[i].sup / capacity, passage=rows[i].passage, reuse_given_path=rows[i].reuse, path=rows[i].path,
        )
        for i, name in enumerate(accountings)
    }


def _problem(workload, capacity, horizon, length, times, turns, accountings, path_steps) -> tuple[Problem, Sizes]:
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
            Measures(
                np.asarray(mean_displacement(workload, edges, name)),
                np.float64(rate * profile.allocated), np.float64(rate * profile.reusable), padded(below),
                np.int64(below.size - 1), sizes, address,
            )
        )
    buffer = 32 * round_up(math.ceil((1.4 * near + _PER_CELL * (30 + 2 * times.size + 3 * len(turns))) / 32))
    buffer = min(buffer, shape.lanes * shape.steps)
    problem = Problem(tables, workload.gaps, tuple(measures), np.int64(capacity), np.float64(horizon), times)
    return problem, Sizes(shape, cells, sup_cells, max(buffer, 32), path_steps)


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
