"""Intervals, ratios and slopes against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mfmc.statistics import clopper_pearson, deviations, mean, power_law, ratio, variance


@given(st.integers(1, 400), st.data())
@settings(max_examples=60)
def test_clopper_pearson_inverts_the_binomial_tails(trials, data):
    successes = data.draw(st.integers(0, trials))
    interval = clopper_pearson(successes, trials)
    assert interval.low <= interval.estimate <= interval.high
    if successes > 0:
        assert stats.binom.sf(successes - 1, trials, interval.low) == pytest.approx(0.025, rel=1e-6)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, interval.high) == pytest.approx(0.025, rel=1e-6)


def test_clopper_pearson_at_the_ends():
    assert clopper_pearson(0, 10).low == 0 and clopper_pearson(10, 10).high == 1


def test_errors_of_mean_variance_and_ratio_have_the_right_size():
    rng = np.random.default_rng(1)
    x = rng.exponential(2.0, (2000, 200))
    y = x + rng.normal(5, 1, x.shape)
    for found, target in ((mean(x), 2.0), (variance(x), 4.0)):
        z = (found.value - target) / found.standard_error
        assert 0.85 < z.std() < 1.15
    z = np.array([(r.value - 2 / 7) / r.standard_error for r in map(ratio, x.T, y.T)])
    assert 0.85 < z.std() < 1.15 and abs(z.mean()) < 0.35


def test_power_law_recovers_an_exponent_and_its_interval_covers():
    rng = np.random.default_rng(2)
    n = np.array([1e2, 1e3, 1e4, 1e5])
    hits = 0
    for _ in range(300):
        error = 0.01 * n**-0.5
        fit = power_law(n, 3 * n**-0.5 + rng.normal(0, error), error)
        hits += fit.low <= -0.5 <= fit.high
    assert hits >= 280


def test_deviations_of_equal_numbers_without_error_are_zero():
    assert deviations([1.0, 2.0], [0.0, 0.5], [1.0, 1.0]).tolist() == [0.0, 2.0]
