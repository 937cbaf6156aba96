"""Test set-up: double precision, two simulated CPU devices, and the shared reference data where present."""

from __future__ import annotations

import json
import os
from pathlib import Path

# Programs here are small and run once: compiling them without optimisation takes two thirds of the time.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
).strip()

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)

# The same examples every time, however long they take: no test fails for a slow machine or an unlucky draw.
# (`--hypothesis-profile=default` looks for new ones.)
hypothesis.settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference values, traces and sources beside the checkout (or $MFMC_SHARED)."""
    root = Path(os.environ.get("MFMC_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))
    if not root.is_dir():
        pytest.skip("the folder shared/ with reference data is not beside this checkout (set MFMC_SHARED)")
    return root


@pytest.fixture(scope="session")
def oracle(shared: Path) -> dict:
    """Reference values of an independent implementation (shared/reference/oracle.json)."""
    return json.loads((shared / "reference" / "oracle.json").read_text())["cases"]
