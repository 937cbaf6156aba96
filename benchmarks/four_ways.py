"""Four ways to one hit ratio, on every case of the reference values: the table of RESULTS.md.

h(N) by the limit (25) or (32), limit + c/N, the exact law, E[F(tau)] over displacement paths, and LRU replay of
independent streams, with the distance of both simulations from the exact value in standard errors. The reference
values come from shared/reference/oracle.json beside the checkout, or in $MFMC_SHARED; the exact law is held against
them.

    python benchmarks/four_ways.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

import mfmc  # noqa: E402
from mfmc.lru import replayed_hit_ratio  # noqa: E402
from mfmc.statistics import Estimate, mean  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from reference_workloads import reference_workload  # noqa: E402

KEY = jax.random.key(20261130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the paths and of the streams")
    share = 8 if parser.parse_args().quick else 1
    shared = Path(os.environ.get("MFMC_SHARED", ROOT.parent / "shared"))
    cases = json.loads((shared / "reference" / "oracle.json").read_text())["cases"]
    rows = [
        (name, accounting, int(capacity), case["lambda0"], value)
        for name, case in cases.items()
        for accounting, key in (("whole", "h_exact"), ("practical", "h_prac_exact"))
        for capacity, value in sorted(case.get(key, {}).items(), key=lambda item: int(item[0]))
    ]
    print("| case | accounting | N | limit | refined | exact | paths | replay | off, in standard errors |")
    print("|---|---|---|---|---|---|---|---|---|")
    off, from_reference = [], []
    for number, (name, accounting, capacity, lambda0, reference) in enumerate(rows, 1):
        workload = reference_workload(name, lambda0, capacity)
        exact = mfmc.hit_ratio_exact(workload, capacity, accounting)
        paths = by_paths(jax.random.fold_in(KEY, 1000 + number), workload, capacity, accounting, 4000 // share)
        replay = replayed_hit_ratio(
            jax.random.fold_in(KEY, number), workload, [capacity], accounting,
            conversations=60_000, replications=96 // share,
        )  # fmt: skip
        found = [(paths.value, paths.standard_error), (replay.estimate[0], replay.standard_error[0])]
        off.append([(value - exact) / error for value, error in found])
        from_reference.append(abs(exact - reference))
        print(
            f"| {name} | {accounting} | {capacity} | {float(mfmc.hit_ratio(workload, capacity, accounting)):.5f}"
            f" | {mfmc.hit_ratio_refined(workload, capacity, accounting):.5f} | {exact:.5f}"
            + "".join(f" | {value:.5f} ± {error:.5f}" for value, error in found)
            + " | " + ", ".join(f"{each:+.1f}" for each in off[-1]) + " |",
            flush=True,
        )  # fmt: skip
    for name, each in zip(("paths", "replay"), np.array(off).T):
        print(f"{name}: at most {np.abs(each).max():.1f} standard errors off, {np.sqrt((each**2).mean()):.2f} rms")
    print(f"exact: at most {max(from_reference):.1e} from the reference values")


def by_paths(key: jax.Array, workload: mfmc.Workload, capacity: int, accounting: str, replications: int) -> Estimate:
    """sum_r r a(r) E[F(tau_C of size r)] / A_R over displacement paths."""
    horizon = 3 * float(mfmc.characteristic_time(workload, capacity, accounting))
    paths = mfmc.simulate_displacement(
        key, workload, capacity, horizon, replications, accountings=(accounting,), turns=(1,)
    )[accounting]
    return mean(paths.reuse_given_path / workload.profile(accounting).content)


if __name__ == "__main__":
    main()
