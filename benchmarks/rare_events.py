"""Rare deviations by tilted sampling, and h(N) with control variates: precision for the time.

    python benchmarks/rare_events.py [--quick]

For `scm`: P(sup |D_N/N - d| > epsilon) at N = 10^4, from common to 10^-13, with relative error, seconds,
effective sample size, largest weight share, exact bounds, and the plain paths that would give the same error;
P(|tau_C(2) - T_C| > epsilon) beside its exact value; and the worth of control variates in hit indicators.
"""

from __future__ import annotations

import argparse
import time

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import mfmc  # noqa: E402
from mfmc.cores import cores  # noqa: E402
from mfmc.rare_events import rare_passage_probability, rare_sup_probability  # noqa: E402
from mfmc.variance_reduction import controlled_hit_ratio  # noqa: E402

LAMBDA0 = 0.03509557478308677  # T_C = 0.8 mean gaps
CAPACITY, HORIZON = 10_000, 1.6


def scm(capacity: int) -> mfmc.Workload:
    return mfmc.Workload(
        LAMBDA0 * capacity, mfmc.ExponentialGaps(1.0), mfmc.GeometricTurns(0.7, 80),
        mfmc.PoissonBlocks(1.0, 3.0, later_minimum=2),
    )


def rare(samples: int) -> None:
    workload = scm(CAPACITY)
    seconds, paths = timed(
        mfmc.simulate_displacement, jax.random.key(0), workload, CAPACITY, HORIZON, 8 * samples
    )
    plain = paths["whole"].sup
    print(f"plain Monte Carlo: {plain.size} paths in {seconds:.1f} s, compiling included\n")
    print(
        f"{'eps':>5} {'P(sup > eps)':>13} {'rel.err':>8} {'seconds':>8} {'ESS':>6} {'largest':>8}"
        f" {'lower':>9} {'upper':>9} {'plain paths':>12} {'plain estimate':>18}"
    )
    for epsilon in (0.20, 0.30, 0.40, 0.44, 0.46, 0.54):
        seconds, found = timed(
            rare_sup_probability, jax.random.key(1), workload, CAPACITY, epsilon, HORIZON, samples
        )
        needed = 1 / (found.estimate * found.relative_error**2)
        p = np.mean(plain > epsilon)
        seen = f"{p:.3g} +- {np.sqrt(p * (1 - p) / plain.size):.1g}" if p > 0 else "none seen"
        print(
            f"{epsilon:5.2f} {found.estimate:13.4g} {found.relative_error:8.3f} {seconds:8.1f}"
            f" {found.effective_sample_size:6.0f} {found.largest_weight_share:8.4f} {found.lower:9.2g}"
            f" {found.upper:9.2g} {needed:12.2g} {seen:>18}"
        )
    print(f"\n{'eps':>5} {'P(|tau-T_C|>eps)':>17} {'rel.err':>8} {'seconds':>8} {'exact':>11} {'sigmas':>7}")
    for epsilon in (0.10, 0.20, 0.30, 0.40):
        seconds, found = timed(
            rare_passage_probability, jax.random.key(2), workload, CAPACITY, epsilon, 2, samples
        )
        off = (found.estimate - found.lower) / found.standard_error
        print(
            f"{epsilon:5.2f} {found.estimate:17.5g} {found.relative_error:8.3f} {seconds:8.1f}"
            f" {found.lower:11.5g} {off:7.2f}"
        )


def controls(replications: int) -> None:
    print(
        f"\n{'N':>6} {'h(N)':>9} {'std.err':>8} {'sigmas':>7}   variance: {'indicator':>9}"
        f" {'conditional':>11} {'controlled':>10} {'ratio':>7} {'cost-adjusted gain':>19}"
    )
    for capacity in (1000, 10_000):
        workload = scm(capacity)
        found = controlled_hit_ratio(jax.random.key(3), workload, capacity, replications)
        off = (found.estimate - mfmc.hit_ratio_exact(workload, capacity)) / found.standard_error
        print(
            f"{capacity:6} {found.estimate:9.6f} {found.standard_error:8.1e} {off:7.2f}             "
            f" {found.indicator_variance:9.3g} {found.conditional_variance:11.3g}"
            f" {found.controlled_variance:10.3g}"
            f" {found.indicator_variance / found.controlled_variance:7.0f} {found.gain:19.0f}"
        )


def timed(function, *arguments) -> tuple[float, object]:
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def main() -> None:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--quick", action="store_true", help="an eighth of the paths")
    quick = parser.parse_args().quick
    used = cores()
    print(f"jax {jax.__version__}, {jax.default_backend()}, {used} cores, numpy {np.__version__}")
    rare(1000 if quick else 8000)
    controls(512 if quick else 4096)


if __name__ == "__main__":
    main()
