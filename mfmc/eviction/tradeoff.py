"""The whole study of a steps table: scopes, time-outs, the memory each needs, LRU in it, and the cascade."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ..models import GIB, KVModel, named
from .cascade import cascade
from .memory import timeout_memory
from .replay import lru_hit_rates
from .steps import Steps
from .sweep import LANDMARKS, Tradeoff, sweep, timeout_grid


class EvictionTradeoff(NamedTuple):
    """Findings as plain numbers, and tables as rows of plain values; one called "table" is the overview."""

    summary: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]


def run_eviction_tradeoff(
    steps: Steps,
    *,
    timeouts: np.ndarray | None = None,
    session_rate: float = 0.01,
    model: str = "qwen3_8b",
    replications: int = 4,
    seed: int = 0,
) -> EvictionTradeoff:
    """Sweep `timeouts` (s, default `timeout_grid()`) in every scope; tie each to its memory, and that to LRU.

    `session_rate`: sessions per second. `model`: a name of `mfmc.models.named`, for GiB.
    `replications`, `seed`: of the drawn session starts.
    """
    kind = named(model)
    timeouts = timeout_grid() if timeouts is None else np.unique(np.asarray(timeouts, float))
    tradeoffs = sweep(steps, timeouts)
    everything = tradeoffs[0]
    memory_rows, memory_summary = _memory(steps, everything, session_rate, kind, replications, seed)
    cascade_rows, cascade_summary = _cascade(steps, timeouts)
    counts = everything.coverage
    landmarks = [mark for mark in LANDMARKS if mark in timeouts]
    summary: dict[str, Any] = {
        "sessions": steps.sessions,
        "steps": counts.steps,
        "covered_steps": counts.covered,
        "session_first_steps": counts.session_first,
        "steps_without_tokens": counts.without_tokens,
        "steps_without_gap": counts.without_gap,
        "steps_of_unknown_generation": int(np.isnan(steps.generation).sum()),
        "rejected_rows": dict(steps.rejected),
        **_overview(everything, landmarks),
        "landmarks_s": landmarks,
        **memory_summary,
        **cascade_summary,
    }
    tables = {
        "table": [
            {"scope": each.scope, **asdict(each.coverage), **_overview(each, landmarks)} for each in tradeoffs
        ],
        "eviction_tradeoff_by_scope": [row for each in tradeoffs for row in _rows(each)],
        "eviction_tradeoff_by_memory": memory_rows,
        "eviction_tradeoff_cascade": cascade_rows,
    }
    return EvictionTradeoff(summary, tables)


def duration(seconds: float) -> str:
    """A time-out in words: 45 s, 5 min, 2 h."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _overview(each: Tradeoff, landmarks: list[float]) -> dict[str, Any]:
    deployed = each.deployed
    reached = deployed.effective_timeout if deployed else np.inf
    row: dict[str, Any] = {
        "optimal_hit_rate": each.optimal_hit_rate,
        "unlimited_storage_ratio": each.unlimited_storage_ratio,
        "deployed_hit_rate": deployed.hit_rate if deployed else None,
        "deployed_amplification": deployed.amplification if deployed else None,
        "effective_eviction_time_s": reached if np.isfinite(reached) else None,
    }
    for mark in landmarks:
        row[f"hit_rate_{mark:.0f}s"] = each.hit_rate_at(mark)
        row[f"amplification_{mark:.0f}s"] = each.amplification_at(mark)
        row[f"storage_ratio_{mark:.0f}s"] = each.storage_ratio_at(mark)
    return row


def _rows(each: Tradeoff) -> list[dict[str, Any]]:
    columns = {
        "timeout_s": each.timeouts,
        "hit_rate": each.hit_rate,
        "prefill_amplification": each.amplification,
        "redundant_prefill_ratio": each.redundant_ratio,
        "storage_ratio": each.storage_ratio,
        "kv_active_ratio": each.active_ratio,
    }
    constants = {
        "fresh_floor": 1 - each.optimal_hit_rate,
        "optimal_hit_rate": each.optimal_hit_rate,
        "optimal_amplification": 1.0,
        "unlimited_storage_ratio": each.unlimited_storage_ratio,
    }
    return [
        {"scope": each.scope, "timeout": duration(row["timeout_s"]), **row, **constants}
        for row in _as_rows(columns)
    ]


def _memory(
    steps: Steps, everything: Tradeoff, session_rate: float, model: KVModel, replications: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    timeouts, binary = everything.timeouts, everything.hit_rate
    memory = timeout_memory(steps, timeouts, session_rate)
    replay = lru_hit_rates(
        steps, memory.idle, session_rate, warm_up=2 * timeouts[-1], replications=replications, seed=seed
    )
    difference = replay.hit_rate - binary
    rows = _as_rows(
        {
            "timeout_s": timeouts,
            "memory_tokens": memory.tokens,
            "memory_gib": memory.tokens * model.token_bytes / GIB,
            "idle_tokens": memory.idle,
            "finished_share": memory.finished / memory.tokens,
            "hit_rate": binary,
            "lru_hit_rate": replay.hit_rate,
            "lru_standard_error": replay.standard_error,
            "difference": difference,
        }
    )
    worst = int(np.argmax(np.abs(difference)))
    within = np.abs(difference) <= 0.01
    always = timeouts[np.logical_and.accumulate(within[::-1])[::-1]]
    summary = {
        "session_rate_per_s": session_rate,
        "model": model.name,
        "kv_bytes_per_token": model.token_bytes,
        "decoding_tokens": memory.decoding,
        "lru_largest_difference": float(difference[worst]),
        "lru_largest_difference_timeout_s": float(timeouts[worst]),
        "lru_within_one_point_from_s": float(always[0]) if always.size else None,
        **{
            f"{name}_{row['timeout_s']:.0f}s": row[name]
            for row in rows
            if row["timeout_s"] in LANDMARKS
            for name in ("memory_tokens", "memory_gib", "lru_hit_rate")
        },
        "lru_largest_standard_error": float(replay.standard_error.max()),
        "lru_steps_counted": replay.steps,
        "lru_period_s": replay.period,
        "longest_session_s": replay.longest_session,
    }
    return [{"timeout": duration(row["timeout_s"]), **row} for row in rows], summary


def _cascade(steps: Steps, timeouts: np.ndarray) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    effect = cascade(steps, timeouts)
    rows = _as_rows(
        {
            "timeout_s": timeouts,
            "hit_rate": effect.binary,
            "hit_rate_written_back": effect.written_back,
            "hit_rate_not_written_back": effect.not_written_back,
        }
    )
    summary = {
        "cascade_far_reaching_steps": effect.far_reaching_steps,
        "cascade_largest_loss": float((effect.binary - effect.written_back).max()),
        "cascade_largest_loss_not_written_back": float((effect.binary - effect.not_written_back).max()),
    }
    return rows, summary


def _as_rows(columns: dict[str, np.ndarray]) -> list[dict[str, float]]:
    lists = [np.asarray(values, float).tolist() for values in columns.values()]
    return [dict(zip(columns, values)) for values in zip(*lists)]
