"""What a sweep costs beside its computations: processes and jobs, compiling, and sharding over devices.

    python benchmarks/sweeps.py [--quick]

1. Jobs: a multirun of k trivial jobs against one of a single job, each in a new process: the start of a process, and
   the cost of every further job (configuration, checks, writing and collecting the result).
2. Compiling: displacement paths of one study with an empty folder of compiled programs, again with the folder filled,
   and at another capacity whose programs have the same sizes. Programs are counted where XLA compiles them
   (jax.monitoring), less those read from the folder. Then how many a scaling sweep of N = 10^2 .. 10^6 compiles.
3. Weak scaling: replications in proportion to 1, 2, 4 and 8 simulated CPU devices. Devices of one CPU share its cores:
   beyond these this measures what sharding costs (1 is free), not a speed-up. Two devices of two cores are set against
   the default too, one device with a chunk in flight on each core.

Runs alternate, ratios are taken within a round; medians of five rounds (--quick: one).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mfmc.cores import THREADS_VARIABLE, cores

JOBS = 20
DEVICES = (1, 2, 4, 8)
TRIVIAL = ["study=mean_field", "workload=scm", "capacities=[100]", "plots=false", "-m"]
PATHS = [
    "study=displacement", "workload=scm", "accountings=[whole]", "times=[1.0]", "epsilons=[0.1]", "plots=false",
    "runtime.replications=200",
]  # fmt: skip


def process(arguments: list[str], folder: Path, devices: int | None = None) -> tuple[float, dict[str, Any]]:
    """Seconds of this file in a new process with these arguments, and the JSON that it ends with."""
    flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", os.environ.get("XLA_FLAGS", ""))
    if devices:
        flags += f" --xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "XDG_CACHE_HOME": str(folder / "cache"), "JAX_PLATFORMS": "cpu"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--child", *arguments], env=environment, cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - start, json.loads(done.stdout.splitlines()[-1])


# --- in the new process -------------------------------------------------------------------------------------


def run_command(overrides: list[str]) -> dict[str, Any]:
    """`mfmc` with these overrides: programs compiled and read from the folder, seconds of compiling."""
    from jax import monitoring

    found: dict[str, Any] = {"requests": 0, "read": 0, "paths": 0, "seconds": 0.0}

    def duration(event: str, seconds: float, **facts: Any) -> None:
        if event.endswith("/backend_compile_duration"):  # reading a program from the folder is timed by it as well
            found["requests"] += 1
            found["paths"] += facts.get("fun_name") == "jit(_replicate)"
            found["seconds"] += seconds

    def happened(event: str, **_: Any) -> None:
        found["read"] += event == "/jax/compilation_cache/cache_hits"

    monitoring.register_event_duration_secs_listener(duration)
    monitoring.register_event_listener(happened)
    from mfmc.cli import main

    if main(overrides) != 0:
        raise RuntimeError(f"mfmc {' '.join(overrides)} failed")
    return found


def run_sharded(devices: int, replications: int) -> dict[str, Any]:
    """Seconds of `replications` paths at N = 10^5 on so many devices, the programs being compiled."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from mfmc.config.compose import configured
    from mfmc.displacement import simulate_displacement
    from mfmc.replication import Replicator
    from mfmc.studies.context import Context

    context = Context(configured(["workload=scm"]))
    workload = context.workload_at(100_000)
    used = tuple(jax.devices()[:devices])
    if jax.device_count() > 1:
        os.environ[THREADS_VARIABLE] = "1"  # one chunk at a time, as the devices together have one
    replicator = Replicator(devices=used if devices > 1 else ())

    def paths(seed: int) -> float:
        start = time.perf_counter()
        simulate_displacement(
            jax.random.key(seed), workload, 100_000, replications=replications, times=(0.5,), replicator=replicator
        )
        return time.perf_counter() - start

    paths(0)
    return {"seconds": min(paths(seed) for seed in (1, 2, 3))}


# --- what is measured ---------------------------------------------------------------------------------------


def jobs(rounds: int) -> None:
    one, many = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            seeds = ",".join(str(seed) for seed in range(JOBS))
            one.append(process(["mfmc", *TRIVIAL, f"runtime.seed={number}"], Path(folder))[0])
            many.append(process(["mfmc", *TRIVIAL, f"runtime.seed={seeds}"], Path(folder))[0])
    each = statistics.median((b - a) / (JOBS - 1) for a, b in zip(one, many))
    print(f"a sweep of one trivial job: {statistics.median(one):.2f} s; every further job {each:.3f} s")
    print(f"  {JOBS} jobs cost {statistics.median(b / a for a, b in zip(one, many)):.2f} times one")


def compiling(rounds: int) -> None:
    cold, warm, other = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(process(["mfmc", *PATHS, "capacities=[1000,10000]"], Path(folder)))
            warm.append(process(["mfmc", *PATHS, "capacities=[1000,10000]", "runtime.seed=1"], Path(folder)))
            other.append(process(["mfmc", *PATHS, "capacities=[1030,10300]"], Path(folder)))
    print("study=displacement at two capacities, 200 replications")
    for name, runs in (("empty folder", cold), ("filled folder", warm), ("filled, capacities 3% larger", other)):
        facts = runs[-1][1]
        ratio = statistics.median(a / b for (a, _), (b, _) in zip(cold, runs))
        print(
            f"  {name:<29} {statistics.median(seconds for seconds, _ in runs):6.2f} s, {ratio:.2f} times as fast;"
            f" compiled {facts['requests'] - facts['read']}, read {facts['read']},"
            f" {statistics.median(found['seconds'] for _, found in runs):.2f} s"
        )
    with tempfile.TemporaryDirectory() as folder:
        sweep = ["capacities=[100,1000,10000,100000,1000000]", "runtime.replications=32", "-m", "runtime.seed=1,2"]
        _, facts = process(["mfmc", *PATHS, *sweep], Path(folder))
    print(
        f"  a scaling sweep, N = 10^2 .. 10^6 and two seeds, compiles {facts['paths']} programs for paths and"
        f" {facts['requests'] - facts['paths'] - facts['read']} small ones"
    )


def weak_scaling(rounds: int, per_device: int) -> None:
    print(f"weak scaling at N = 10^5, {per_device} replications a device, {cores()} cores")
    rates: dict[Any, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for devices in DEVICES:
                total = per_device * devices
                found = process(["shard", str(devices), str(total)], Path(folder), max(devices, 2))[1]
                rates.setdefault(devices, []).append(total / found["seconds"])
            total = per_device * 2
            found = process(["shard", "1", str(total)], Path(folder), 1)[1]
            rates.setdefault("default", []).append(total / found["seconds"])
    for devices, found in rates.items():
        name = "one, a chunk on each core" if devices == "default" else f"{devices}"
        ratio = statistics.median(a / b for a, b in zip(found, rates[1]))
        print(f"  devices {name:<26} {statistics.median(found):8.0f} replications/s, {ratio:.2f} times one device")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, fewer replications")
    quick = parser.parse_args().quick
    rounds = 1 if quick else 5
    jobs(rounds)
    compiling(rounds)
    weak_scaling(rounds, 64 if quick else 256)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        what, *rest = sys.argv[2:]
        print(json.dumps(run_command(rest) if what == "mfmc" else run_sharded(*map(int, rest))))
    else:
        main()
