"""The typed shape of a configuration: what every key of `conf/` may hold.

Defaults live in `conf/` (one place, commented); types, ranges and choices live here. `convert.py` turns a composed
configuration into these dataclasses, or refuses it in one line.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Any

from mfmc.config.workload import WorkloadSection


def setting(
    default: Any = MISSING,
    *,
    above: float | None = None,
    below: float | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
    nonempty: bool = False,
) -> Any:
    """A dataclass field with a range: `above < value < below`, `low <= value <= high`, or one of `choices`.

    On a list the range holds for every element; `nonempty` refuses an empty list. Without a default the key must
    stand in `conf/`.
    """
    rules = {"above": above, "below": below, "low": low, "high": high, "choices": choices, "nonempty": nonempty}
    metadata = {name: rule for name, rule in rules.items() if rule not in (None, False)}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(kw_only=True)
class RuntimeSection:
    """How a run is computed. Only `seed`, `replications` and `precision` may change its numbers."""

    seed: int = setting(low=0, high=2**63 - 1)
    replications: int = setting(low=1)
    precision: str = setting(choices=("float64", "float32"))
    platform: str = setting(choices=("auto", "cpu", "gpu"))
    devices: int | None = setting(low=1)
    threads: int | None = setting(low=1)
    memory_gib: float = setting(above=0)
    chunk: int | None = setting(low=1)
    resume: bool = setting()


@dataclass(kw_only=True)
class Settings:
    """The keys that every study shares. A study that needs more subclasses this as its `Config`."""

    study: str = setting()
    workload: WorkloadSection
    runtime: RuntimeSection
    capacities: list[int] = setting(low=1, nonempty=True)
    accountings: list[str] | None = setting(choices=("whole", "practical", "token"), nonempty=True)
    horizon: float = setting(above=0)
    times: list[float] = setting(above=0, nonempty=True)
    epsilons: list[float] = setting(above=0, nonempty=True)
    turns_of_interest: list[int] = setting(low=1, nonempty=True)
    plots: bool = setting()
    output: str = setting()
