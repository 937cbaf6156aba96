"""`study=doctor`: is this machine fit to compute? Each finding with ok, warning or wrong, and what to do."""

from __future__ import annotations

import math
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.config.schema import Settings
from mfmc.displacement import simulate_displacement
from mfmc.laws import alias
from mfmc.laws.blocks import PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps
from mfmc.laws.turns import GeometricTurns
from mfmc.studies.context import Context
from mfmc.studies.result import Result, check
from mfmc.words import lanes, uniform, word
from mfmc.workload import Workload

OK, WARNING, WRONG = "ok", "warning", "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `state` is ok, warning or wrong; `cure` says what to do unless it is ok."""

    subject: str
    state: str
    found: str
    cure: str = ""


def run(config: Settings, context: Context) -> Result:
    """Rows {subject, state, found, what_to_do}; what is wrong fails a check, a warning does not."""
    findings = [examine(config) for examine in EXAMINATIONS]
    rows = [
        {"subject": f.subject, "state": f.state, "found": f.found, "what_to_do": f.cure or None} for f in findings
    ]
    worst = [f for f in findings if f.state != OK]
    return Result(
        summary={"findings": rows},
        headline=[f"{f.subject}: {f.found}; {f.cure}" for f in worst] or ["nothing to mend"],
        tables={"table": rows},
        checks=[check(f.subject, f.state != WRONG, f"{f.found}; {f.cure}".strip("; ")) for f in findings],
    )


def _python(config: Settings) -> Finding:
    return Finding("python", OK, platform.python_version())  # an older one could not have installed mfmc


def _jax(config: Settings) -> Finding:
    if jax.__version__ in ("0.10.2", "0.11.0", "0.11.1"):
        return Finding("jax", WRONG, jax.__version__, "this version returns wrong values; install another one")
    return Finding("jax", OK, jax.__version__)


def _devices(config: Settings) -> Finding:
    devices = jax.devices()
    found = f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})"
    if devices[0].platform == "cpu" and shutil.which("nvidia-smi"):
        return Finding("devices", WARNING, f"{found}, although nvidia-smi is there", "pip install 'mfmc[cuda12]'")
    return Finding("devices", OK, found)


def _precision(config: Settings) -> Finding:
    dtype = jnp.ones(1).dtype.name
    if dtype != "float64":
        return Finding("precision", WARNING, dtype, "simulations need runtime.precision=float64")
    return Finding("precision", OK, dtype)


def _wrong_results(config: Settings) -> Finding:
    """jax#39103: squared norms of rows, each times the identity; a jitted program lost part of the last."""
    rows = 16_385
    points = jnp.pad(jnp.arange(rows, dtype=jnp.ones(1).dtype)[:, None], ((0, 0), (0, 2)))
    identity = jnp.eye(3, dtype=points.dtype)
    last = float(jax.jit(jax.vmap(lambda point: jnp.sum((identity @ point) ** 2)))(points)[-1])
    if not math.isclose(last, (rows - 1) ** 2, rel_tol=1e-6):
        return Finding(
            "jitted products (jax#39103)", WRONG, f"{last} for {(rows - 1) ** 2}", "install another version of jax"
        )
    return Finding("jitted products (jax#39103)", OK, "right")


def _poisson_variance(config: Settings) -> Finding:
    """Variance over mean of the counts drawn, within 5 standard errors of 1 (jax.random.poisson has 1.025)."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return Finding("Poisson counts", WARNING, "not looked at in float32", "use runtime.precision=float64")
    rate, count = 1e6, 200_000
    table = alias.poisson_table(rate)
    streams = lanes(jax.random.key(0), jnp.arange(count), 1)
    counts = np.asarray(alias.poisson(table, uniform(word(streams, jnp.uint64(0)))), dtype=float)
    ratio = counts.var(ddof=1) / rate
    away = abs(ratio - 1) / math.sqrt(2 / count)
    found = f"variance over mean {ratio:.4f} at a rate of {rate:.0e}, {away:.1f} standard errors from 1"
    if away > 5:
        return Finding("Poisson counts", WRONG, found, "report this with the versions in result.json")
    return Finding("Poisson counts", OK, found)


def _parity(config: Settings) -> Finding:
    """The same replications on the default device and on the CPU: masses equal, times to rounding."""
    if jax.default_backend() == "cpu":
        return Finding("device against CPU", OK, "the CPU is the device")
    workload = Workload(8.0, ExponentialGaps(1.0), turns=GeometricTurns(0.7, 40), blocks=PoissonBlocks(1.0, 3.0))

    def sample() -> tuple[np.ndarray, np.ndarray]:
        paths = simulate_displacement(jax.random.key(1), workload, 256, 1.0, 64, times=[0.5, 1.0])["whole"]
        return paths.values, paths.sup

    values, sup = sample()
    with jax.default_device(jax.devices("cpu")[0]):
        values_cpu, sup_cpu = sample()
    different = int((values != values_cpu).sum())
    found = f"{different} of {values.size} block counts differ, sups by at most {np.abs(sup - sup_cpu).max():.1e}"
    # An event within rounding of a given time may fall on either side of it.
    if different > 1 or np.abs(sup - sup_cpu).max() > 1e-9:
        return Finding("device against CPU", WRONG, found, "use runtime.platform=cpu, and report this")
    return Finding("device against CPU", OK, found)


def _memory(config: Settings) -> Finding:
    available = _available_gib()
    wanted = config.runtime.memory_gib
    if available is None:
        return Finding("memory", WARNING, "how much is free is not known here", "keep runtime.memory_gib small")
    found = f"{available:.1f} GiB free, runtime.memory_gib is {wanted:g}"
    if wanted > available:
        return Finding("memory", WARNING, found, f"use runtime.memory_gib={max(available / 2, 0.1):.1f}")
    return Finding("memory", OK, found)


def _available_gib() -> float | None:
    """Free memory of the first device, or of the machine; None where neither is told."""
    statistics = jax.devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return (statistics["bytes_limit"] - statistics["bytes_in_use"]) / 2**30
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("MemAvailable")), None)


def _compiled(config: Settings) -> Finding:
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if folder is None:
        return Finding(
            "compiled programs", WARNING, "the cache folder cannot be written", "set XDG_CACHE_HOME to one that can"
        )
    return Finding("compiled programs", OK, f"{_size(Path(folder))} in {folder}")


def _output(config: Settings) -> Finding:
    """Whether results can be written, and what interrupted runs have left."""
    output = Path(config.output).absolute()
    parent = next(path for path in (output, *output.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        return Finding("results", WRONG, f"{output} cannot be written", "set output=FOLDER")
    free = shutil.disk_usage(parent).free / 2**30
    unfinished = output / ".unfinished"
    found = f"{free:.0f} GiB free below {output}"
    if unfinished.is_dir():
        cure = f"run their commands again to continue them, or remove {unfinished}"
        return Finding("results", WARNING, f"{found}; interrupted runs have left {_size(unfinished)}", cure)
    if free < 1:
        return Finding("results", WARNING, found, "make room, or set output=FOLDER")
    return Finding("results", OK, found)


def _size(folder: Path) -> str:
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 2**20:.0f} MiB"


EXAMINATIONS: tuple[Callable[[Settings], Finding], ...] = (
    _python, _jax, _devices, _precision, _wrong_results, _poisson_variance, _parity, _memory, _compiled, _output,
)
