"""`study=trace`: what is in a trace, how far the model's assumptions hold there, and what to trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection, load_trace
from mfmc.studies.context import Context
from mfmc.studies.result import Check, Result, check
from mfmc.traces import validate_trace

Row = dict[str, Any]


@dataclass(kw_only=True)
class Config(Settings):
    """Settings of the study."""

    trace: TraceSection


def run(config: Config, context: Context) -> Result:
    """The tables of `mfmc.traces.validate_trace`, its sentences first; table `table` has the
    distributions.
    """
    trace = load_trace(config.trace)
    found = validate_trace(trace, config.trace.block_tokens)
    arrays, sentences = found.pop("arrays"), found.pop("plain_words")
    return Result(
        summary=found,
        headline=sentences,
        tables={name: rows for name, rows in tables(found).items() if rows or name == "table"},
        arrays=arrays | kind_counts(trace),
        checks=checks(found),
        sections={"Rows": "\n".join(f"- {line}" for line in trace.describe())},
    )


def tables(found: Row) -> dict[str, list[Row]]:
    """The parts of a validation that are rows, by name."""
    tests = found["assumptions"]
    distributions = [
        {"quantity": name, **row} for name, row in found["distributions"].items() if row["count"]
    ]
    rejected = [
        {"reason": reason, "rows": entry["count"], "first_rows": ", ".join(map(str, entry["first_rows"]))}
        for reason, entry in found["rows"]["rejected"].items()
    ]
    return {
        "table": [_narrow(row) for row in distributions],
        "distributions": distributions,
        "rejected": rejected,
        "treatments": [
            {"treatment": name, "count": count} for name, count in found["treatments"].items() if count
        ],
        "sensitivity": found["sensitivity"],
        "constants": [{"constant": name, "value": value} for name, value in found["constants"].items()],
        "sizes_by_turns": tests["size_independence"].get("by_turns", []),
        "gaps_by_turn": tests["gap_independence"].get("by_turn", []),
        "gaps_by_kind": tests["gap_independence"].get("by_kind", []),
        "arrivals": tests["arrivals"].get("dispersion", []),
        "arrivals_by_hour": tests["arrivals"].get("by_hour", []),
    }


def _narrow(row: Row) -> Row:
    """Columns that fit a terminal."""
    return {
        name: row[name] for name in ("quantity", "count", "mean", "sd", "p50", "p99", "max") if name in row
    }


def kind_counts(trace: Any) -> dict[str, np.ndarray]:
    """Turns of each kind of context (see mfmc.traces.table.CONTEXTS)."""
    return {"contexts": np.bincount(trace.context, minlength=6)}


def checks(found: Row) -> list[Check]:
    """What must add up; assumptions that fail are findings, not errors."""
    rows = found["rows"]
    return [
        check(
            "rows read = kept + rejected",
            rows["rows_read"] == rows["rows_kept"] + rows["rows_rejected"],
            f"{rows['rows_read']:,} = {rows['rows_kept']:,} + {rows['rows_rejected']:,}",
        )
    ]
