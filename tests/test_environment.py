"""The JAX at hand: versions known to be wrong are excluded, and the public reproducer of jax#39103 passes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np


def test_versions_with_known_wrong_results_are_excluded():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    requirement = next(line for line in project["dependencies"] if line.startswith("jax"))
    for version in ("0.10.2", "0.11.0", "0.11.1"):
        assert f"!={version}" in requirement and jax.__version__ != version
        for extra in ("cuda12", "cuda13"):
            assert f"!={version}" in project["optional-dependencies"][extra][0]


def test_matrix_vector_product_under_vmap_then_a_sum():
    """The pattern of jax#39103, which jax 0.10.2 gets wrong when jitted on a CPU."""
    rng = np.random.default_rng(0)
    matrices, vectors = rng.normal(size=(64, 16, 16)), rng.normal(size=(64, 16))

    def total(a, x):
        return jnp.sum(jax.vmap(lambda m, v: m @ v)(a, x), axis=0)

    expected = np.einsum("nij,nj->i", matrices, vectors)
    np.testing.assert_allclose(jax.jit(total)(matrices, vectors), expected, rtol=1e-10)
    np.testing.assert_allclose(total(matrices, vectors), expected, rtol=1e-10)
