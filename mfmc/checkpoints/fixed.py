"""The designs on the three fixed traces: every budget from nothing up, and where a larger one starts to pay.

In these traces a prefix comes back after exactly P requests (P = 1, 2, 3), each of which displaces the same
`written` bytes while the cache misses. So d(t) = written t, and the mean field says: it pays once T_C >= P,
at P `written` bytes. Exactly, the entry that is wanted needs only its own bytes beside what P - 1 other
requests displace: `wanted` + (P - 1) `written`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mfmc.checkpoints.bookkeeping import CountingDecoder
from mfmc.checkpoints.decoder import DecoderShape
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.sweep import make_store, serve
from mfmc.checkpoints.traces import BOUNDARIES, PREFIX, SCOPES, TOKENS, TRACES

PERIODS = {"hot": 1, "alternating": 2, "scopes": 3}


def sweep_fixed_traces(budgets: Sequence[int], shape: DecoderShape | None = None) -> list[dict[str, Any]]:
    """One row per design, trace and budget (bytes): totals of twelve requests from a cold store."""
    decoder = CountingDecoder(shape)
    rows = []
    for design in DESIGNS:
        for trace, make in TRACES.items():
            requests = make(0, decoder.shape.vocabulary)
            for budget in budgets:
                store = make_store(design, budget, BOUNDARIES, SCOPES, shape=decoder.shape)
                tally = serve(decoder, store, requests)
                rows.append({"design": design, "trace": trace, "budget": int(budget), **tally.counts()})
    return rows


def fixed_thresholds(
    rows: Sequence[dict[str, Any]], shape: DecoderShape | None = None
) -> list[dict[str, Any]]:
    """Per design and trace: bytes predicted, and budgets of a sweep where reuse begins and is complete."""
    token_bytes = (shape or DecoderShape()).token_bytes
    wanted = {design: PREFIX for design in DESIGNS} | {"whole_conversation": TOKENS}
    written = dict(wanted) | {"every_checkpoint": sum(BOUNDARIES)}
    table = []
    for design in DESIGNS:
        for trace, period in PERIODS.items():
            swept = sorted(
                (row for row in rows if row["design"] == design and row["trace"] == trace),
                key=lambda row: row["budget"],
            )
            best = min(row["projected_rows"] for row in swept)
            none = swept[0]["projected_rows"]
            by_order = design != "value_per_byte"  # which keeps no order of use: nothing to predict
            table.append(
                {
                    "design": design,
                    "trace": trace,
                    "mean_field_bytes": period * written[design] * token_bytes if by_order else None,
                    "predicted_bytes": (wanted[design] + (period - 1) * written[design]) * token_bytes
                    if by_order
                    else None,
                    "pays_in_full_bytes": next(r["budget"] for r in swept if r["projected_rows"] == best),
                    "begins_to_pay_bytes": next(
                        (r["budget"] for r in swept if r["projected_rows"] < none), None
                    ),
                    "most_evictions": max(row["evictions"] for row in swept),
                    "most_evictions_bytes": max(swept, key=lambda row: row["evictions"])["budget"],
                }
            )
    return table
