"""`study=eviction_tradeoff`: idle time-outs on real steps, what they save and what they recompute."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np

from mfmc.config.ranges import Count, Positive, Range
from mfmc.config.schema import Settings
from mfmc.errors import InputError
from mfmc.studies.context import Context
from mfmc.studies.result import Check, Result, check


@dataclass(kw_only=True)
class EvictionSection:
    """Where the steps come from and what a token costs."""

    path: str | None
    session_rate: Positive
    model: str
    replications: Count
    timeouts: Annotated[list[float] | None, Range(above=0, nonempty=True)]


@dataclass(kw_only=True)
class Config(Settings):
    eviction: EvictionSection


def run(config: Config, context: Context) -> Result:
    """Hit rate, amplification and storage against the time-out, per scope; the memory and the LRU of each time-out."""
    from mfmc.eviction import run_eviction_tradeoff, steps_from_file

    section = config.eviction
    if section.path is None:
        raise InputError(
            "eviction.path=null: name the file of steps, e.g. eviction.path=agentic_steps.csv.gz (a CSV of steps,"
            " rounds in JSONL or DuckDB, or any trace with times)"
        )
    with context.progress("time-outs", None):
        found = run_eviction_tradeoff(
            steps_from_file(section.path),
            timeouts=None if section.timeouts is None else np.array(section.timeouts),
            session_rate=section.session_rate,
            model=section.model,
            replications=section.replications,
            seed=config.runtime.seed,
        )
    summary = found.summary
    context.notes.append(
        f"{summary['covered_steps']:,} of {summary['steps']:,} steps are covered; {summary['session_first_steps']:,}"
        f" first steps of a session, {summary['steps_without_gap']:,} without a gap and"
        f" {summary['steps_without_tokens']:,} without tokens are not"
    )
    return Result(
        summary=summary, headline=_headline(summary, found.tables), tables=found.tables, checks=_checks(found.tables)
    )


def _headline(summary: dict, tables: dict) -> list[str]:
    lines = [f"no time-out keeps more than {summary['optimal_hit_rate']:.4f} of the tokens from being computed again"]
    for mark in summary["landmarks_s"]:
        hit, amplification = summary[f"hit_rate_{mark:.0f}s"], summary[f"amplification_{mark:.0f}s"]
        lines.append(
            f"time-out of {mark:g} s: hit rate {hit:.4f}, prefill {amplification:.3f} times the least possible"
        )
    if summary["deployed_hit_rate"] is not None:
        reached = summary["effective_eviction_time_s"]
        lines.append(
            f"the deployed cache: hit rate {summary['deployed_hit_rate']:.4f}, prefill"
            f" {summary['deployed_amplification']:.3f} times the least possible"
            + ("" if reached is None else f", as a time-out of {reached:,.0f} s would do")
        )
    return lines


def _checks(tables: dict) -> list[Check]:
    rows = [row for row in tables["eviction_tradeoff_by_scope"] if row["scope"] == "all"]
    hits = [row["hit_rate"] for row in rows]
    identity = max(
        (abs(row["redundant_prefill_ratio"] - (1 - 1 / row["prefill_amplification"])) for row in rows), default=0.0
    )
    return [
        check(
            "the hit rate grows with the time-out, up to the optimum",
            all(a <= b + 1e-12 for a, b in pairwise(hits)) and hits[-1] <= rows[-1]["optimal_hit_rate"] + 1e-12,
            f"{hits[0]:.4f} to {hits[-1]:.4f}, optimum {rows[-1]['optimal_hit_rate']:.4f}",
        ),
        check("redundant ratio = 1 - 1/amplification", identity < 1e-9, f"largest difference {identity:.1e}"),
    ]
