"""Long columns on every core: numpy and duckdb let go of the interpreter inside their loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

CHUNK_ROWS = 1 << 17  # rows at once: what is computed from them stays in a core's cache


def on_cores(function: Callable, tasks: Iterable) -> list[Any]:
    """[function(task) for task in tasks], as many at once as this process may use cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(function, tasks))


def chunks(rows: int, size: int = CHUNK_ROWS) -> Iterator[slice]:
    """Slices that cover 0 .. rows - 1."""
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))
