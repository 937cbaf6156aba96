"""Random words, alias tables and Poisson counts: exact laws, and mutants that the tests catch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mfmc.errors import InputError
from mfmc.laws import alias
from mfmc.words import Lanes, lanes, require_double_precision, uniform, word

KEY = jax.random.key(2026)


def _words(count: int, streams: int = 64) -> np.ndarray:
    """[streams, count] words."""
    lane = lanes(KEY, jnp.arange(streams), 1)
    return np.asarray(jax.vmap(lambda n: word(lane, n)[:, 0])(jnp.arange(count)).T)


def _byte_p_values(words: np.ndarray) -> np.ndarray:
    """p-values of chi-square tests that each of the eight bytes is uniform."""
    bytes_ = words.reshape(-1).view(np.uint8).reshape(-1, 8)
    counts = np.stack([np.bincount(bytes_[:, i], minlength=256) for i in range(8)])
    return stats.chisquare(counts, axis=1).pvalue


def test_words_are_uniform_in_every_byte_and_independent_from_word_to_word():
    words = _words(8192)
    p = _byte_p_values(words)
    assert p.min() > 1e-5 and p.max() < 1 - 1e-5
    u = np.asarray(uniform(jnp.asarray(words)))
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-5
    for lag in (1, 2, 4):
        correlation = np.corrcoef(u[:, :-lag].ravel(), u[:, lag:].ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(u.size)
    across = np.corrcoef(u)[np.triu_indices(len(u), 1)]
    assert np.abs(across).max() < 6 / np.sqrt(u.shape[1])


def test_without_the_finaliser_the_bytes_are_not_random():
    """The mutant: state + n * gamma itself, unmixed. It is even more uniform than chance allows."""
    lane = lanes(KEY, jnp.arange(1), 1)
    raw = np.asarray(lane.state + jnp.arange(4096, dtype=jnp.uint64) * lane.gamma).reshape(1, -1)
    assert _byte_p_values(raw).max() > 1 - 1e-5


def test_lanes_depend_on_the_replication_alone():
    some, all_ = lanes(KEY, jnp.array([5, 2]), 3), lanes(KEY, jnp.arange(8), 3)
    np.testing.assert_array_equal(some.state, all_.state[np.array([5, 2])])
    assert np.unique(np.asarray(all_.state)).size == 24
    assert np.all(np.asarray(all_.gamma) % 2 == 1)


def test_single_precision_is_refused_in_one_line():
    with jax.enable_x64(False), pytest.raises(InputError, match=r"set runtime\.precision=float64"):
        require_double_precision()


def _frequencies(rows, row: int, n: int) -> np.ndarray:
    table, address = jax.device_put(alias.build(rows))
    lane = Lanes(jnp.uint64(123456789), jnp.uint64(0x9E3779B97F4A7C15))
    drawn = alias.values(table, alias.pick(table, address[row], word(lane, jnp.arange(n))))[0]
    return np.bincount(np.asarray(drawn), minlength=12)


ROWS = [
    (np.array([[3]]), np.ones(1)),
    (np.array([[1, 10], [2, 20], [5, 50]])[:, :1], np.array([0.2, 0.7, 0.1])),
    (np.arange(11)[:, None], stats.binom.pmf(np.arange(11), 10, 0.3)),
]


@pytest.mark.parametrize("row", [1, 2])
def test_alias_rows_have_their_law(row):
    n = 1 << 18
    values, p = ROWS[row]
    expected = np.zeros(12)
    expected[values[:, 0]] = p * n
    counts = _frequencies(ROWS, row, n)
    kept = expected > 5
    assert counts[expected == 0].sum() == 0
    assert np.max(np.abs(counts - expected)[kept] / np.sqrt(expected[kept])) < 5


def test_a_row_of_one_value_always_gives_it():
    assert _frequencies(ROWS, 0, 1000)[3] == 1000


def test_alias_test_catches_swapped_probabilities():
    n = 1 << 18
    mutant = [ROWS[0], (ROWS[1][0], np.array([0.21, 0.69, 0.1]))]
    assert abs(_frequencies(mutant, 1, n)[1] - 0.2 * n) > 5 * np.sqrt(0.2 * n)


@pytest.mark.parametrize("rate", [0.3, 40.0, 1e6, 1e8])
def test_poisson_counts_have_mean_and_variance_at_any_rate(rate):
    """jax.random.poisson has variance over rate 1.025 at 1e6 and 1.46 at 1e8: this test would catch it."""
    n = 1 << 16
    table = jax.device_put(alias.poisson_table(rate))
    lane = Lanes(jnp.uint64(987654321), jnp.uint64(0x9E3779B97F4A7C15))
    counts = np.asarray(alias.poisson(table, uniform(word(lane, jnp.arange(n)))), dtype=float)
    assert abs(counts.mean() - rate) < 5 * np.sqrt(rate / n)
    fourth = rate * (1 + 3 * rate)  # central moment of a Poisson law
    assert abs(counts.var() - rate) < 5 * np.sqrt((fourth - rate**2) / n)
