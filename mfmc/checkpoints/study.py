"""The whole study: the published experiment, its audit, designs compared, thresholds predicted and found."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mfmc.checkpoints.audit import audit_evidence
from mfmc.checkpoints.conversations import (
    RELATIVE_BUDGETS,
    SHARES,
    ConversationTrace,
    compare_starts,
    conversation_thresholds,
    sweep_conversations,
)
from mfmc.checkpoints.decoder import DecoderShape
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.experiment import (
    BUDGETS,
    SEEDS,
    Evidence,
    beside_published,
    run_experiment,
    write_evidence,
)
from mfmc.checkpoints.findings import checks, headlines
from mfmc.checkpoints.fixed import fixed_thresholds, sweep_fixed_traces
from mfmc.checkpoints.residence import residence_intervals
from mfmc.checkpoints.timing import measure_times
from mfmc.checkpoints.traces import thinned
from mfmc.checkpoints.working_set import working_set
from mfmc.lru.accesses import AccessStream
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.workload import Workload


@dataclass(frozen=True, eq=False)
class CacheBudget:
    """What the study found. `tables["table"]` is the published table beside this run's.

    `arrays`: the tabulated d(t) of each design. `checks`: (statement, whether it holds, the figures).
    `evidence` (with the 648 arrays) and `audit` become results.json, arrays.npz and audit.json.
    """

    summary: dict[str, Any]
    headline: list[str]
    tables: dict[str, list[dict[str, Any]]]
    arrays: dict[str, np.ndarray]
    checks: list[tuple[str, bool, str]]
    evidence: Evidence
    audit: dict[str, Any]


def run_cache_budget(
    workload: Workload,
    stream: AccessStream,
    *,
    seeds: Sequence[int] = SEEDS,
    budgets: Sequence[int] = BUDGETS,
    designs: Sequence[str] = tuple(DESIGNS),
    relative_budgets: Sequence[float] = RELATIVE_BUDGETS,
    shares: Sequence[float] = SHARES,
    block_tokens: int = 4,
    timing_cases: Sequence[tuple[int, int]] = ((4, 16), (32, 64)),
    timing_thinning: int = 20,
    advance: Callable[[str], None] = lambda part: None,
) -> CacheBudget:
    """Run every part; `stream` is a stationary access stream of `workload`, `block_tokens` tokens a block.

    `advance` is called with the name of each part as it begins. Times are measured on every
    `timing_thinning`-th conversation, once per case (tokens per block, width of the decoder).
    """
    advance("published experiment")
    evidence = run_experiment(seeds, budgets)
    with tempfile.TemporaryDirectory() as folder:
        write_evidence(evidence, Path(folder))
        audit = audit_evidence(Path(folder))
    table = beside_published(evidence.results["table"])
    advance("fixed traces, every budget")
    fixed = sweep_fixed_traces(sorted({*range(0, 24 * 1024, DecoderShape().token_bytes), *budgets}))
    advance("conversations, every budget")
    trace = ConversationTrace.from_stream(workload, stream, block_tokens)
    swept = sweep_conversations(trace, designs, relative_budgets)
    advance("conversations, thresholds")
    thresholds = conversation_thresholds(trace, swept, shares)
    advance("conversations, cold and warm starts")
    starts = compare_starts(trace)
    advance("times")
    few, calm = thinned(stream, timing_thinning), workload.scaled(1 / timing_thinning)
    times = [row for tokens, width in timing_cases for row in time_case(calm, few, tokens, width)]
    tables = {
        "table": table,
        "residence": alternating_residence(evidence),
        "fixed_sweep": fixed,
        "fixed_thresholds": fixed_thresholds(fixed),
        "conversation_sweep": swept,
        "conversation_thresholds": thresholds,
        "starts": starts,
        "times": times,
    }
    summary = {
        "requests": len(evidence.results["requests"]),
        "arrays": len(evidence.arrays),
        "max_abs_error": evidence.results["max_abs_error"],
        "token_bytes": evidence.results["token_bytes"],
        "audit_passed": audit["passed"],
        "audit_failures": audit["failures"],
        "conversation_requests": len(trace.requests),
        "drawn_load": trace.drawn_load,
        "reuse_ceiling": workload.profile("whole").reuse_ceiling,
        "block_bytes": trace.block_bytes,
        "timing_requests": len(few),
    }
    return CacheBudget(
        summary, headlines(tables), tables, curves(workload), checks(tables, summary), evidence, audit
    )


def write_cache_budget(study: CacheBudget, folder: Path) -> None:
    """Write the experiment's results.json, arrays.npz and audit.json into a folder, made where missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_evidence(study.evidence, folder)
    (folder / "audit.json").write_text(json.dumps(study.audit, indent=1) + "\n")


def curves(workload: Workload, points: int = 500) -> dict[str, np.ndarray]:
    """d(t) in blocks of the two kinds of design and F(t); the exact hit ratio h(N) of whole content."""
    once, every = (working_set(workload, design) for design in ("keep_longest", "every_checkpoint"))
    kept = np.linspace(0, len(once.times) - 1, points).astype(int)
    capacities = once.threshold(0.5) * np.linspace(0.5, 1.6, 34)
    return {
        "displacement_time": once.times[kept],
        "displacement_once": once.displaced[kept],
        "displacement_every_checkpoint": every.displaced[kept],
        "displacement_cdf": once.cdf[kept],
        "exact_capacity": capacities,
        "exact_hit_ratio": np.array([hit_ratio_exact(workload, capacity) for capacity in capacities]),
    }


def time_case(
    workload: Workload, stream: AccessStream, block_tokens: int, width: int
) -> list[dict[str, Any]]:
    """Stage times with memory for more than half of the reuse ceiling, were each block held once."""
    trace = ConversationTrace.from_stream(workload, stream, block_tokens)
    blocks = round(1.2 * working_set(workload, "keep_longest").threshold(0.5))
    rows = measure_times(trace.requests, trace.boundaries, blocks * block_tokens, width)
    return [{"block_tokens": block_tokens, **row} for row in rows]


def alternating_residence(evidence: Evidence) -> list[dict[str, Any]]:
    """Stays of every checkpoint on the alternating trace, first seed, for each budget."""
    rows: list[dict[str, Any]] = []
    records = [record for record in evidence.results["requests"] if record["trace"] == "alternating"]
    seed = records[0]["seed"]
    for budget in dict.fromkeys(record["budget"] for record in records):
        log = [record for record in records if record["budget"] == budget and record["seed"] == seed]
        stays = residence_intervals(log, budget, evidence.results["token_bytes"])
        rows += [{"budget": budget, **stay} for stay in stays]
    return rows
