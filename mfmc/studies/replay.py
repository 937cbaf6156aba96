"""`study=replay`: LRU over a stream, access by access: its whole curve, with the theory's prediction on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mfmc.config.ranges import Range
from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection
from mfmc.errors import InputError
from mfmc.studies.context import Context
from mfmc.studies.estimates import curve_capacities
from mfmc.studies.known import KnownSection, trace_estimator
from mfmc.studies.replays import replay_trace
from mfmc.studies.result import Result, check
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import hit_ratio

Row = dict[str, Any]

#: Spans of a drawn stream's time behind a standard error, and conversations that are enough for them.
_SPANS, _LEAST = 16, 100


@dataclass(kw_only=True)
class ReplaySection:
    """Where the accesses come from and how contents leave."""

    conversations: Annotated[int, Range(low=_LEAST)]
    eviction: Annotated[str, Range(choices=("conversation", "block"))]
    warm_up: Annotated[float, Range(low=0, below=1)]
    arrival_rate: Annotated[float | None, Range(above=0)]
    gap_mean: Annotated[float | None, Range(above=0)]


@dataclass(kw_only=True)
class Config(Settings):
    trace: TraceSection
    replay: ReplaySection


def run(config: Config, context: Context) -> Result:
    """Rows {capacity, accounting, replayed, standard_error, predicted, difference}: of a trace where `trace.path` names
    one (the file itself, so no error), else of a stream drawn from the workload. `arrays` has the curve at 41
    capacities.
    """
    return _of_trace(config, context) if config.trace.path is not None else _of_workload(config, context)


def _of_workload(config: Config, context: Context) -> Result:
    """One stationary stream, arrivals as they are; exact h(N) (THEORY B4) in the rows, the limit beside the curve."""
    from mfmc.lru import batch_means, hit_ratio_curve, replay_lru, sample_accesses

    for key, own in (("arrival_rate", "workload.arrival_rate"), ("gap_mean", "workload.gaps")):
        if getattr(config.replay, key) is not None:
            raise InputError(f"replay.{key} is for traces, and trace.path is not set: a drawn stream follows {own}")
    capacities, grid = sorted(set(config.capacities)), curve_capacities(config.capacities)
    eviction = config.replay.eviction
    rows, arrays = [], {"capacity": grid}
    with context.progress("replay", len(context.accountings) + 1) as advance:
        stream = sample_accesses(context.key("stream"), context.workload, int(grid[-1]), config.replay.conversations)
        advance(1)
        for accounting in context.accountings:
            curve = hit_ratio_curve(stream, accounting, eviction=eviction, max_capacity=int(grid[-1]))
            arrays[f"replayed_{accounting}"] = curve.hit_ratio(grid)
            arrays[f"predicted_{accounting}"] = np.array(
                [float(hit_ratio(context.workload, n, accounting)) for n in grid]
            )
            for n in capacities:
                replayed, error = batch_means(replay_lru(stream, n, accounting, eviction=eviction), _SPANS)
                exact = hit_ratio_exact(context.workload, n, accounting, eviction)
                rows.append(_row(n, accounting, exact, replayed=float(replayed), standard_error=float(error)))
            advance(1)
    how = f"{len(stream):,} accesses of a stationary stream of {context.settings.workload.name or 'the workload'}"
    return _result(rows, arrays, how, "exact")


def _of_trace(config: Config, context: Context) -> Result:
    """The trace's own accesses, token-exact and block by block; the estimator's prediction from the same trace."""
    known = KnownSection(arrival_rate=config.replay.arrival_rate, gap_mean=config.replay.gap_mean)
    estimator = trace_estimator(config.trace, known, 0, context, "replay")
    capacities, grid = sorted(set(config.capacities)), curve_capacities(config.capacities)
    with context.progress("replay", None):
        replayed = replay_trace(estimator, context, int(grid[-1]), config.replay.warm_up)
    law = estimator.default_law

    def predicted(n: int) -> float:
        return float(estimator.estimate(int(n), "token", law).hit_ratio)

    rows = [_row(n, "token", predicted(n), replayed=float(replayed.curve.hit_ratio(n))) for n in capacities]
    arrays = {
        "capacity": grid,
        "replayed_token": replayed.curve.hit_ratio(grid),
        "predicted_token": np.array([predicted(n) for n in grid]),
    }
    return _result(rows, arrays, replayed.how, "estimator")


def _row(capacity: int, accounting: str, predicted: float, **replayed: float) -> Row:
    row = {"capacity": capacity, "accounting": accounting, **replayed, "predicted": predicted}
    return row | {"difference": replayed["replayed"] - predicted}


def _result(rows: list[Row], arrays: dict[str, np.ndarray], how: str, prediction: str) -> Result:
    curves = [arrays[name] for name in arrays if name.startswith("replayed_")]
    worst = max(rows, key=lambda row: abs(row["difference"]))
    return Result(
        summary={"replayed": how, "prediction": prediction, "replay": rows},
        headline=[
            f"replayed: {how}",
            f"largest difference from the {'exact law' if prediction == 'exact' else prediction}:"
            f" {worst['difference']:+.2g} at {worst['capacity']:,} blocks"
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
