"""Idle time-outs: what evicting a session's cache after an idle time costs, in hits, prefill and memory."""

from .cascade import Cascade, cascade
from .memory import GIB, KV_BYTES_PER_TOKEN, TimeoutMemory, timeout_memory
from .rounds import steps_from_duckdb, steps_from_rounds_jsonl
from .steps import Coverage, Steps, steps_from_arrays
from .sweep import (
    EVERYTHING,
    LANDMARKS,
    Deployed,
    Scope,
    Tradeoff,
    scopes,
    sweep,
    timeout_grid,
)
from .tables import AGENTIC_COLUMNS, steps_from_csv

__all__ = [
    "AGENTIC_COLUMNS",
    "EVERYTHING",
    "GIB",
    "KV_BYTES_PER_TOKEN",
    "LANDMARKS",
    "Cascade",
    "Coverage",
    "Deployed",
    "Scope",
    "Steps",
    "TimeoutMemory",
    "Tradeoff",
    "cascade",
    "scopes",
    "steps_from_arrays",
    "steps_from_csv",
    "steps_from_duckdb",
    "steps_from_rounds_jsonl",
    "sweep",
    "timeout_grid",
    "timeout_memory",
]
