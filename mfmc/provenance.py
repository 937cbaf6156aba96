"""Where a result comes from: configuration, versions, device, commit."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mfmc.config.schema import Settings

PACKAGES = ("mfmc", "jax", "jaxlib", "numpy", "scipy", "numba", "hydra-core")


def provenance(
    settings: Settings, config: dict[str, Any], overrides: list[str], seconds: float
) -> dict[str, Any]:
    """Facts for result.json; `config` is the resolved configuration, `seconds` the time that the run took."""
    import jax

    device = jax.devices()[0]
    facts = {
        "overrides": overrides,
        "config": config,
        "versions": versions(),
        "device": {"platform": device.platform, "kind": device.device_kind, "count": len(jax.devices())},
        "precision": settings.runtime.precision,
        "seed": settings.runtime.seed,
        "seconds": seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    commit = git_commit()
    return facts if commit is None else {**facts, "git_commit": commit}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number may depend on, as far as installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of the checkout that mfmc runs from, "-dirty" after changes; None after an install."""
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
