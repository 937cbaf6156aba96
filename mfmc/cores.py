"""Long loops on every core: numpy, duckdb and compiled loops let go of the interpreter inside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: Bounds the threads of one process, here as in NumPy's libraries; runtime.threads sets it for a run.
THREADS_VARIABLE = "OMP_NUM_THREADS"
CHUNK_ROWS = 1 << 17  # rows at once: what is computed from them stays in a core's cache


def cores() -> int:
    """Cores that this process may use: those the system lets it have, fewer where OMP_NUM_THREADS says so."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get(THREADS_VARIABLE, "").split(",")[0].strip()  # one number for each level of nesting
    return min(allowed, max(int(wanted), 1)) if wanted.isdecimal() else allowed


def on_cores(function: Callable, tasks: Iterable) -> list[Any]:
    """[function(task) for task in tasks], as many at once as this process may use cores."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, tasks))


def chunks(rows: int, size: int = CHUNK_ROWS) -> Iterator[slice]:
    """Slices that cover 0 .. rows - 1."""
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))
