"""Rows and curves of `study=estimate`: what is estimated at each capacity, and what a replay makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mfmc.estimator import TraceEstimator
from mfmc.studies.context import Context
from mfmc.studies.replays import Replayed
from mfmc.studies.result import Check, check
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.workload import Workload

Row = dict[str, Any]
CURVE_POINTS = 41


def mean_field_row(workload: Workload, capacity: float, accounting: str) -> Row:
    return {
        "capacity": capacity,
        "accounting": accounting,
        "characteristic_time": float(characteristic_time(workload, capacity, accounting)),
        "hit_ratio": float(hit_ratio(workload, capacity, accounting)),
    }


def row_of(estimator: TraceEstimator, capacity: int, accounting: str, law: str) -> Row:
    found = estimator.estimate(capacity, accounting, law)
    return {
        "capacity": capacity,
        "capacity_tokens": capacity * estimator.sums.block_tokens,
        "accounting": accounting,
        "law": law,
        "characteristic_time": found.characteristic_time,
        "hit_ratio": found.hit_ratio,
        "low": found.low,
        "high": found.high,
    }


def with_errors(row: Row, replayed: Replayed | None) -> Row:
    """AE and RE of Section 4: |estimate - replay|, and its share of the replay."""
    if replayed is None:
        return row
    actual = float(replayed.curve.hit_ratio(row["capacity"]))
    error = abs(row["hit_ratio"] - actual)
    return row | {
        "replayed": actual,
        "absolute_error": error,
        "relative_error": error / actual if actual > 0 else None,
    }


def add_exact(rows: list[Row], estimator: TraceEstimator, context: Context) -> None:
    """The finite-N value beside the mean field, or a note that says why not."""
    refused = estimator.exact_refused
    if refused:
        context.notes.append(f"the finite-N correction is left out: {refused}")
        return
    with context.progress("exact law", len(rows)) as advance:
        for row in rows:
            correction = estimator.finite_size_correction(row["capacity"], row["accounting"], row["law"])
            row["exact"] = max(row["hit_ratio"] + correction, 0.0)
            advance()


def moments_of(workload: Workload) -> dict[str, Row]:
    """Means per conversation in blocks, per accounting."""
    found = {}
    for name in workload.accountings:
        moments = workload.profile(name)
        found[name] = {
            "allocated_blocks": moments.allocated,
            "reusable_blocks": moments.reusable,
            "accessed_blocks": moments.content,
            "reuse_ceiling": moments.reuse_ceiling,
        }
    return found


def growth_checks(rows: list[Row]) -> list[Check]:
    """Estimates grow with the capacity."""
    checks = []
    for name in dict.fromkeys(row["accounting"] for row in rows):
        values = [row["hit_ratio"] for row in rows if row["accounting"] == name]
        if len(values) > 1:
            grows = bool(np.all(np.diff(values) >= -1e-12))
            checks.append(
                check(
                    f"the estimate grows with the capacity, {name}",
                    grows,
                    f"{values[0]:.4f} to {values[-1]:.4f}",
                )
            )
    return checks


def curve_capacities(capacities: Sequence[float]) -> np.ndarray:
    """Capacities for a curve, evenly in logarithms, a little past those asked for on both sides."""
    low, high = min(capacities) / 4, max(capacities) * 4
    return np.unique(np.round(np.geomspace(max(low, 1), high, CURVE_POINTS)).astype(np.int64))


def curve_arrays(
    estimator: TraceEstimator,
    curve: np.ndarray,
    accountings: tuple[str, ...],
    chosen: str,
    replayed: Replayed | None,
) -> dict[str, np.ndarray]:
    workload = estimator.workload()
    arrays = {"curve_capacity": curve}
    for name in accountings:
        arrays[f"curve_{name}"] = np.array([float(hit_ratio(workload, n, name)) for n in curve])
    if estimator.replicates:
        bounds = [estimator.estimate(n, chosen) for n in curve]
        arrays["curve_low"] = np.array([e.low for e in bounds])
        arrays["curve_high"] = np.array([e.high for e in bounds])
    if replayed is not None:
        arrays["curve_replayed"] = np.asarray(replayed.curve.hit_ratio(curve))
    return arrays


def law_arrays(estimator: TraceEstimator) -> dict[str, np.ndarray]:
    """F of every law on one grid of times."""
    longest = max(float(law.quantile(0.995)) for law in estimator.laws.values())
    shortest = min(float(law.quantile(0.005)) for law in estimator.laws.values())
    times = np.geomspace(max(shortest, longest * 1e-6), longest, 201)
    return {"law_times": times} | {f"law_{name}": np.asarray(law.cdf(times)) for name, law in estimator.laws.items()}
