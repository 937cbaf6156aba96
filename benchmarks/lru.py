"""LRU throughput on one stream of growing conversations: this package against libCacheSim, and its scaling.

    python benchmarks/lru.py [--accesses 4000000] [--scale 10] [--long 100000000]

``scale`` multiplies the paper's server in both arrival rate (1.5 conversations a second) and memory (2,275
blocks).

The peer is LRU of the PyPI package libcachesim (extra `bench`). It keeps an object's first size, so its hit
ratio is not comparable; its work per request is. All rows of the first table run in turn, several rounds,
and the best round counts: a ratio compares like with like even where other programs use the machine. Links
between accesses are made once per stream and timed on their own, as is the time that libcachesim's reader
needs.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np

from mfmc.cores import cores
from mfmc.lru import (
    AccessStream,
    accesses_from_arrays,
    hit_ratio_curve,
    hit_ratio_curve_of_chunks,
    replay_lru,
)

CONTINUATION, MEAN_GAP, RATE, CAPACITY = 0.7, 135.0, 1.5, 2275


def turns(rng: np.random.Generator, rate: float, begin: float, end: float, first_id: int) -> tuple[np.ndarray, ...]:
    """Time, conversation, history and new blocks of every turn of the conversations that arrive in [begin,
    end).
    """
    count = rng.poisson(rate * (end - begin))
    lengths = np.minimum(rng.geometric(1 - CONTINUATION, count), 80)
    owner = np.repeat(np.arange(count), lengths)
    starts = np.cumsum(lengths) - lengths
    steps = rng.exponential(MEAN_GAP, len(owner))
    steps[starts] = rng.uniform(begin, end, count)
    new = 2 + rng.poisson(3.0, len(owner))
    new[starts] = 1 + rng.poisson(1.0, count)
    clock, history = np.cumsum(steps), np.cumsum(new)
    clock -= np.repeat(clock[starts] - steps[starts], lengths)
    history -= np.repeat(history[starts] - new[starts], lengths)
    return clock, owner + first_id, history, new


def chunks(accesses: int, rows: int, scale: float, seed: int = 0) -> Iterator[AccessStream]:
    """A stream of about ``accesses`` accesses in chunks of about ``rows``, never in memory as a whole."""
    rng = np.random.default_rng(seed)
    rate = scale * RATE
    span = rows * (1 - CONTINUATION) / rate
    later = tuple(np.zeros(0, kind) for kind in (float, int, int, int))
    first_id = 0
    for number in range(max(round(accesses / rows), 1)):
        fresh = turns(rng, rate, number * span, (number + 1) * span, first_id)
        first_id = int(fresh[1][-1]) + 1
        table = tuple(np.concatenate(columns) for columns in zip(later, fresh, strict=True))
        now = table[0] < (number + 1) * span
        later = tuple(column[~now] for column in table)
        clock, owner, history, new = (column[now] for column in table)
        yield accesses_from_arrays(clock, owner, history=history, new=new)


def best(rounds: int, jobs: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of each job, the best of some rounds in turn; one round before, to
    compile.
    """
    seconds = {name: (np.inf, np.inf) for name in jobs}
    for round_number in range(rounds + 1):
        for name, job in jobs.items():
            wall, processor = time.perf_counter(), time.process_time()
            job()
            took = time.perf_counter() - wall, time.process_time() - processor
            if round_number:
                seconds[name] = min(seconds[name][0], took[0]), min(seconds[name][1], took[1])
    return seconds


def libcachesim_lru(stream: AccessStream, capacity: int, folder: str) -> Callable[[], object]:
    """The same requests to libcachesim's LRU, from its fastest trace format."""
    from libcachesim import LRU, ReaderInitParam, TraceReader, TraceType

    layout = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records = np.zeros(len(stream), layout)
    records["time"], records["id"], records["size"] = stream.time, stream.conversation, stream.history
    path = Path(folder) / "stream.oracleGeneral"
    records.tofile(path)

    def run() -> float:
        reader = TraceReader(str(path), TraceType.ORACLE_GENERAL_TRACE, ReaderInitParam(ignore_obj_size=False))
        return LRU(capacity).process_trace(reader)[0]

    return run


