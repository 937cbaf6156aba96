"""Cost of the exact hit ratio against N, and what replay would pay for the same precision.

    python benchmarks/exact.py [--accesses 2000000]

For the oracle's `scm` workload and the paper's `sharegpt`: seconds for h(N), N = 10^2 .. 10^12, best of three
after the first call, and its distance from the refined formula times N^2. Replay: one stream at N = 10^4,
replayed once for its speed and its standard error (32 batches); the error falls as the root of the accesses,
so the seconds for an error of 1e-9 follow. Then how loose each bound of P(|D_N(T_C)/N - d| > epsilon) and of
|h(N) - h_inf| is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax

jax.config.update("jax_enable_x64", True)

import mfmc  # noqa: E402
from mfmc.lru import replay_lru, sample_accesses  # noqa: E402
from mfmc.lru.estimates import batch_means  # noqa: E402
from mfmc.theory.best_bound import best_hit_ratio_bound  # noqa: E402
from mfmc.theory.bounds import pointwise_bound  # noqa: E402
from mfmc.theory.exact_tails import displacement_deviation  # noqa: E402
from mfmc.theory.refined import hit_ratio_refined  # noqa: E402
from mfmc.theory.sharp_bounds import pointwise_chebyshev, pointwise_chernoff  # noqa: E402

PRECISION = 1e-9
EPSILON = 0.1


def scm(capacity: float) -> mfmc.Workload:
    """The oracle's first case: T_C is 0.8 mean gaps."""
    return mfmc.Workload(
        0.03509557478308677 * capacity,
        mfmc.ExponentialGaps(1.0),
        mfmc.GeometricTurns(0.7, 80),
        mfmc.PoissonBlocks(1.0, 3.0, later_minimum=2),
    )


def sharegpt(capacity: float) -> mfmc.Workload:
    """The laws of conf/workload/sharegpt.yaml, 1.5 conversations a second at 2,275 blocks."""
    return mfmc.Workload(
        1.5 * capacity / 2275,
        mfmc.ExponentialGaps(135.0),
        mfmc.NegativeBinomialTurns(4.4695, 7.9687, 2, 37),
        mfmc.PoissonBlocks(0.53, 5.1692, length_power=-0.8839),
    )


WORKLOADS = {"scm": scm, "sharegpt": sharegpt}


def best_of(job: Callable[[], float], rounds: int = 3) -> tuple[float, float]:
    """The least of some wall times in seconds after a first call, and the value."""
    value, least = job(), float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        value = job()
        least = min(least, time.perf_counter() - start)
    return least, value


def costs(name: str, build: Callable[[float], mfmc.Workload]) -> float:
    """The table of one workload; returns the seconds at N = 10^4, whole content."""
    print(f"\n{name}: h(N), exact")
    print(f"{'N':>7} {'accounting':>10} {'ms':>8} {'h(N)':>14} {'(exact - refined) N^2':>22}")
    found = {}
    for power in range(2, 13):
        capacity = 10**power
        workload = build(capacity)
        for accounting in ("whole", "practical"):
            seconds, exact = best_of(
                lambda w=workload, n=capacity, a=accounting: mfmc.hit_ratio_exact(w, n, a)
            )
            found[power, accounting] = seconds
            # Past 10^6 the rest is below the rounding of h itself.
            rest = (exact - hit_ratio_refined(workload, capacity, accounting)) * capacity**2
            shown = f"{rest:22.4f}" if power <= 5 else f"{'':>22}"
            print(f"  10^{power:<3} {accounting:>10} {seconds * 1e3:8.2f} {exact:14.10f} {shown}")
    return found[4, "whole"]


def replay(name: str, build: Callable[[float], mfmc.Workload], accesses: int, exact_seconds: float) -> None:
    capacity = 10**4
    workload = build(capacity)
    conversations = accesses / workload.profile().mean_turns
    stream = sample_accesses(jax.random.key(0), workload, capacity, conversations)
    seconds, _ = best_of(lambda: replay_lru(stream, capacity).hit_ratio)
    result = batch_means(replay_lru(stream, capacity))
    error = float(result.standard_error)
    needed = seconds * (error / PRECISION) ** 2
    exact = mfmc.hit_ratio_exact(workload, capacity)
    print(
        f"\n{name}: replay of {len(stream.time):,} accesses at N=10^4 in {seconds:.3f} s:"
        f" {float(result.value):.5f} +- {error:.1g}, exact {exact:.10f}"
        f"\n  for +- {PRECISION:g}: {needed:.3g} s of replay ({needed / 3.15e7:.2g} years),"
        f" {needed / exact_seconds:.2g} times the exact value's {exact_seconds * 1e3:.1f} ms"
    )


def looseness(name: str, build: Callable[[float], mfmc.Workload]) -> None:
    print(f"\n{name}: times above the exact value (deviation of D_N(T_C)/N by {EPSILON}; |h(N) - h_inf|)")
    print(f"{'N':>7} {'exact':>10} {'(16)':>10} {'Chebyshev':>10} {'Chernoff':>10} {'(26) at best':>13}")
    for power in range(2, 8):
        capacity = 10**power
        workload = build(capacity)
        center = mfmc.characteristic_time(workload, capacity)
        exact = displacement_deviation(workload, capacity, EPSILON, center)
        bounds = (
            pointwise_bound(workload, capacity, EPSILON, center),
            pointwise_chebyshev(workload, capacity, EPSILON, center),
            pointwise_chernoff(workload, capacity, EPSILON, center),
        )
        distance = abs(mfmc.hit_ratio_exact(workload, capacity) - mfmc.hit_ratio(workload, capacity))
        best = best_hit_ratio_bound(workload, capacity).value / distance
        shown = " ".join(f"{bound / exact:10.3g}" if exact > 0 else f"{'-':>10}" for bound in bounds)
        print(f"  10^{power:<3} {exact:10.3g} {shown} {best:13.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accesses", type=int, default=2_000_000)
    arguments = parser.parse_args()
    for name, build in WORKLOADS.items():
        seconds = costs(name, build)
        replay(name, build, arguments.accesses, seconds)
        looseness(name, build)


if __name__ == "__main__":
    main()
