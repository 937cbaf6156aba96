"""Displacement paths for the studies: one pass per capacity, with the run's settings for memory, cores and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.displacement import DisplacementPaths, simulate_displacement
from mfmc.replication import Replicator
from mfmc.studies.context import Context
from mfmc.theory.mean_field import characteristic_time

Paths = dict[int, dict[str, DisplacementPaths]]  # by capacity and accounting

#: Replications that are kept as whole paths for the figure, and the number of their points.
_DRAWN, _POINTS = 40, 160


def horizon_of(config: Settings, context: Context, capacity: int) -> float:
    """The horizon in the workload's unit of time: `config.horizon` characteristic times of whole content."""
    return config.horizon * float(characteristic_time(context.workload_at(capacity), capacity))


def times_of(config: Settings, context: Context, capacity: int) -> np.ndarray:
    """The times at which D_N is compared: `config.times` in characteristic times of whole content."""
    return np.array(config.times) * horizon_of(config, context, capacity) / config.horizon


def sample_paths(
    config: Settings, context: Context, accountings: tuple[str, ...], turns: tuple[int, ...] = ()
) -> Paths:
    """Replications for every capacity; the workload's arrival rate is scaled along (Remark B.6)."""
    runtime, paths = config.runtime, {}
    total = runtime.replications * len(config.capacities)
    with context.progress("displacement paths", total) as advance:
        for capacity in config.capacities:
            horizon, times = horizon_of(config, context, capacity), times_of(config, context, capacity)
            paths[capacity] = simulate_displacement(
                context.key("displacement", capacity), context.workload_at(capacity), capacity, horizon,
                runtime.replications, times=times, turns=turns, accountings=accountings,
                length=None if turns else max(horizon, times.max()), replicator=replicator(config, context, advance),
            )
    return paths


def replicator(config: Settings, context: Context, advance: Any = None) -> Replicator:
    """How the settings want replications to be run."""
    runtime = config.runtime
    devices = tuple(context.devices)
    return Replicator(
        runtime.memory_gib, runtime.threads, runtime.chunk, devices if len(devices) > 1 else (), advance,
        context.chunks, context.notice,
    )


def fans(config: Settings, context: Context) -> dict[str, np.ndarray]:
    """A few whole paths per capacity, D_N(t)/N on a grid of times in T_C, for the figure."""
    out: dict[str, np.ndarray] = {}
    for capacity in config.capacities:
        horizon = horizon_of(config, context, capacity)
        grid = np.linspace(0, horizon, _POINTS)
        drawn = simulate_displacement(
            context.key("displacement", capacity), context.workload_at(capacity), capacity, horizon, _DRAWN,
            times=grid, replicator=replicator(config, context),
        )["whole"]
        out[f"paths_{capacity}"] = drawn.values / capacity
        out["paths_mean"] = drawn.mean / capacity
        out["paths_time"] = grid / horizon * config.horizon
    return out
