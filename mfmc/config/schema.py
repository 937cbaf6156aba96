"""The typed shape of a configuration: what every key of `conf/` may hold.

Defaults live in `conf/` (one place, commented); types, ranges and choices live here. `convert.py` turns a
composed configuration into these dataclasses, or refuses it in one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mfmc.config.ranges import Count, Positive, Range
from mfmc.config.workload import WorkloadSection


@dataclass(kw_only=True)
class RuntimeSection:
    """How a run is computed. Only `seed`, `replications` and `precision` may change its numbers."""

    seed: Annotated[int, Range(low=0, high=2**63 - 1)]
    replications: Count
    precision: Annotated[str, Range(choices=("float64", "float32"))]
    platform: Annotated[str, Range(choices=("auto", "cpu", "gpu"))]
    devices: Annotated[int | None, Range(low=1)]
    threads: Annotated[int | None, Range(low=1)]
    memory_gib: Positive
    chunk: Annotated[int | None, Range(low=1)]
    resume: bool


@dataclass(kw_only=True)
class Settings:
    """The keys that every study shares. A study that needs more subclasses this as its `Config`."""

    study: str
    workload: WorkloadSection
    runtime: RuntimeSection
    capacities: Annotated[list[int], Range(low=1, nonempty=True)]
    accountings: Annotated[list[str] | None, Range(choices=("whole", "practical", "token"), nonempty=True)]
    horizon: Positive
    times: Annotated[list[float], Range(above=0, nonempty=True)]
    epsilons: Annotated[list[float], Range(above=0, nonempty=True)]
    turns_of_interest: Annotated[list[int], Range(low=1, nonempty=True)]
    plots: bool
    output: str
