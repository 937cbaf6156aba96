"""What the tables of the study say: checks that must hold, and one sentence for each finding."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mfmc.checkpoints.experiment import COUNTS

Rows = list[dict[str, Any]]


def checks(tables: dict[str, Rows], summary: dict[str, Any]) -> list[tuple[str, bool, str]]:
    """(statement, whether it holds, the figures on which it stands)."""
    known = [row for row in tables["table"] if row[f"published_{COUNTS[0]}"] is not None]
    equal = sum(all(row[name] == row[f"published_{name}"] for name in COUNTS) for row in known)
    predicted = [row for row in tables["fixed_thresholds"] if row["predicted_bytes"] is not None]
    exact = sum(row["predicted_bytes"] == row["pays_in_full_bytes"] for row in predicted)
    error = summary["max_abs_error"]
    return [
        ("the published counts come out exactly", equal == len(known), f"{equal} of {len(known)} rows"),
        (
            "reused suffixes equal full recomputation to 1e-12",
            error < 1e-12,
            f"{summary['requests']} requests, largest error {error:.3g}",
        ),
        ("the audit agrees", summary["audit_passed"], f"{len(summary['audit_failures'])} disagreements"),
        (
            "fixed traces: reuse is complete from the predicted byte on",
            exact == len(predicted),
            f"{exact} of {len(predicted)} thresholds",
        ),
    ]


def headlines(tables: dict[str, Rows]) -> list[str]:
    """The findings, the most important first."""
    return [
        *larger_evicts_more(tables["table"]),
        *fixed_findings(tables["fixed_thresholds"]),
        *conversation_findings(tables["conversation_thresholds"]),
        *start_findings(tables["starts"]),
        *time_findings(tables["times"]),
    ]


def larger_evicts_more(table: Rows) -> list[str]:
    cycle = sorted((row for row in table if row["trace"] == "alternating"), key=lambda row: row["budget"])
    return [
        f"Alternating branches: {large['budget'] / 1024:g} KiB evict {large['evictions']} checkpoints where"
        f" {small['budget'] / 1024:g} KiB evict {small['evictions']}, and both serve {large['hits']} hits."
        for small, large in pairwise(cycle)
        if large["evictions"] > small["evictions"] and large["hits"] == small["hits"]
    ]


def fixed_findings(thresholds: Rows) -> list[str]:
    begins = {row["design"]: row for row in thresholds if row["trace"] == "alternating"}
    every = begins.pop("every_checkpoint")
    others = ", ".join(f"{row['begins_to_pay_bytes']:,} B with {name}" for name, row in begins.items())
    return [
        f"Alternating branches: reuse begins at {every['begins_to_pay_bytes']:,} B with"
        f" every_checkpoint (predicted: {every['predicted_bytes']:,} B); at {others}."
    ]


def conversation_findings(thresholds: Rows) -> list[str]:
    return [
        f"Conversations, {row['design']}: {row['share_of_ceiling']:.0%} of the reuse ceiling needs"
        f" {row['found_bytes'] / 1e6:.2f} MB; T_C predicted {row['predicted_bytes'] / 1e6:.2f} MB."
        for row in thresholds
        if row["design"] in ("every_checkpoint", "keep_longest")
    ]


def start_findings(starts: Rows) -> list[str]:
    apart = max(starts, key=lambda row: row["after_plenty_hit_ratio"] - row["cold_hit_ratio"])
    return [
        f"Conversations, {apart['design']} in {apart['budget'] / 1e6:.1f} MB: hit ratio"
        f" {apart['cold_hit_ratio']:.3f} from a cold cache, {apart['after_plenty_hit_ratio']:.3f} where the"
        " cache once had more memory."
    ]


def time_findings(times: Rows) -> list[str]:
    lines = []
    for case in dict.fromkeys((row["block_tokens"], row["width"]) for row in times):
        rows = [row for row in times if (row["block_tokens"], row["width"]) == case]
        cached = [row for row in rows if row["hit_ratio"] > 0]
        if cached:
            best = min(cached, key=lambda row: row["total_us"])
            lines.append(
                f"Time, blocks of {case[0]} tokens and width {case[1]}: {best['design']} serves"
                f" {best['hit_ratio']:.0%} of the tokens and takes {best['time_against_no_cache']:.2f} times"
                " as long as no cache."
            )
    return lines
