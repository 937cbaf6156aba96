"""`study=replay`: LRU over a stream, access by access: its whole curve, with the theory's prediction on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mfmc.config.ranges import Count, Range
from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection
from mfmc.studies.context import Context
from mfmc.studies.estimates import curve_capacities
from mfmc.studies.known import KnownSection, trace_estimator
from mfmc.studies.replays import replay_trace
from mfmc.studies.result import Result, check
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import hit_ratio

Row = dict[str, Any]


@dataclass(kw_only=True)
class ReplaySection:
    """Where the accesses come from and how contents leave."""

    conversations: Count
    eviction: Annotated[str, Range(choices=("conversation", "block"))]
    warm_up: Annotated[float, Range(low=0, below=1)]
    arrival_rate: Annotated[float | None, Range(above=0)]
    gap_mean: Annotated[float | None, Range(above=0)]


@dataclass(kw_only=True)
class Config(Settings):
    trace: TraceSection
    replay: ReplaySection


def run(config: Config, context: Context) -> Result:
    """Rows {capacity, accounting, replayed, predicted, difference}: of a trace where `trace.path` names one, else of a
    stream drawn from the workload. `arrays` has the curve at 41 capacities.
    """
    return _of_trace(config, context) if config.trace.path is not None else _of_workload(config, context)


def _of_workload(config: Config, context: Context) -> Result:
    """One stationary stream; exact h(N) (THEORY B4) beside it. Arrivals are those of the workload as it is."""
    from mfmc.lru import hit_ratio_curve, sample_accesses

    capacities, grid = sorted(config.capacities), np.array(curve_capacities(config.capacities))
    rows, arrays = [], {"capacity": grid}
    with context.progress("replay", len(context.accountings) + 1) as advance:
        stream = sample_accesses(context.key("stream"), context.workload, int(grid[-1]), config.replay.conversations)
        advance(1)
        for accounting in context.accountings:
            curve = hit_ratio_curve(stream, accounting, eviction=config.replay.eviction, max_capacity=int(grid[-1]))
            arrays[f"replayed_{accounting}"] = curve.hit_ratio(grid)
            arrays[f"predicted_{accounting}"] = np.array(
                [float(hit_ratio(context.workload, n, accounting)) for n in grid]
            )
            rows += [
                _row(n, accounting, float(curve.hit_ratio(n)), hit_ratio_exact(context.workload, n, accounting))
                for n in capacities
            ]
            advance(1)
    how = f"{len(stream):,} accesses of a stationary stream of {context.settings.workload.name or 'the workload'}"
    return _result(rows, arrays, how, "exact")


def _of_trace(config: Config, context: Context) -> Result:
    """The trace's own accesses, token-exact and block by block; the estimator's prediction from the same trace."""
    known = KnownSection(arrival_rate=config.replay.arrival_rate, gap_mean=config.replay.gap_mean)
    estimator = trace_estimator(config.trace, known, 0, context, "replay")
    capacities, grid = sorted(config.capacities), np.array(curve_capacities(config.capacities))
    with context.progress("replay", None):
        replayed = replay_trace(estimator, context, int(grid[-1]), config.replay.warm_up)
    law = estimator.default_law

    def predicted(n: int) -> float:
        return float(estimator.estimate(int(n), "token", law).hit_ratio)

    rows = [_row(n, "token", float(replayed.curve.hit_ratio(n)), predicted(n)) for n in capacities]
    arrays = {
        "capacity": grid,
        "replayed_token": replayed.curve.hit_ratio(grid),
        "predicted_token": np.array([predicted(n) for n in grid]),
    }
    return _result(rows, arrays, replayed.how, "estimator")


def _row(capacity: int, accounting: str, replayed: float, predicted: float) -> Row:
    return {
        "capacity": capacity,
        "accounting": accounting,
        "replayed": replayed,
        "predicted": predicted,
        "difference": replayed - predicted,
    }


def _result(rows: list[Row], arrays: dict[str, np.ndarray], how: str, prediction: str) -> Result:
    curves = [arrays[name] for name in arrays if name.startswith("replayed_")]
    worst = max(rows, key=lambda row: abs(row["difference"]))
    return Result(
        summary={"replayed": how, "prediction": prediction, "replay": rows},
        headline=[
            f"replayed: {how}",
            f"largest difference from the {prediction}: {worst['difference']:+.4f} at {worst['capacity']:,} blocks"
            f" ({worst['accounting']}: {worst['replayed']:.4f} replayed, {worst['predicted']:.4f} predicted)",
        ],
        tables={"table": rows},
        arrays=arrays,
        checks=[
            check(
                "replayed hit ratios grow with the capacity",
                all(np.all(np.diff(c) >= 0) for c in curves),
                f"{len(curves)} curves at {curves[0].size} capacities",
            )
        ],
    )
