"""`study=validate`, the main job: the paper's theorems against exact laws and Monte Carlo on one workload."""

from __future__ import annotations

from typing import Any

from mfmc.assumptions import assumptions
from mfmc.config.schema import Settings
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
from mfmc.studies.exact import refined_words
from mfmc.studies.hit_ratio import flat, hit_ratio_checks, hit_ratio_headlines, hit_ratio_rows
from mfmc.studies.passages import turns_of
from mfmc.studies.result import Result
from mfmc.studies.sampling import PATH_STEPS, fans, sample_paths
from mfmc.theory.mean_field import characteristic_time, hit_ratio

Row = dict[str, Any]


def run(config: Settings, context: Context) -> Result:
    """Displacement (Theorem C.2), characteristic time (C.4) and hit ratio (C.5, C.6) over all capacities.

    The summary's `displacement`, `displacement_sup` and `characteristic_time` are those of whole content, its
    `hit_ratio` and `mean_field` of every accounting that the workload has.
    """
    whole = "whole"
    paths = sample_paths(config, context, context.accountings, turns_of(config, context), PATH_STEPS)
    sections = {
        "displacement": pointwise_rows(config, context, paths, whole),
        "displacement_sup": sup_rows(config, context, paths, whole),
        "characteristic_time": characteristic_time_rows(config, context, paths, whole),
        "hit_ratio": hit_ratio_rows(config, context, paths),
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
    tables = {"table": [flat(row) for row in sections["hit_ratio"]]}
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
        arrays=(
            arrays_of(config, context, paths, whole)
            | passage_arrays(context, paths, whole)
            | fans(config, context, paths, whole)
        ),
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


def _assumption_text(held: list) -> str:
    words = {True: "holds", False: "**fails**", None: "not decidable"}
    return "\n".join(f"- {a.name}: {words[a.holds]}. {a.detail}." for a in held)
