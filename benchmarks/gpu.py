"""GPU against CPU, displacement paths and LRU: equal results, speed, share of the copy bandwidth. Run by gpu.sh.

On a machine without a GPU it compares the CPU with itself, which tests the script.
"""

from __future__ import annotations

import argparse
import time

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from displacement import HORIZON, LAMBDA0, TIMES, scm  # noqa: E402
from lru import CAPACITY, chunks  # noqa: E402

import mfmc  # noqa: E402
from mfmc.conversations import window  # noqa: E402
from mfmc.lru import AccessStream, hit_ratio_curve, lanes, replay_lru  # noqa: E402
from mfmc.lru.reference import served_by_reference  # noqa: E402
from mfmc.lru.replay import EVICTIONS  # noqa: E402


def lognormal(capacity: int) -> mfmc.Workload:
    return mfmc.Workload(
        LAMBDA0 * capacity,
        mfmc.LognormalGaps(1.0, 1.0),
        mfmc.NegativeBinomialTurns(4.5, 8.0, 2, 40),
        mfmc.GeometricBlocks(3.0, 4.0),
    )


def paths(workload, capacity: int, replications: int, device, seed: int = 0, accountings=("whole",)):
    replicator = mfmc.Replicator(memory_gib=16.0 if device.platform != "cpu" else 2.0, devices=(device,))
    return mfmc.simulate_displacement(
        jax.random.key(seed),
        workload,
        capacity,
        HORIZON,
        replications,
        times=TIMES,
        turns=(1, 2),
        accountings=accountings,
        length=HORIZON,
        replicator=replicator,
    )


def parity(accelerator, cpu) -> bool:
    """Counts must agree bit for bit; times and sums of doubles to rounding."""
    good = True
    for name, build in (("scm", scm), ("lognormal", lognormal)):
        for capacity, replications in ((300, 400), (20_000, 60)):
            ours = paths(build(capacity), capacity, replications, accelerator, accountings=("whole", "practical"))
            theirs = paths(build(capacity), capacity, replications, cpu, accountings=("whole", "practical"))
            for accounting in ours:
                a, b = ours[accounting], theirs[accounting]
                counts = np.array_equal(a.values, b.values)
                finite = np.isfinite(b.passage)
                off = max(
                    np.max(np.abs(a.sup / b.sup - 1)),
                    np.max(np.abs(a.passage[finite] / np.maximum(b.passage[finite], 1e-300) - 1), initial=0.0),
                    np.max(np.abs(a.reuse_given_path / b.reuse_given_path - 1)),
                )
                fine = counts and off < 1e-10 and np.array_equal(finite, np.isfinite(a.passage))
                good &= bool(fine)
                print(
                    f"parity {name} N = {capacity:>6,} {accounting:<9} counts {'equal' if counts else 'DIFFER'},"
                    f" doubles within {off:.1e}: {'ok' if fine else 'WRONG'}"
                )
    return good


def copy_bandwidth(device) -> float:
    """Bytes read and written per second by a large copy."""
    size = 1 << (28 if device.platform != "cpu" else 25)
    array = jax.device_put(jnp.zeros(size, jnp.float32), device)
    copy = jax.jit(lambda x: x + 1)
    jax.block_until_ready(copy(array))
    start, rounds = time.perf_counter(), 10
    for _ in range(rounds):
        array = copy(array)
    jax.block_until_ready(array)
    return rounds * 2 * 4 * size / (time.perf_counter() - start)


def rate(capacity: int, replications: int, device) -> float:
    """Replications per second, compilation excluded."""
    paths(scm(capacity), capacity, replications, device, seed=1)
    start = time.perf_counter()
    paths(scm(capacity), capacity, replications, device, seed=2)
    return replications / (time.perf_counter() - start)


def bytes_moved(capacity: int) -> float:
    """Bytes of device memory that one replication must touch: every slot of an access (time, mass, place) is written
    once, read for the cells (mass, place) and read for the choice of events (mass, place, flag).
    """
    _, shape = window(scm(capacity), HORIZON, ("whole",))
    return shape.lanes * shape.steps * (16 + 8 + 9)


