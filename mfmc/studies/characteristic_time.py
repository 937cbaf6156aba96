"""`study=characteristic_time`: Theorem C.4, the law of tau_C(j) and how it narrows on T_C."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.statistics import clopper_pearson
from mfmc.studies.context import Context
from mfmc.studies.displacement import bound_checks
from mfmc.studies.exact import passage_theory
from mfmc.studies.passages import turns_of
from mfmc.studies.result import Result
from mfmc.studies.sampling import Paths, sample_paths
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
                rows.append(
                    {
                        "capacity": capacity, "turn": turn, "epsilon": epsilon, "epsilon_relative": share,
                        "estimate": float(interval.estimate), "low": float(interval.low),
                        "high": float(interval.high), "replications": passage.size,
                        **passage_theory(workload, capacity, epsilon, turn, accounting),
                        "mean": float(passage.mean()), "standard_deviation": float(passage.std(ddof=1)),
                    }
                )
    return rows


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
    """Sampled tau_C(j) / T_C by capacity, [replications, turns]; the exact cdf of the first turn at `passage_time`."""
    time = np.linspace(0, 2.5, 126)
    out = {"passage_time": time}
    for capacity, by_accounting in paths.items():
        workload, sample = context.workload_at(capacity), by_accounting[accounting]
        limit = float(characteristic_time(workload, capacity, accounting))
        out[f"passage_{capacity}"] = sample.passage / limit
        out[f"passage_exact_{capacity}"] = characteristic_time_cdf(
            workload, time * limit, capacity, sample.turns[0], accounting
        )
    return out
