"""Time the idle time-out study: `python benchmarks/eviction.py [steps]`, 1,000,000 by default.

Prints the best of three for each part, on steps drawn like those of coding agents: sessions of 50 steps,
lognormal gaps, two providers and two kinds of step, so that five scopes are swept.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from mfmc.eviction import (
    Steps,
    cascade,
    lru_hit_rates,
    steps_from_arrays,
    sweep,
    timeout_grid,
    timeout_memory,
)

LENGTH = 50


def draw(count: int) -> Steps:
    """A table of about `count` steps."""
    rng = np.random.default_rng(0)
    sessions = count // LENGTH
    shape = (sessions, LENGTH)
    output = rng.geometric(1 / 400, shape)
    new = rng.geometric(1 / 1500, shape)
    total = np.cumsum(new + np.roll(output, 1, axis=1), axis=1)
    gap = rng.lognormal(2.5, 1.8, shape)
    gap[:, 0] = np.nan
    count = total.size
    return steps_from_arrays(
        np.repeat(np.arange(sessions), LENGTH),
        total.ravel(),
        output.ravel(),
        gap.ravel(),
        prefix=np.maximum(total - new - 500, 0).ravel(),
        generation=rng.gamma(2.0, 5.0, count),
        provider=np.where(np.arange(count) < count // 2, "x", "y"),
        kind=np.where(rng.random(count) < 0.15, "human", "tool"),
    )


def best(run: Callable[[Steps], object], count: int) -> float:
    """Least seconds of three runs, each on a table of its own: a table keeps what was derived from it."""
    seconds = []
    for _ in range(3):
        steps = draw(count)
        start = time.perf_counter()
        run(steps)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    grid = timeout_grid()
    rate = 0.1
    parts: dict[str, Callable[[Steps], object]] = {
        f"sweep of {len(grid)} time-outs in 5 scopes": sweep,
        "memory of every time-out": lambda steps: timeout_memory(steps, grid, rate),
        "cascade": lambda steps: cascade(steps, grid),
        "LRU replay at every memory, 2 replications": lambda steps: lru_hit_rates(
            steps, timeout_memory(steps, grid, rate).idle, rate, warm_up=2 * grid[-1], replications=2
        ),
    }
    for name, run in parts.items():
        seconds = best(run, count)
        print(f"{name}, {count:,} steps: {seconds:.3f} s, {count / seconds / 1e6:.2f} M steps/s")


if __name__ == "__main__":
    main()