def lru_parity(device) -> bool:
    """The XLA kernels against the list and the loop, access by access; counts, so equal means equal."""
    (stream,) = chunks(2000, 2000, 0.1)
    good = True
    chunk, lanes.MIN_CHUNK = lanes.MIN_CHUNK, 16  # many lanes, though the stream is short enough for the list
    with jax.default_device(device):
        for accounting in stream.accountings:
            for eviction in EVICTIONS:
                curve = hit_ratio_curve(stream, accounting, eviction=eviction, backend="xla")
                for capacity in (0, 20, CAPACITY // 10, 10**6):
                    expected = served_by_reference(stream, capacity, accounting, eviction)
                    served = replay_lru(stream, capacity, accounting, eviction=eviction, backend="xla").served
                    moves = stream.moves(accounting, eviction)
                    count = lanes.lane_count(moves, capacity)
                    by_lanes = lanes.replay_lanes(moves, capacity, eviction == "block", count)
                    fine = np.array_equal(served, expected) and np.array_equal(by_lanes, expected)
                    fine &= bool(curve.served(capacity) == expected.sum())
                    good &= fine
                    print(
                        f"parity LRU {accounting:<9} {eviction:<12} N = {capacity:>7,}:"
                        f" {int(expected.sum()):>5,} blocks served, {'ok' if fine else 'WRONG'}"
                    )
    lanes.MIN_CHUNK = chunk
    return good


def lru_rates(stream: AccessStream, capacity: int, device) -> dict[str, float]:
    """Accesses per second of both kernels, transfers included, compilation excluded."""
    jobs = {
        "one capacity": lambda: replay_lru(stream, capacity, backend="xla").hit_ratio,
        "every capacity": lambda: hit_ratio_curve(stream, backend="xla"),
    }
    rates = {}
    with jax.default_device(device):
        for name, job in jobs.items():
            job()
            start = time.perf_counter()
            job()
            rates[name] = len(stream) / (time.perf_counter() - start)
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the replications")
    scale = 10 if parser.parse_args().quick else 1
    accelerator, cpu = jax.devices()[0], jax.devices("cpu")[0]
    print(f"jax {jax.__version__}, {accelerator.device_kind} against {cpu.device_kind}")
    good = parity(accelerator, cpu) & lru_parity(accelerator)
    bandwidth = copy_bandwidth(accelerator)
    print(f"copy bandwidth {bandwidth / 1e9:,.0f} GB/s")
    big = accelerator.platform != "cpu"
    plan = {10_000: 131_072 if big else 4096, 100_000: 16_384 if big else 512, 1_000_000: 1024 if big else 32}
    plan |= {10_000_000: 64} if big else {}
    compare = {10_000: 4096, 100_000: 512}
    for capacity, replications in plan.items():
        speed = rate(capacity, max(2, replications // scale), accelerator)
        share = speed * bytes_moved(capacity) / bandwidth
        conversations = scm(capacity).arrival_rate * (HORIZON + 0.798 * 7 / 3)
        line = (
            f"N = {capacity:>10,}: {speed:12,.1f} replications/s, {speed * conversations / 1e6:8.1f} M conversations/s,"
            f" {share:.1%} of the copy bandwidth"
        )
        if capacity in compare:
            line += f", {speed / rate(capacity, compare[capacity] // scale, cpu):.1f} times the CPU"
        print(line, flush=True)
    accesses = 10_000_000 if big else 1_000_000
    for memory in (1, 100):  # few accesses fill the first cache: lanes; the second is served by displacements
        (stream,) = chunks(accesses, accesses, memory)
        rates = lru_rates(stream, memory * CAPACITY, accelerator)
        (short,) = chunks(1_000_000, 1_000_000, memory)
        on_cpu = lru_rates(short, memory * CAPACITY, cpu)
        for name, speed in rates.items():
            print(
                f"LRU, N = {memory * CAPACITY:>7,}, {name}: {speed / 1e6:.1f} M accesses/s,"
                f" {speed / on_cpu[name]:.1f} times XLA on the CPU",
                flush=True,
            )
    print("parity holds" if good else "parity FAILS")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
