"""mfmc's displacement paths against the best hand-vectorised NumPy version of the same statistics, in one run.

    python benchmarks/displacement.py [--quick]

Prints, for the `scm` workload at N = 10^4 and 10^5, replications/s and conversations/s of both and their ratio (the two
alternate, medians of five), the agreement of what they compute, the growth of the cost per replication with N, and
the peak memory at N = 10^6. NumPy runs on one thread; how it does with a process per core is printed beside it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from numpy_displacement import NumpySampler  # noqa: E402

import mfmc  # noqa: E402
from mfmc.cores import cores  # noqa: E402

LAMBDA0 = 0.03509557478308677  # T_C = 0.8 mean gaps
HORIZON, TIMES, TURN = 1.6, (0.4, 0.8), 2


def scm(capacity: int) -> mfmc.Workload:
    return mfmc.Workload(
        LAMBDA0 * capacity,
        mfmc.ExponentialGaps(1.0),
        mfmc.GeometricTurns(0.7, 80),
        mfmc.PoissonBlocks(1.0, 3.0, later_minimum=2),
    )


def conversations(workload: mfmc.Workload) -> float:
    """Expected number per replication."""
    return workload.arrival_rate * (
        HORIZON + float(workload.gaps.residence(HORIZON)) * (workload.profile().mean_turns - 1)
    )


def run_mfmc(capacity: int, replications: int, seed: int) -> mfmc.DisplacementPaths:
    return mfmc.simulate_displacement(
        jax.random.key(seed),
        scm(capacity),
        capacity,
        HORIZON,
        replications,
        times=TIMES,
        turns=(TURN,),
        length=HORIZON,
    )["whole"]


def run_numpy(capacity: int, replications: int, seed: int, batch: int) -> list:
    sampler, rng = NumpySampler(scm(capacity), capacity, HORIZON, np.array(TIMES), TURN), np.random.default_rng(seed)
    return [sampler.batch(rng, min(batch, replications - i)) for i in range(0, replications, batch)]


def numpy_on_every_core(pool: ProcessPoolExecutor, cores: int, capacity: int, replications: int, seed: int, batch: int):
    share = replications // cores
    jobs = [pool.submit(_discard, capacity, share, seed * 100 + i, batch) for i in range(cores)]
    return [job.result() for job in jobs]


def _discard(capacity: int, replications: int, seed: int, batch: int) -> None:
    run_numpy(capacity, replications, seed, batch)


def seconds(function, *arguments) -> tuple[float, object]:
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def compare(capacity: int, replications: int, repeats: int, pool: ProcessPoolExecutor, cores: int) -> float:
    batch = max(1, 65536 // int(conversations(scm(capacity))))  # about 1 MiB of events: stays in cache
    run_mfmc(capacity, replications, 0)  # compile
    ours, theirs, parallel = [], [], []
    for seed in range(1, repeats + 1):
        t, paths = seconds(run_mfmc, capacity, replications, seed)
        ours.append(t)
        t, parts = seconds(run_numpy, capacity, replications, seed, batch)
        theirs.append(t)
        parallel.append(seconds(numpy_on_every_core, pool, cores, capacity, replications, seed, batch)[0])
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    against_all = statistics.median(b / a for a, b in zip(ours, parallel))
    per = conversations(scm(capacity))
    a, b = statistics.median(ours), statistics.median(theirs)
    print(
        f"N = {capacity:>9,}   mfmc {replications / a:10,.0f} replications/s"
        f" {per * replications / a / 1e6:7.1f} M conversations/s"
    )
    print(
        f"               numpy {replications / b:10,.0f} replications/s"
        f" {per * replications / b / 1e6:7.1f} M conversations/s"
    )
    print(f"               ratio {ratio:.2f} (numpy on {cores} processes: {against_all:.2f})")
    sup = np.concatenate([part.sup for part in parts])
    z = (paths.sup.mean() - sup.mean()) / np.hypot(paths.sup.std(), sup.std()) * np.sqrt(replications)
    passage = np.concatenate([part.passage for part in parts])
    z2 = (paths.passage.mean() - passage.mean()) / np.hypot(paths.passage.std(), passage.std()) * np.sqrt(replications)
    print(
        f"               mean sup {paths.sup.mean():.6f} and {sup.mean():.6f} (z = {z:+.2f}),"
        f" mean tau {paths.passage.mean():.6f}"
        f" and {passage.mean():.6f} (z = {z2:+.2f})"
    )
    return a / replications


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the replications, one repeat")
    quick = parser.parse_args().quick
    used = cores()
    print(f"jax {jax.__version__}, {jax.default_backend()}, {used} cores, numpy {np.__version__}")
    scale, repeats = (10, 1) if quick else (1, 5)
    cost = {}
    with ProcessPoolExecutor(used, mp_context=get_context("spawn")) as pool:
        for capacity, replications in ((10_000, 8192), (100_000, 1024)):
            cost[capacity] = compare(capacity, replications // scale, repeats, pool, used)
    replications = 64 // (4 if quick else 1)
    run_mfmc(1_000_000, replications, 0)
    cost[1_000_000] = seconds(run_mfmc, 1_000_000, replications, 1)[0] / replications
    n = np.array(list(cost), dtype=float)
    slope = np.polyfit(np.log(n), np.log(list(cost.values())), 1)[0]
    print(
        "cost per replication: "
        + ", ".join(f"{c * 1e3:.3g} ms at N = {k:,}" for k, c in cost.items())
        + f"; slope {slope:.3f} in N"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
