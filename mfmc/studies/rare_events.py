"""`study=rare_events`: deviation probabilities far beyond plain Monte Carlo, by mixtures of exponential tilts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mfmc.config.ranges import Count
from mfmc.config.schema import Settings
from mfmc.rare_events import RareEstimate, rare_passage_probability, rare_sup_probability
from mfmc.studies.context import Context
from mfmc.studies.passages import turns_of
from mfmc.studies.result import Check, Result, check
from mfmc.studies.sampling import horizon_of
from mfmc.theory.mean_field import characteristic_time
from mfmc.variance_reduction import controlled_hit_ratio

Row = dict[str, Any]


@dataclass(kw_only=True)
class RareSection:
    samples: Count


@dataclass(kw_only=True)
class Config(Settings):
    rare_events: RareSection


def run(config: Config, context: Context) -> Result:
    """Rows {capacity, epsilon, estimate, standard_error, lower, upper, ..} for the sup over the horizon and for
    tau_C(j) (whole content), and what variance reduction gains for h(N).
    """
    sups, passages, gains = [], [], []
    turns = turns_of(config, context)[:1]
    total = len(config.capacities) * len(config.epsilons) * (1 + len(turns))
    with context.progress("rare events", total) as advance:
        for capacity in config.capacities:
            workload, horizon = context.workload_at(capacity), horizon_of(config, context, capacity)
            centre = float(characteristic_time(workload, capacity))
            for epsilon in config.epsilons:
                found = rare_sup_probability(
                    context.key("sup", capacity, epsilon),
                    workload,
                    capacity,
                    epsilon,
                    horizon,
                    config.rare_events.samples,
                )
                sups.append({"capacity": capacity, "horizon": horizon, "epsilon": epsilon, **_row(found)})
                advance(1)
                for turn in turns:
                    if epsilon >= 1:
                        continue
                    deviation = epsilon * centre
                    found = rare_passage_probability(
                        context.key("passage", capacity, epsilon),
                        workload,
                        capacity,
                        deviation,
                        turn,
                        config.rare_events.samples,
                    )
                    passages.append(
                        {
                            "capacity": capacity,
                            "turn": turn,
                            "epsilon": deviation,
                            "epsilon_relative": epsilon,
                            **_row(found),
                            "exact": found.lower,
                        }
                    )
                    advance(1)
            reduced = controlled_hit_ratio(context.key("controlled", capacity), workload, capacity)
            gains.append({"capacity": capacity, **reduced._asdict()})
    return Result(
        summary={"sup": sups, "passage": passages, "variance_reduction": gains},
        headline=_headline(sups, gains),
        tables={"table": sups, "passage": passages, "variance_reduction": gains},
        checks=_checks(sups, passages),
    )


def _row(found: RareEstimate) -> Row:
    """The estimate with its brackets and diagnostics, and the paths that plain Monte Carlo would need."""
    row = found._asdict()
    row.pop("batches")
    plain = (1 - found.estimate) / (found.estimate * found.relative_error**2) if found.estimate > 0 else math.inf
    return {**row, "plain_paths_needed": plain}


def _headline(sups: list[Row], gains: list[Row]) -> list[str]:
    rarest = min(sups, key=lambda row: row["estimate"])
    return [
        f"P(sup |D_N/N - d| > {rarest['epsilon']:g}) = {rarest['estimate']:.3g} +- {rarest['relative_error']:.1%} at"
        f" {rarest['capacity']:,} blocks, where plain Monte Carlo would need {rarest['plain_paths_needed']:.1g} paths",
        *(
            f"h({row['capacity']:,}): conditioning and control variates gain {row['gain']:,.0f} times over the"
            " hit indicator,"
            " cost included"
            for row in gains
        ),
    ]


def _checks(sups: list[Row], passages: list[Row]) -> list[Check]:
    outside = [
        row
        for row in sups
        if not row["lower"] - 5 * row["standard_error"] <= row["estimate"] <= row["upper"] + 5 * row["standard_error"]
    ]
    off = max(
        (abs(row["estimate"] - row["exact"]) / row["standard_error"] for row in passages if row["standard_error"] > 0),
        default=0.0,
    )
    return [
        check(
            "sup probabilities between the exact pointwise law and the union bound",
            not outside,
            f"{len(sups)} estimates, {len(outside)} outside",
        ),
        check(
            "passage probabilities against the exact law",
            off < 5,
            f"within {off:.2f} standard errors at {len(passages)} deviations",
        ),
    ]
