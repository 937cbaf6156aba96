"""Quantile tables against the quantiles they stand for, in both tails, as jitted look-ups."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.laws.gaps import (
    EmpiricalGaps,
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    UniformGaps,
    WeibullGaps,
)
from mfmc.laws.namespace import NUMPY
from mfmc.laws.quantile_table import lookup, lookup_words, quantile_table, residual_table
from mfmc.laws.uniform_words import random_words, tails_from_words

LAWS = [
    ExponentialGaps(mean=2.0),
    GammaGaps(shape=0.3, mean=2.0),
    GammaGaps(shape=5.0, mean=0.5),
    LognormalGaps(sigma=2.0, mean=135.0),
    WeibullGaps(shape=0.3, mean=1.0),
    WeibullGaps(shape=3.0, mean=1.0),
    HyperexponentialGaps(weights=[0.9, 0.1], means=[0.1, 20.0]),
    UniformGaps(low=1.0, high=3.0),
    LomaxGaps(shape=1.5, mean=2.0),
    EmpiricalGaps(np.random.default_rng(7).lognormal(0.0, 1.0, 500).round(2)),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)

RNG = np.random.default_rng(5)
SMALL = np.concatenate([RNG.random(4_000) / 2, 2.0 ** -(1 + 60 * RNG.random(4_000))])  # in (0, 1/2]

at = jax.jit(lambda table, v, upper: table.at(v, upper))


def relative_error(table, inverse) -> float:
    """Of the table in both tails, against `inverse(p, q)`."""
    errors = []
    for upper in (False, True):
        ours = np.asarray(at(table, SMALL, np.full(SMALL.shape, upper)))
        exact = inverse(1 - SMALL, SMALL) if upper else inverse(SMALL, 1 - SMALL)
        errors.append(np.abs(ours / exact - 1).max())
    return max(errors)


@every_law
def test_gap_table(law):
    assert relative_error(quantile_table(law), lambda p, q: law._inverse(NUMPY, p, q)) < 1e-10


@every_law
@pytest.mark.parametrize("horizon_in_means", [0.7, 20.0, np.inf])
def test_residual_table_up_to_a_horizon(law, horizon_in_means):
    horizon = horizon_in_means * law.mean
    share, beyond = law.residence(horizon) / law.mean, law.excess(horizon) / law.mean
    table = residual_table(law, horizon)
    assert (
        relative_error(table, lambda p, q: law._residual_inverse(NUMPY, p * share, beyond + q * share))
        < 1e-10
    )
    assert np.all(np.asarray(at(table, SMALL, SMALL < 1)) <= horizon * (1 + 1e-10))


@every_law
def test_lookup_takes_uniform_numbers(law):
    u = np.concatenate([RNG.random(1000), [1e-15, 0.5, np.nextafter(0.5, 0), 1 - 1e-15]])
    ours = np.asarray(jax.jit(lookup)(quantile_table(law), u))
    np.testing.assert_allclose(ours, law.quantile(u), rtol=1e-10)
    assert np.all(
        np.diff(np.asarray(lookup(quantile_table(law), np.sort(u)))) >= -1e-10 * law.quantile(np.sort(u))[1:]
    )


def test_words_are_uniform_with_full_tails():
    words = random_words(jax.random.key(0), (100_000,))
    v, upper = (np.asarray(part) for part in tails_from_words(words))
    assert abs(upper.mean() - 0.5) < 5 * 0.5 / np.sqrt(words.size)
    assert abs(v.mean() - 0.25) < 5 * 0.5 / np.sqrt(12 * words.size)
    edges = jnp.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=jnp.uint64)
    v, upper = (np.asarray(part) for part in tails_from_words(edges))
    np.testing.assert_array_equal(upper, [False, False, True, True])
    np.testing.assert_array_equal(v, [2.0**-65, 0.5, 2.0**-65, 0.5])


def test_words_give_the_same_times_without_x64_to_single_precision():
    law = LognormalGaps(sigma=1.0, mean=1.0)
    table = quantile_table(law)
    pairs = RNG.integers(0, 2**32, (1000, 2), dtype=np.uint32)
    wide = (pairs[:, 0].astype(np.uint64) << np.uint64(32)) | pairs[:, 1]
    double = np.asarray(lookup_words(table, jnp.asarray(wide)))
    with jax.enable_x64(False):
        single = lookup_words(table, jnp.asarray(pairs))
        assert single.dtype == jnp.float32
    np.testing.assert_allclose(np.asarray(single), double, rtol=2e-6)


def test_tables_run_inside_a_loop():
    table = jax.device_put(quantile_table(GammaGaps(shape=0.5, mean=1.0)))

    @jax.jit
    def total(table, u):
        def step(_, state):
            time, u = state
            return time + lookup(table, u), (u * 1.618033988749895 + 0.1) % 1

        return jax.lax.fori_loop(0, 10, step, (jnp.zeros_like(u), u))[0]

    u, expected = RNG.random(64), np.zeros(64)
    ours = total(table, u)
    for _ in range(10):
        expected += GammaGaps(shape=0.5, mean=1.0).quantile(u)
        u = (u * 1.618033988749895 + 0.1) % 1
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_what_no_table_can_hold_is_refused():
    with pytest.raises(InputError, match="horizon=0"):
        residual_table(ExponentialGaps(1.0), 0)
    with pytest.raises(InputError, match="traced"):
        jax.jit(lambda law: lookup(quantile_table(law), 0.5))(GammaGaps(2.0, 1.0))
    with pytest.raises(InputError, match="orders of magnitude") as error:
        residual_table(LomaxGaps(shape=1.01, mean=1.0))
    assert "\n" not in str(error.value)
