"""The JAX at hand: versions known to be wrong are excluded, and the public reproducer of jax#39103 passes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest


def test_versions_with_known_wrong_results_are_excluded():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    requirement = next(line for line in project["dependencies"] if line.startswith("jax"))
    for version in ("0.10.2", "0.11.0", "0.11.1"):
        assert f"!={version}" in requirement and jax.__version__ != version
        for extra in ("cuda12", "cuda13"):
            assert f"!={version}" in project["optional-dependencies"][extra][0]


@pytest.mark.parametrize(("dtype", "rows"), [(jnp.float64, 16_385), (jnp.float32, 32_769)])
def test_vmapped_matrix_vector_product_then_a_sum(dtype, rows):
    """jax#39103: squared norms of rows, each times the identity. Jitted on a CPU, jax 0.10.2 loses part of the last."""
    points = jnp.pad(jnp.arange(rows, dtype=dtype)[:, None], ((0, 0), (0, 2)))
    identity = jnp.eye(3, dtype=dtype)
    squares = jax.jit(jax.vmap(lambda point: jnp.sum((identity @ point) ** 2)))(points)
    assert float(squares[-1]) == (rows - 1) ** 2
