"""An audit of written evidence that shares no code with the store: it replays LRU from the request log alone.

It reads results.json and arrays.npz, rebuilds what a byte-limited LRU must have done for every request, and
checks cut lengths, admissions, evictions, resident bytes, copied bytes, projected rows, errors, totals and
file hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from mfmc.errors import InputError

TOLERANCE = 1e-12


def audit_evidence(folder: Path) -> dict[str, Any]:
    """Audit one folder; returns what audit.json holds: `passed`, `failures`, counts and trace totals."""
    try:
        results = json.loads((folder / "results.json").read_text())
        with np.load(folder / "arrays.npz") as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: expected results.json and arrays.npz of a cache-budget run ({error})"
        ) from None
    failures = [*check_hashes(folder, results), *check_arrays(results, arrays)]
    totals: dict[tuple[int, str], dict[str, int]] = {}
    runs: dict[tuple[int, int, str], list[dict[str, Any]]] = defaultdict(list)
    for record in results["requests"]:
        runs[record["seed"], record["budget"], record["trace"]].append(record)
    for (seed, budget, trace), records in runs.items():
        total, wrong = replay(results, budget, records)
        failures += [f"seed {seed}, budget {budget}, {trace}, {line}" for line in wrong]
        if totals.setdefault((budget, trace), total) != total:
            failures.append(f"budget {budget}, {trace}: seeds disagree: {totals[budget, trace]} and {total}")
    table = [{"budget": budget, "trace": trace, **total} for (budget, trace), total in totals.items()]
    if table != results["table"]:
        failures.append("the table in results.json is not the one that the log gives")
    return {
        "schema": 1,
        "passed": not failures,
        "failures": failures,
        "requests": len(results["requests"]),
        "arrays": len(arrays),
        "max_abs_error": max(record["max_abs_error"] for record in results["requests"]),
        "results_sha256": sha256(folder / "results.json"),
        "totals": table,
    }


def replay(
    results: dict[str, Any], budget: int, records: list[dict[str, Any]]
) -> tuple[dict[str, int], list[str]]:
    """Run a byte-limited LRU list (most recent last) over one log: its totals, and every disagreement."""
    size = results["token_bytes"]
    layers = results["decoder"]["layers"]
    resident: list[tuple[str, tuple[int, ...]]] = []
    total = dict.fromkeys(("requests", "hits", "projected_rows", "evictions", "copy_bytes"), 0)
    wrong: list[str] = []
    for order, record in enumerate(records):
        scope, tokens = record["scope"], tuple(record["tokens"])
        cut = max((n for n in range(1, len(tokens)) if (scope, tokens[:n]) in resident), default=0)
        copied = cut * size
        if cut:
            resident.remove((scope, tokens[:cut]))
            resident.append((scope, tokens[:cut]))
        admitted, skipped, evicted = [], [], []
        for boundary in results["boundaries"]:
            if not cut < boundary <= len(tokens):
                continue
            if boundary * size > budget:
                skipped.append(boundary)
                continue
            if (scope, tokens[:boundary]) in resident:  # resident, but not strictly shorter than the query
                resident.remove((scope, tokens[:boundary]))
            else:
                while size * (sum(len(held) for _, held in resident) + boundary) > budget:
                    evicted.append(resident.pop(0))
                admitted.append(boundary)
                copied += boundary * size
            resident.append((scope, tokens[:boundary]))
        expected = {
            "index": order,
            "reused": cut,
            "projected_rows": 3 * layers * (len(tokens) - cut),
            "admitted": admitted,
            "skipped": skipped,
            "evicted": [{"scope": where, "tokens": list(held)} for where, held in evicted],
            "copy_bytes": copied,
            "resident_bytes": size * sum(len(held) for _, held in resident),
        }
        for name, value in expected.items():
            if record[name] != value:
                wrong.append(f"request {record['index']}: {name} is {record[name]}, the log gives {value}")
        total["requests"] += 1
        total["hits"] += cut > 0
        total["projected_rows"] += expected["projected_rows"]
        total["evictions"] += len(evicted)
        total["copy_bytes"] += copied
    return total, wrong


def check_arrays(results: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[str]:
    """Two arrays a request, of the suffix's shape, as far apart as the log says and within the tolerance."""
    wrong = []
    width = results["decoder"]["width"]
    wanted = {f"{record['name']}_{kind}" for record in results["requests"] for kind in ("reused", "fresh")}
    missing, unknown = len(wanted - set(arrays)), len(set(arrays) - wanted)
    if missing or unknown:
        return [f"arrays.npz: {missing} arrays missing, {unknown} not in the log"]
    for record in results["requests"]:
        name = record["name"]
        reused, fresh = arrays[f"{name}_reused"], arrays[f"{name}_fresh"]
        shape = (len(record["tokens"]) - record["reused"], width)
        if reused.shape != shape or fresh.shape != shape:
            wrong.append(f"{name}: arrays of shape {reused.shape} and {fresh.shape}, expected {shape}")
            continue
        error = float(np.abs(reused - fresh).max())
        if error != record["max_abs_error"] or not error < TOLERANCE:
            wrong.append(
                f"{name}: error {error:.3g}, logged {record['max_abs_error']:.3g}, limit {TOLERANCE:g}"
            )
    return wrong


def check_hashes(folder: Path, results: dict[str, Any]) -> list[str]:
    """The archived files, and the sources that wrote them, are byte for byte what results.json names."""
    here = Path(__file__).parent
    named = [(folder / name, digest, "written") for name, digest in results["files"].items()]
    named += [(here / name, digest, "run") for name, digest in results["sources"].items()]
    return [
        f"{path.name}: changed since it was {verb}" for path, digest, verb in named if not same(path, digest)
    ]


def same(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
