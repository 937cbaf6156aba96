"""`study=characteristic_time`: Theorem C.4, the law of tau_C(j) and how it narrows on T_C."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.errors import InputError
from mfmc.statistics import clopper_pearson
from mfmc.studies.context import Context
from mfmc.studies.displacement import bound_checks
from mfmc.studies.result import Result
from mfmc.studies.sampling import Paths, sample_paths
from mfmc.theory.bounds import characteristic_time_bound
from mfmc.theory.compound_poisson import characteristic_time_cdf
from mfmc.theory.mean_field import characteristic_time

Row = dict[str, Any]


def run(config: Settings, context: Context) -> Result:
    """Rows per capacity, accounting, turn and epsilon: P(|tau_C(j) - T_C| > epsilon T_C) with intervals, the exact
    values (THEORY B4) and the bound (22); mean and standard deviation of tau_C(j).
    """
    turns = turns_of(config, context)
    paths = sample_paths(config, context, context.accountings, turns)
    rows = [
        {"accounting": accounting, **row}
        for accounting in context.accountings
        for row in characteristic_time_rows(config, context, paths, accounting)
    ]
    return Result(
        summary={"characteristic_time": rows},
        headline=characteristic_time_headlines(context, rows),
        tables={"table": rows},
        arrays=passage_arrays(context, paths, context.accountings[0]),
        checks=bound_checks("(22)", rows),
    )


def turns_of(config: Settings, context: Context) -> tuple[int, ...]:
    """The turns asked for, as far as conversations reach them; the others are noted in the report."""
    longest = context.workload.profile().turn_pmf.size - 1
    turns = tuple(turn for turn in config.turns_of_interest if turn <= longest)
    if not turns:
        raise InputError(f"turns_of_interest={config.turns_of_interest}: no conversation has more than {longest} turns")
    if len(turns) < len(config.turns_of_interest):
        left = [turn for turn in config.turns_of_interest if turn > longest]
        context.notes.append(f"turns {left} are left out: no conversation has more than {longest}")
    return turns


def characteristic_time_rows(config: Settings, context: Context, paths: Paths, accounting: str) -> list[Row]:
    """`epsilon` is in the workload's unit of time; `epsilon_relative` is the share of T_C that was asked for."""
    rows = []
    for capacity, by_accounting in paths.items():
        sample, workload = by_accounting[accounting], context.workload_at(capacity)
        limit = float(characteristic_time(workload, capacity, accounting))
        for i, turn in enumerate(sample.turns):
            passage = sample.passage[:, i]
            for share in config.epsilons:
                epsilon = share * limit
                interval = clopper_pearson(np.sum(np.abs(passage - limit) > epsilon), passage.size)
                edges = np.array([np.nextafter(limit - epsilon, -np.inf), limit + epsilon])
                cdf = characteristic_time_cdf(workload, edges, capacity, turn, accounting)
                rows.append(
                    {
                        "capacity": capacity, "turn": turn, "epsilon": epsilon, "epsilon_relative": share,
                        "estimate": float(interval.estimate), "low": float(interval.low),
                        "high": float(interval.high), "replications": passage.size,
                        "exact": float(cdf[0] + max(1 - cdf[1], 0)),
                        "bound": _bound(workload, capacity, epsilon, turn, accounting) if share < 1 else None,
                        "mean": float(passage.mean()), "standard_deviation": float(passage.std(ddof=1)),
                    }
                )
    return rows


def _bound(workload, capacity: int, epsilon: float, turn: int, accounting: str) -> float | None:
    """(22), or None where Assumption B.3 fails."""
    if workload.law.mgf_abscissa()[0] <= 0:
        return None
    return characteristic_time_bound(workload, capacity, epsilon, turn, accounting=accounting)


def characteristic_time_headlines(context: Context, rows: list[Row]) -> list[str]:
    first = [row for row in rows if row["turn"] == rows[0]["turn"] and row["capacity"] in
             (rows[0]["capacity"], rows[-1]["capacity"]) and row["epsilon_relative"] == rows[0]["epsilon_relative"]]
    limit = rows[0]["epsilon"] / rows[0]["epsilon_relative"]
    return [
        f"tau_C({row['turn']}) at {row['capacity']:,} blocks: mean {row['mean']:.4g}, standard deviation"
        f" {row['standard_deviation']:.3g}; T_C = {limit:.4g}"
        for row in first[:2]
    ]


def passage_arrays(context: Context, paths: Paths, accounting: str) -> dict[str, np.ndarray]:
    """Sampled tau_C(j) / T_C by capacity: [replications, turns]."""
    out = {}
    for capacity, by_accounting in paths.items():
        limit = float(characteristic_time(context.workload_at(capacity), capacity, accounting))
        out[f"passage_{capacity}"] = by_accounting[accounting].passage / limit
    return out
