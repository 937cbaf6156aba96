"""The experiment in full: three seeds x three budgets x three traces x twelve requests, all recomputed.

Everything that the audit needs goes into plain records: what was asked, what was cut, admitted and evicted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mfmc.checkpoints.decoder import Decoder, DecoderShape
from mfmc.checkpoints.designs import EveryCheckpoint
from mfmc.checkpoints.session import Answer, answer
from mfmc.checkpoints.store import Key
from mfmc.checkpoints.traces import BOUNDARIES, SCOPES, TRACES
from mfmc.errors import InputError

SEEDS = (7, 11, 23)
BUDGETS = (4096, 8192, 32768)

#: What the study publishes for every seed: (budget, trace) -> hits, projected rows, evictions, copied bytes.
PUBLISHED = {
    (4096, "hot"): (11, 600, 0, 25344),
    (4096, "alternating"): (0, 864, 11, 25344),
    (4096, "scopes"): (0, 864, 11, 25344),
    (8192, "hot"): (11, 336, 0, 52800),
    (8192, "alternating"): (0, 864, 22, 76032),
    (8192, "scopes"): (0, 864, 22, 76032),
    (32768, "hot"): (11, 336, 0, 52800),
    (32768, "alternating"): (10, 384, 0, 54912),
    (32768, "scopes"): (9, 432, 0, 57024),
}
COUNTS = ("hits", "projected_rows", "evictions", "copy_bytes")


@dataclass(frozen=True)
class Evidence:
    """`results`: the JSON record with all requests; `arrays`: reused and fresh outputs of every request."""

    results: dict[str, Any]
    arrays: dict[str, np.ndarray]


def run_experiment(
    seeds: Sequence[int] = SEEDS,
    budgets: Sequence[int] = BUDGETS,
    traces: Sequence[str] = tuple(TRACES),
    shape: DecoderShape | None = None,
) -> Evidence:
    """Serve every trace from cold under every budget (bytes) and seed; recompute every request afresh."""
    shape = shape or DecoderShape()
    for trace in traces:
        if trace not in TRACES:
            raise InputError(f"trace {trace!r} is unknown: expected some of {', '.join(TRACES)}")
    records: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for seed in seeds:
        decoder = Decoder.untrained(seed, shape)
        for budget in budgets:
            for trace in traces:
                store = EveryCheckpoint(budget, BOUNDARIES, SCOPES, shape)
                for index, request in enumerate(TRACES[trace](seed, shape.vocabulary)):
                    given = answer(decoder, store, request)
                    assert given.outputs is not None
                    fresh = decoder.extend(np.asarray(request.tokens), decoder.empty())[0][given.reused :]
                    name = f"{trace}_{budget}_{seed}_{index:02d}"
                    arrays[f"{name}_reused"] = given.outputs
                    arrays[f"{name}_fresh"] = fresh
                    records.append(
                        {
                            "name": name,
                            "trace": trace,
                            "budget": int(budget),
                            "seed": int(seed),
                            "index": index,
                            "scope": request.scope,
                            "tokens": [int(token) for token in request.tokens],
                            **log_record(given),
                            "max_abs_error": float(np.abs(given.outputs - fresh).max()),
                        }
                    )
    results = {
        "schema": 1,
        "decoder": {**vars(shape), "dtype": "float64", "trained": False},
        "token_bytes": shape.token_bytes,
        "boundaries": list(BOUNDARIES),
        "scopes": list(SCOPES),
        "requests": records,
        "table": tabulate(records),
        "max_abs_error": max(record["max_abs_error"] for record in records),
        "sources": source_hashes(),
    }
    return Evidence(results, arrays)


def log_record(given: Answer) -> dict[str, Any]:
    """What the store did for one request, in plain values."""
    return {
        "reused": given.reused,
        "projected_rows": given.rows,
        "admitted": list(given.turnover.admitted),
        "skipped": list(given.turnover.skipped),
        "evicted": [evicted_record(key) for key in given.turnover.evicted],
        "copy_bytes": given.turnover.copy_bytes,
        "resident_bytes": given.resident_bytes,
    }


def evicted_record(key: Key) -> dict[str, Any]:
    return {"scope": key[1], "tokens": np.frombuffer(key[2], dtype=np.int64).tolist()}


def tabulate(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per budget and trace; the counts must agree between seeds, which change values only."""
    rows: dict[tuple[int, str], dict[int, dict[str, int]]] = {}
    for record in records:
        seeds = rows.setdefault((record["budget"], record["trace"]), {})
        total = seeds.setdefault(
            record["seed"],
            dict.fromkeys(("requests", "hits", "projected_rows", "evictions", "copy_bytes"), 0),
        )
        total["requests"] += 1
        total["hits"] += record["reused"] > 0
        total["projected_rows"] += record["projected_rows"]
        total["evictions"] += len(record["evicted"])
        total["copy_bytes"] += record["copy_bytes"]
    table = []
    for (budget, trace), seeds in rows.items():
        first = next(iter(seeds.values()))
        if any(total != first for total in seeds.values()):
            raise RuntimeError(f"counts differ between seeds at budget {budget}, trace {trace}: {seeds}")
        table.append({"budget": budget, "trace": trace, **first})
    return table


def beside_published(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table with the published counts beside its own; None where the study has no such row."""
    rows = []
    for row in table:
        published = PUBLISHED.get((row["budget"], row["trace"]), (None,) * len(COUNTS))
        rows.append({**row, **{f"published_{name}": value for name, value in zip(COUNTS, published)}})
    return rows


def source_hashes() -> dict[str, str]:
    """SHA-256 of every source file of this package, by file name."""
    return {path.name: file_hash(path) for path in sorted(Path(__file__).parent.glob("*.py"))}


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_evidence(evidence: Evidence, folder: Path) -> None:
    """Write arrays.npz, and results.json with its hash, into an existing folder."""
    np.savez(folder / "arrays.npz", **evidence.arrays)  # type: ignore[arg-type]
    results = {**evidence.results, "files": {"arrays.npz": file_hash(folder / "arrays.npz")}}
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
