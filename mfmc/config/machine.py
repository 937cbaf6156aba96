"""The process that a run wants: precision, platform, devices, threads, compilation cache.

The application alone sets these; the library never touches jax's configuration. Everything that can be undone
is undone after a run, so that a job computes the same bits alone or after other jobs of the same process.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mfmc.config.schema import RuntimeSection
from mfmc.cores import THREADS_VARIABLE
from mfmc.errors import InputError

# Read by XLA, by mfmc's own threads (mfmc.cores) and by the libraries of NumPy, most of them when they start.
_THREAD_VARIABLES = ("PJRT_NPROC", THREADS_VARIABLE, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def prepared(runtime: RuntimeSection) -> Iterator[None]:
    """Run the body under `runtime`'s precision, platform, devices and threads.

    Raises InputError where the machine, or what this process has already started, does not allow it.
    """
    wanted = _threads(runtime.threads) | _simulated_devices(runtime.devices)
    before = {name: os.environ.pop(name) for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        with _configured(runtime):
            yield
    finally:
        for name in wanted:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _configured(runtime: RuntimeSection) -> Iterator[None]:
    """The part of it that jax's configuration decides."""
    import jax

    wanted = {
        "jax_enable_x64": runtime.precision == "float64",
        "jax_compilation_cache_dir": _cache_folder(),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }
    if "JAX_LOGGING_LEVEL" not in os.environ:
        # Reading a CPU program from the cache logs pages of false alarm: XLA lists its own tuning hints
        # (prefer-no-gather) among the features that the processor lacks. What fails is raised all the same.
        wanted["jax_logging_level"] = "CRITICAL"
    if runtime.platform == "cpu":
        wanted["jax_platforms"] = "cpu"
    before = {name: getattr(jax.config, name) for name in wanted}
    for name, value in wanted.items():
        jax.config.update(name, value)
    try:
        _check_devices(runtime)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def processor() -> str:
    """A short name for this kind of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return hashlib.sha256(features.encode()).hexdigest()[:8]


def _threads(threads: int | None) -> dict[str, str]:
    """Environment for so many threads in every pool."""
    return {} if threads is None else dict.fromkeys(_THREAD_VARIABLES, str(threads))


def _simulated_devices(devices: int | None) -> dict[str, str]:
    """Environment for so many CPU devices; XLA reads it when jax first looks for devices."""
    if devices is None:
        return {}
    flag = "--xla_force_host_platform_device_count"
    others = re.sub(rf"{flag}=\d+", "", os.environ.get("XLA_FLAGS", ""))
    return {"XLA_FLAGS": f"{others} {flag}={devices}".strip()}


def _check_devices(runtime: RuntimeSection) -> None:
    import jax

    devices = jax.devices()
    found = devices[0].platform
    if runtime.platform != "auto" and found != runtime.platform:
        raise InputError(
            f"runtime.platform={runtime.platform}: jax computes on {found} here;"
            f" use runtime=default, or install jax for that device (pip install 'mfmc[cuda12]')"
        )
    if runtime.devices is not None and runtime.devices > len(devices):
        cure = (
            "it started with that many in this process; call mfmc afresh"
            if found == "cpu"
            else f"give at most {len(devices)}"
        )
        raise InputError(
            f"runtime.devices={runtime.devices}: jax has {len(devices)} {found} device(s): {cure}"
        )


def _cache_folder() -> str | None:
    """Where compiled programs are kept between runs; None where it cannot be written.

    Machines that share a home folder do not share programs: code for one processor may not run on another.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "mfmc" / f"jax-{processor()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None