def compare(accesses: int, scale: int, rounds: int) -> dict[str, float]:
    """Throughputs on one stream, in accesses per second."""
    capacity = scale * CAPACITY
    (stream,) = chunks(accesses, accesses, scale)
    arrays = stream.moves()
    begin = time.perf_counter()
    accesses_from_arrays(stream.time, stream.conversation, history=stream.history)
    linking = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        seconds = best(
            rounds,
            {
                "libcachesim LRU, one capacity": libcachesim_lru(stream, capacity, folder),
                "numba, one capacity": lambda: replay_lru(stream, capacity, backend="numba").hit_ratio,
                "numba, every capacity": lambda: hit_ratio_curve(stream, backend="numba"),
                "XLA, one capacity": lambda: replay_lru(stream, capacity, backend="xla").hit_ratio,
                "XLA, every capacity": lambda: hit_ratio_curve(stream, backend="xla"),
            },
        )
    print(f"{len(stream)} accesses, capacity {capacity}, {cores()} cores, {jax.default_backend()}")
    peer = seconds["libcachesim LRU, one capacity"]
    for name, (wall, processor) in seconds.items():
        print(
            f"{name:32s} {len(stream) / wall / 1e6:8.1f} M accesses/s, {peer[0] / wall:6.1f} x libcachesim; "
            f"per core {len(stream) / processor / 1e6:8.1f} M/s, {peer[1] / processor:6.1f} x"
        )
    print(f"{'links, once per stream':32s} {len(stream) / linking / 1e6:8.1f} M accesses/s")
    distinct = {id(array): array.itemsize for array in arrays}
    print(f"bytes read per access by every kernel: {sum(distinct.values())}")
    return {name: len(stream) / wall for name, (wall, _) in seconds.items()}


def grow(largest: int, scale: int) -> list[dict[str, float]]:
    """The whole curve of chunked streams of 10^6 accesses and up: seconds, slope in log-log, peak memory."""
    rows, capacity = [], scale * CAPACITY
    hit_ratio_curve_of_chunks(chunks(10**5, 10**5, scale), capacity, backend="numba")  # compiles
    accesses = 10**6
    while accesses <= largest:
        making = 0.0

        def timed(source: Iterator[AccessStream]) -> Iterator[AccessStream]:
            nonlocal making
            while True:
                begin = time.perf_counter()
                chunk = next(source, None)
                making += time.perf_counter() - begin
                if chunk is None:
                    return
                yield chunk

        begin = time.perf_counter()
        curve = hit_ratio_curve_of_chunks(timed(chunks(accesses, 10**6, scale)), capacity, backend="numba")
        seconds = time.perf_counter() - begin - making
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append({"accesses": curve.accesses, "seconds": seconds, "peak_gib": peak})
        speed = curve.accesses / seconds / 1e6
        print(
            f"{curve.accesses:>11d} accesses {seconds:8.2f} s {speed:6.1f} M accesses/s, "
            f"peak memory {peak:.2f} GiB, h({capacity}) = {float(curve.hit_ratio(capacity)):.5f}"
        )
        accesses *= 10
    if len(rows) > 1:
        n, s = (np.log([row[key] for row in rows]) for key in ("accesses", "seconds"))
        print(f"slope of log time over log accesses: {np.polyfit(n, s, 1)[0]:.3f}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accesses", type=int, default=4_000_000, help="of the stream that all are compared on")
    parser.add_argument("--scale", type=int, default=10, help="of the paper's rate and memory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", type=int, default=100_000_000, help="accesses of the longest chunked stream")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    figures = {
        "throughput": compare(arguments.accesses, arguments.scale, arguments.rounds),
        "scaling": grow(arguments.long, arguments.scale),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
