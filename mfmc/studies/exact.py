"""`study=exact`: everything that can be said without simulation, for a list of capacities.

Its parts are shared with the studies that simulate: they set the same exact values and bounds beside their estimates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.errors import InputError
from mfmc.studies.context import Context
from mfmc.studies.passages import turns_of
from mfmc.studies.result import Check, Result, check
from mfmc.studies.sampling import horizon_of, times_of
from mfmc.theory.best_bound import best_hit_ratio_bound
from mfmc.theory.bounds import characteristic_time_bound, pointwise_bound, uniform_bound
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.exact_tails import characteristic_time_deviation, displacement_deviation
from mfmc.theory.fluctuations import gaussian_limit
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.theory.refined import refined_hit_ratio
from mfmc.theory.sharp_bounds import (
    characteristic_time_chebyshev,
    characteristic_time_chernoff,
    pointwise_chebyshev,
    pointwise_chernoff,
    uniform_chernoff,
)
from mfmc.workload import Workload

Row = dict[str, Any]

#: Paths of the Gaussian limit behind `gaussian_limit`, whose standard error is then at most 0.0025.
_LIMIT_PATHS = 40_000


def run(config: Settings, context: Context) -> Result:
    """Tables hit_ratio (all accountings), displacement, displacement_sup and characteristic_time (whole content)."""
    sections: dict[str, list[Row]] = {
        "hit_ratio": [],
        "displacement": [],
        "displacement_sup": [],
        "characteristic_time": [],
    }
    limit = sup_limit(config, context)
    with context.progress("capacities", len(config.capacities)) as advance:
        for capacity in config.capacities:
            workload = context.workload_at(capacity)
            horizon = horizon_of(config, context, capacity)
            ids = {"capacity": capacity}
            sections["hit_ratio"] += [
                {**ids, "accounting": accounting, **hit_ratio_theory(workload, capacity, accounting)}
                for accounting in context.accountings
            ]
            sections["displacement"] += [
                {**ids, "time": float(t), "epsilon": e, **pointwise_theory(workload, capacity, t, e, horizon)}
                for t in times_of(config, context, capacity)
                for e in config.epsilons
            ]
            sections["displacement_sup"] += [
                {**ids, "horizon": horizon, "epsilon": e, **sup_theory(workload, capacity, e, horizon, limit)}
                for e in config.epsilons
            ]
            centre = float(characteristic_time(workload, capacity))
            sections["characteristic_time"] += [
                {
                    **ids,
                    "turn": j,
                    "epsilon": e * centre,
                    "epsilon_relative": e,
                    **passage_theory(workload, capacity, e * centre, j),
                }
                for j in turns_of(config, context)
                for e in config.epsilons
            ]
            advance(1)
    return Result(
        summary=sections,
        headline=hit_ratio_words(sections["hit_ratio"]),
        tables={"table": sections["hit_ratio"]} | {k: v for k, v in sections.items() if k != "hit_ratio"},
        checks=bounds_hold("(16) and its sharp versions", sections["displacement"])
        + bounds_hold("(22) and its sharp versions", sections["characteristic_time"])
        + bounds_hold("(26) and (33)", _errors(sections["hit_ratio"])),
        sections={"Refined formula": refined_words(context, config)},
    )


def hit_ratio_theory(workload: Workload, capacity: int, accounting: str) -> Row:
    """The limit (25), (32), the refined value (THEORY B5), the exact one (B4), and the least of (26) or (33)."""
    return {
        "mean_field": float(hit_ratio(workload, capacity, accounting)),
        "refined": refined_hit_ratio(workload, capacity, accounting).value,
        "exact": hit_ratio_exact(workload, capacity, accounting),
        "bound": _if_it_applies(lambda: best_hit_ratio_bound(workload, capacity, accounting).value),
    }


def pointwise_theory(
    workload: Workload, capacity: int, time: float, epsilon: float, horizon: float, accounting: str = "whole"
) -> Row:
    """P(|D_N(t)/N - d(t)| > epsilon): exact, Chebyshev with the exact variance, Chernoff, and bound (16)."""
    return {
        "exact": float(displacement_deviation(workload, capacity, epsilon, float(time), accounting)),
        "chebyshev": float(pointwise_chebyshev(workload, capacity, epsilon, time, accounting)),
        "chernoff": float(pointwise_chernoff(workload, capacity, epsilon, time, accounting)),
        "bound": _if_it_applies(lambda: float(pointwise_bound(workload, capacity, epsilon, horizon, accounting))),
    }


def sup_limit(config: Settings, context: Context) -> np.ndarray | None:
    """Sorted samples of the sup over the horizon of the limiting Gaussian process (THEORY B10).

    One for all capacities, since the arrival rate is scaled along; None where the limit is not known.
    """
    capacity = config.workload.capacity
    horizon = horizon_of(config, context, capacity)

    def draw() -> np.ndarray:
        limit = gaussian_limit(context.workload, capacity, horizon)
        return np.sort(limit.sup_samples(context.key("limit"), _LIMIT_PATHS))

    return _if_it_applies(draw)


def sup_theory(
    workload: Workload,
    capacity: int,
    epsilon: float,
    horizon: float,
    limit: np.ndarray | None,
    accounting: str = "whole",
) -> Row:
    """P(sup |D_N/N - d| > epsilon): Chernoff's union bound, the Gaussian limit law (whole content), and bound (17)."""
    beyond = None
    if limit is not None:
        beyond = 1 - float(np.searchsorted(limit, epsilon * np.sqrt(capacity), side="right")) / limit.size
    return {
        "chernoff": float(uniform_chernoff(workload, capacity, epsilon, horizon, accounting)),
        "gaussian_limit": beyond,
        "bound": _if_it_applies(lambda: float(uniform_bound(workload, capacity, epsilon, horizon, accounting))),
    }


