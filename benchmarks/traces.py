"""A trace of many turns read, validated and estimated, against the time that duckdb alone needs to scan and group it.

    python benchmarks/traces.py [turns]        (10,000,000 by default)

Writes one synthetic trace (interleaved conversations in time order, number ids) as Parquet and as CSV into a
temporary folder, then runs by turns, each in a process of its own that has done the same on a small trace
before (imports and compiled programs): duckdb's scan with a GROUP BY conversation, `read_trace` +
`validate_trace`, and these + a `TraceEstimator` with its estimate of every accounting, two gap laws and 400
bootstrap resamples for the recommended one. Prints medians of wall and processor seconds, their ratio and the
peak memory of the processes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np

ROUNDS = 3
SMALL = 20_000  # turns of the trace that warms a process up
CAPACITY = 100_000  # blocks
GROUP = (
    "SELECT conversation, count(*), min(submitted_at), max(submitted_at), sum(input_tokens),"
    " sum(response_tokens) FROM {} GROUP BY conversation"
)


def write(turns: int, folder: Path) -> list[Path]:
    """Append-only conversations with geometric M, exponential gaps and Poisson arrivals."""
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    lengths = rng.geometric(0.3, size=turns // 3 + 1000)
    conversation = np.repeat(np.arange(lengths.size), lengths)[:turns]
    first = np.diff(conversation, prepend=-1) != 0
    prompt, response = rng.integers(1, 400, turns), rng.integers(1, 500, turns)
    content = np.cumsum(prompt + response)
    total = content - response - (content - prompt - response)[first][np.cumsum(first) - 1]
    gap = np.where(first, 0.0, rng.exponential(120.0, turns))
    clock = np.cumsum(gap)
    start = np.cumsum(rng.exponential(1.0, int(first.sum())))
    time_ = clock + (start - clock[first])[np.cumsum(first) - 1]
    order = np.argsort(time_, kind="stable")
    columns = {
        "conversation": conversation,
        "submitted_at": time_,
        "input_tokens": total,
        "response_tokens": response,
    }
    table = pa.table({name: values[order] for name, values in columns.items()})
    pq.write_table(table, folder / "trace.parquet")
    duckdb.sql(f"COPY (FROM '{folder}/trace.parquet') TO '{folder}/trace.csv' (HEADER)")
    return [folder / "trace.parquet", folder / "trace.csv"]


def group(path: Path) -> int:
    import duckdb

    return len(duckdb.sql(GROUP.format(f"'{path}'")).fetchnumpy()["conversation"])


def read_and_validate(path: Path) -> int:
    from mfmc.traces import read_trace, validate_trace

    trace = read_trace(path)
    validate_trace(trace)
    return int(trace.lengths.size)


def read_validate_and_estimate(path: Path) -> int:
    from mfmc.accounting import ACCOUNTINGS
    from mfmc.estimator import TraceEstimator
    from mfmc.theory.mean_field import hit_ratio
    from mfmc.traces import read_trace, validate_trace

    trace = read_trace(path)
    validate_trace(trace)
    estimator = TraceEstimator(trace, 128)
    found = estimator.estimate(CAPACITY)
    assert found.low is not None and found.low < found.hit_ratio < found.high
    for law in estimator.laws:
        for accounting in ACCOUNTINGS:
            assert 0 < hit_ratio(estimator.workload(law), CAPACITY, accounting) < 1
    return int(estimator.sums.turns.size)


BASE = "duckdb scan and group"
WORK: dict[str, Callable[[Path], int]] = {
    BASE: group,
    "read and validate": read_and_validate,
    "read, validate and estimate": read_validate_and_estimate,
}


def peak_memory() -> float:
    """GiB that this process has held at most (Linux; getrusage would count a spawned process's parent)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 2**20


def measure(name: str, path: Path, small: Path) -> tuple[float, float, float, int]:
    """(wall seconds, processor seconds, peak GiB, conversations)."""
    WORK[name](small)
    wall, processor = time.perf_counter(), time.process_time()
    count = WORK[name](path)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return wall, processor, peak_memory(), count


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        for path, small in zip(write(turns, Path(folder)), write(SMALL, Path(other))):
            found: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in WORK}
            for _ in range(ROUNDS):
                for name in WORK:
                    with get_context("spawn").Pool(1) as pool:
                        found[name].append(pool.apply(measure, (name, path, small)))
            print(f"{turns:,} turns, {path.suffix[1:]}, {path.stat().st_size / 2**20:,.0f} MiB")
            wall_base, cpu_base = (statistics.median(run[i] for run in found[BASE]) for i in (0, 1))
            for name, runs in found.items():
                wall, cpu, memory = (statistics.median(run[i] for run in runs) for i in (0, 1, 2))
                print(
                    f"  {name:40s} {wall:7.2f} s wall ({wall / wall_base:4.2f} x)  {cpu:7.2f} s processor"
                    f" ({cpu / cpu_base:4.2f} x)  peak {memory:.2f} GiB"
                )
            assert len({run[3] for runs in found.values() for run in runs}) == 1, "conversations disagree"


if __name__ == "__main__":
    main()
