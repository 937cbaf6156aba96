"""`study=validate`, the main job: the paper's theorems against exact laws and Monte Carlo on one workload."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.assumptions import assumptions
from mfmc.config.schema import Settings
from mfmc.statistics import deviations, mean
from mfmc.studies.characteristic_time import (
    characteristic_time_headlines,
    characteristic_time_rows,
    passage_arrays,
)
from mfmc.studies.context import Context
from mfmc.studies.displacement import (
    arrays_of,
    bound_checks,
    displacement_checks,
    pointwise_rows,
    rate_headlines,
    rate_rows,
    sup_rows,
)
from mfmc.studies.exact import bounds_hold, hit_ratio_theory, refined_words
from mfmc.studies.passages import turns_of
from mfmc.studies.result import Check, Result, check
from mfmc.studies.sampling import Paths, fans, sample_paths
from mfmc.theory.mean_field import characteristic_time, hit_ratio

Row = dict[str, Any]


def run(config: Settings, context: Context) -> Result:
    """Displacement (Theorem C.2), characteristic time (C.4) and hit ratio (C.5, C.6) over all capacities.

    The summary's `displacement`, `displacement_sup` and `characteristic_time` are those of whole content, its
    `hit_ratio` and `mean_field` of every accounting that the workload has.
    """
    whole = "whole"
    paths = sample_paths(config, context, context.accountings, turns_of(config, context))
    sections = {
        "displacement": pointwise_rows(config, context, paths, whole),
        "displacement_sup": sup_rows(config, context, paths, whole),
        "characteristic_time": characteristic_time_rows(config, context, paths, whole),
        "hit_ratio": hit_ratio_rows(context, paths),
        "rates": rate_rows(paths),
    }
    held = assumptions(context.workload)
    checks = (
        displacement_checks(context, paths)
        + bound_checks("(16)", sections["displacement"])
        + bound_checks("(17)", sections["displacement_sup"])
        + bound_checks("(22)", sections["characteristic_time"])
        + hit_ratio_checks(sections["hit_ratio"])
    )
    tables = {"table": [_flat(row) for row in sections["hit_ratio"]]}
    tables |= {name: rows for name, rows in sections.items() if name != "hit_ratio" and rows}
    return Result(
        summary={
            "workload": workload_summary(context) | {"assumptions": [a._asdict() for a in held]},
            "mean_field": mean_field_summary(context, config),
            **sections,
        },
        headline=[
            *hit_ratio_headlines(sections["hit_ratio"]),
            *characteristic_time_headlines(context, sections["characteristic_time"]),
            *rate_headlines(sections["rates"]),
        ],
        tables=tables,
        arrays=arrays_of(config, context, paths, whole) | passage_arrays(context, paths, whole) | fans(config, context),
        checks=checks,
        sections={"Assumptions": _assumption_text(held), "Refined formula": refined_words(context, config)},
    )


def workload_summary(context: Context) -> Row:
    """Moments of a conversation, in blocks and turns."""
    profile = context.workload.profile()
    return {
        "mean_turns": profile.mean_turns,
        "variance_turns": profile.variance_turns,
        "mean_lifetime_blocks": profile.allocated,
        "accessed_blocks": profile.content,
        "reusable_blocks": profile.reusable,
        "hashable_blocks": context.workload.profile("practical").reusable,
        "reuse_ceiling": profile.reuse_ceiling,
        "mean_gap": float(context.workload.gaps.mean),
    }


def mean_field_summary(context: Context, config: Settings) -> dict[str, Row]:
    """T_C and h_inf at the workload's own capacity, in every accounting that it has."""
    capacity, workload = config.workload.capacity, context.workload
    return {
        accounting: {
            "characteristic_time": float(characteristic_time(workload, capacity, accounting)),
            "hit_ratio": float(hit_ratio(workload, capacity, accounting)),
        }
        for accounting in workload.accountings
    }


def hit_ratio_rows(context: Context, paths: Paths) -> list[Row]:
    """h(N): limit, refined, exact, the least of (26) or (33), and E[R F(tau)] over sampled paths (Lemma D.6)."""
    rows = []
    for capacity, by_accounting in paths.items():
        workload = context.workload_at(capacity)
        for accounting, sample in by_accounting.items():
            content = workload.profile(accounting).content
            estimate = mean(sample.reuse_given_path / content)
            rows.append(
                {
                    "capacity": capacity,
                    "accounting": accounting,
                    **hit_ratio_theory(workload, capacity, accounting),
                    "conditional": {"estimate": float(estimate.value), "standard_error": float(estimate.standard_error)},
                }
            )
    return rows


def hit_ratio_checks(rows: list[Row]) -> list[Check]:
    """The estimate within 5 standard errors of the exact value, and the exact value tending to the limit."""
    checks = []
    for accounting in dict.fromkeys(row["accounting"] for row in rows):
        chosen = sorted((r for r in rows if r["accounting"] == accounting), key=lambda r: r["capacity"])
        worst = max(
            float(deviations(r["conditional"]["estimate"], r["conditional"]["standard_error"], r["exact"]))
            for r in chosen
        )
        checks.append(
            check(
                f"h(N) by Monte Carlo against the exact law, {accounting}", worst < 5,
                f"within {worst:.2f} standard errors at {len(chosen)} capacities",
            )
        )
        checks += bounds_hold(
            f"{'(26)' if accounting == 'whole' else '(33)'}, |h(N) - limit|, {accounting}",
            [{**r, "exact": abs(r["exact"] - r["mean_field"])} for r in chosen],
        )
        gaps = np.array([abs(r["exact"] - r["mean_field"]) for r in chosen])
        if gaps.size > 1:
            checks.append(
                check(
                    f"Theorem {'C.5' if accounting == 'whole' else 'C.6'}: h(N) tends to its limit, {accounting}",
                    bool(gaps[-1] <= gaps[0]),
                    f"|h(N) - limit| from {gaps[0]:.2g} at {chosen[0]['capacity']:,} to {gaps[-1]:.2g} at"
                    f" {chosen[-1]['capacity']:,} blocks",
                )
            )
    return checks


def hit_ratio_headlines(rows: list[Row]) -> list[str]:
    largest = max(row["capacity"] for row in rows)
    return [
        f"hit ratio at {row['capacity']:,} blocks, {row['accounting']}: {row['exact']:.5f} exactly,"
        f" {row['conditional']['estimate']:.5f} +- {row['conditional']['standard_error']:.5f} by Monte Carlo,"
        f" limit {row['mean_field']:.5f}"
        for row in rows
        if row["capacity"] == largest
    ]


def _flat(row: Row) -> Row:
    """A row for the CSV: one number a column."""
    flat: Row = {}
    for key, value in row.items():
        flat |= {f"{key}_{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _assumption_text(held: list) -> str:
    words = {True: "holds", False: "**fails**", None: "not decidable"}
    return "\n".join(f"- {a.name}: {words[a.holds]}. {a.detail}." for a in held)
