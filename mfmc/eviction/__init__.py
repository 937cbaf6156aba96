"""Idle time-outs: what evicting a session's cache after an idle time costs, in hits, prefill and memory.

steps = steps_from_file("agentic_steps.csv.gz")      # or steps_from_arrays, steps_from_duckdb, ...
everything, *parts = sweep(steps)                     # hit rate, prefill and storage for every time-out
summary, tables = run_eviction_tradeoff(steps)        # all of it, with memory, LRU and the cascade
"""

from .cascade import Cascade, cascade
from .memory import TimeoutMemory, timeout_memory
from .reading import steps_from_file, steps_from_trace
from .replay import LruReplay, lru_hit_rates
from .rounds import steps_from_duckdb, steps_from_rounds_jsonl
from .steps import Coverage, Steps, steps_from_arrays
from .sweep import EVERYTHING, LANDMARKS, Deployed, Scope, Tradeoff, scopes, sweep, timeout_grid
from .tables import AGENTIC_COLUMNS, steps_from_csv
from .tradeoff import EvictionTradeoff, run_eviction_tradeoff

__all__ = [
    "AGENTIC_COLUMNS",
    "EVERYTHING",
    "LANDMARKS",
    "Cascade",
    "Coverage",
    "Deployed",
    "EvictionTradeoff",
    "LruReplay",
    "Scope",
    "Steps",
    "TimeoutMemory",
    "Tradeoff",
    "cascade",
    "lru_hit_rates",
    "run_eviction_tradeoff",
    "scopes",
    "steps_from_arrays",
    "steps_from_csv",
    "steps_from_duckdb",
    "steps_from_file",
    "steps_from_rounds_jsonl",
    "steps_from_trace",
    "sweep",
    "timeout_grid",
    "timeout_memory",
]
