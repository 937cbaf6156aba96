"""`study=mean_field`: characteristic time (21) and limit hit ratio (25) per accounting, no simulation."""

from __future__ import annotations

from itertools import pairwise

from mfmc.config.schema import Settings
from mfmc.studies.context import Context
from mfmc.studies.result import Result, check


def run(config: Settings, context: Context) -> Result:
    """Rows {capacity, accounting, characteristic_time, hit_ratio} at the workload's arrival rate as it is.

    The workload's own capacity joins `capacities`; the reuse ceiling, which no memory passes, stands beside.
    """
    from mfmc.theory.mean_field import characteristic_time, hit_ratio

    workload, rows, summary = context.workload, [], {}
    for accounting in context.accountings:
        profile = workload.profile(accounting)
        summary[accounting] = {
            "lifetime_blocks": float(profile.allocated),
            "accessed_blocks": float(profile.content),
            "reusable_blocks": float(profile.reusable),
            "reuse_ceiling": float(profile.reuse_ceiling),
        }
        rows += [
            {
                "capacity": capacity,
                "accounting": accounting,
                "characteristic_time": float(characteristic_time(workload, capacity, accounting)),
                "hit_ratio": float(hit_ratio(workload, capacity, accounting)),
                "reuse_ceiling": float(profile.reuse_ceiling),
            }
            for capacity in sorted({*config.capacities, config.workload.capacity})
        ]
    checks = [
        check(
            f"{accounting}: the hit ratio grows with capacity and stays below the reuse ceiling",
            _increasing(ratios) and ratios[-1] <= summary[accounting]["reuse_ceiling"],
            f"{ratios[0]:.4f} to {ratios[-1]:.4f}, ceiling {summary[accounting]['reuse_ceiling']:.4f}",
        )
        for accounting in summary
        if (ratios := sorted_ratios(rows, accounting))
    ]
    headline = [
        f"{row['accounting']} accounting, {row['capacity']:,} blocks: hit ratio {row['hit_ratio']:.4f},"
        f" characteristic time {row['characteristic_time']:.4g}"
        for row in rows
        if row["capacity"] == config.workload.capacity
    ]
    return Result(
        summary={"arrival_rate": float(context.workload.arrival_rate), "workload": summary, "mean_field": rows},
        headline=headline,
        tables={"table": rows},
        checks=checks,
    )


def sorted_ratios(rows: list[dict], accounting: str) -> list[float]:
    """Hit ratios of one accounting in order of capacity."""
    chosen = [row for row in rows if row["accounting"] == accounting]
    return [row["hit_ratio"] for row in sorted(chosen, key=lambda row: row["capacity"])]


def _increasing(values: list[float]) -> bool:
    return all(a <= b for a, b in pairwise(values))
