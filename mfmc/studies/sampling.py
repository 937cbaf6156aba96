"""Displacement paths for the studies: one pass per capacity, with the run's settings for memory, cores and devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.displacement import DisplacementPaths, simulate_displacement
from mfmc.errors import InputError
from mfmc.replication import Replicator, out_of_memory
from mfmc.studies.context import Context
from mfmc.theory.mean_field import characteristic_time, mean_displacement

Paths = dict[int, dict[str, DisplacementPaths]]  # by capacity and accounting

#: Replications that are kept as whole paths for the figure, and the number of their steps.
_DRAWN, PATH_STEPS = 40, 64


def horizon_of(config: Settings, context: Context, capacity: int) -> float:
    """The horizon in the workload's unit of time: `config.horizon` characteristic times of whole content."""
    return config.horizon * float(characteristic_time(context.workload_at(capacity), capacity))


def times_of(config: Settings, context: Context, capacity: int) -> np.ndarray:
    """The times at which D_N is compared: `config.times` in characteristic times of whole content."""
    return np.array(config.times) * horizon_of(config, context, capacity) / config.horizon


def sample_paths(
    config: Settings, context: Context, accountings: tuple[str, ...], turns: tuple[int, ...] = (), path_steps: int = 0
) -> Paths:
    """Replications for every capacity; the workload's arrival rate is scaled along (Remark B.6).

    `path_steps` asks for whole paths, of the first replications only.
    """
    runtime, paths = config.runtime, {}
    total = runtime.replications * len(config.capacities)
    with context.progress("displacement paths", total) as advance:
        for capacity in config.capacities:
            horizon, times = horizon_of(config, context, capacity), times_of(config, context, capacity)
            try:
                found = simulate_displacement(
                    context.key("displacement", capacity), context.workload_at(capacity), capacity, horizon,
                    runtime.replications, times=times, turns=turns, accountings=accountings,
                    length=None if turns else max(horizon, times.max()), path_steps=path_steps,
                    replicator=replicator(config, context, advance),
                )
            except Exception as error:
                if not out_of_memory(error):
                    raise
                raise InputError(
                    f"capacities={capacity}: not even one path of so many conversations fits into memory; leave it out,"
                    " or take study=exact, which simulates nothing"
                ) from error
            # Copies, so that the paths that are not drawn leave the memory.
            paths[capacity] = {name: replace(each, path=each.path[:_DRAWN].copy()) for name, each in found.items()}
    return paths


def replicator(config: Settings, context: Context, advance: Any = None) -> Replicator:
    """How the settings want replications to be run."""
    runtime = config.runtime
    devices = tuple(context.devices)
    return Replicator(
        runtime.memory_gib, chunk=runtime.chunk, devices=devices if len(devices) > 1 else (), progress=advance,
        chunks=context.chunks, notice=context.notice,
    )


def fans(config: Settings, context: Context, paths: Paths, accounting: str) -> dict[str, np.ndarray]:
    """A few whole paths per capacity, D_N(t)/N on a grid of times in T_C, for the figure."""
    out: dict[str, np.ndarray] = {"paths_time": np.linspace(0, config.horizon, PATH_STEPS + 1)}
    for capacity, by_accounting in paths.items():
        grid = np.linspace(0, horizon_of(config, context, capacity), PATH_STEPS + 1)
        out[f"paths_{capacity}"] = by_accounting[accounting].path / capacity
        out["paths_mean"] = mean_displacement(context.workload_at(capacity), grid, accounting) / capacity
    return out