def passage_theory(workload: Workload, capacity: int, epsilon: float, turn: int, accounting: str = "whole") -> Row:
    """P(|tau_C(j) - T_C| > epsilon), epsilon in units of time: exact (THEORY B4), sharp bounds, and bound (22)."""
    return {
        "exact": float(characteristic_time_deviation(workload, capacity, epsilon, turn, accounting)),
        "chebyshev": float(characteristic_time_chebyshev(workload, capacity, epsilon, turn, accounting=accounting)),
        "chernoff": float(characteristic_time_chernoff(workload, capacity, epsilon, turn, accounting=accounting)),
        "bound": _if_it_applies(
            lambda: characteristic_time_bound(workload, capacity, epsilon, turn, accounting=accounting)
        ),
    }


def _if_it_applies(function: Callable[[], Any]) -> Any:
    """None where the workload or the arguments lie outside a theorem: its report names the failing assumption."""
    try:
        return function()
    except InputError:
        return None


def bounds_hold(name: str, rows: list[Row]) -> list[Check]:
    """The exact value is below every bound in every row."""
    kinds = [kind for kind in ("bound", "chebyshev", "chernoff") if any(row.get(kind) is not None for row in rows)]
    held = [row for row in rows if row.get("exact") is not None]
    wrong = [
        row
        for row in held
        for kind in kinds
        if row.get(kind) is not None and row["exact"] > row[kind] * (1 + 1e-9) + 1e-12
    ]
    return (
        [
            check(
                f"exact values below {name}",
                not wrong,
                f"{len(held)} rows, {len(wrong)} above" + (f", first {wrong[0]}" if wrong else ""),
            )
        ]
        if kinds
        else []
    )


def _errors(rows: list[Row]) -> list[Row]:
    """Rows of h(N) as rows of the error that (26) and (33) bound."""
    return [{**row, "exact": abs(row["exact"] - row["mean_field"])} for row in rows]


def hit_ratio_words(rows: list[Row]) -> list[str]:
    """A line per accounting at the smallest and the largest capacity."""
    words = []
    for accounting in dict.fromkeys(row["accounting"] for row in rows):
        chosen = sorted((row for row in rows if row["accounting"] == accounting), key=lambda row: row["capacity"])
        for row in dict.fromkeys((0, len(chosen) - 1)):
            found = chosen[row]
            words.append(
                f"h({found['capacity']:,}) = {found['exact']:.6f} exactly ({accounting}):"
                f" the limit {found['mean_field']:.6f} is off by {found['mean_field'] - found['exact']:+.1e},"
                f" the refined value by {found['refined'] - found['exact']:+.1e}"
            )
    return words


def refined_words(context: Context, config: Settings) -> str:
    """Whether the refined formula applies, per accounting."""
    capacity = max(config.capacities)
    lines = []
    for accounting in context.accountings:
        found = refined_hit_ratio(context.workload_at(capacity), capacity, accounting)
        applies = "applies" if found.applies else "**does not apply** (the exact value is shown in its place)"
        lines.append(f"- {accounting}: {applies}; c = {found.coefficient:.6g} blocks; {found.statement}.")
    return "\n".join(lines)
