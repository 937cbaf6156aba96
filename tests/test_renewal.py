"""G_k(t) = int_0^t F^{*k} against closed forms, against a second method, and against its own stated error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

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
from mfmc.laws.renewal import _solve, iterated_error, iterated_integrals

TIMES = np.linspace(0.05, 4, 40)


def test_order_zero_and_one_are_known():
    law = LognormalGaps(sigma=1.0, mean=2.0)
    integrals = iterated_integrals(law, TIMES, 2)
    np.testing.assert_array_equal(integrals[0], TIMES)
    np.testing.assert_array_equal(integrals[1], TIMES - law.residence(TIMES))
    np.testing.assert_array_equal(iterated_integrals(law, TIMES, 1)[0], TIMES)


def test_exponential_is_the_erlang_sum():
    """E[(t - S_k)^+] = sum_{j > k} (j - k) P(Poisson(t) = j)."""
    integrals = iterated_integrals(ExponentialGaps(mean=1.0), TIMES, 30)
    j = np.arange(1, 120)
    log_factorial = np.array([math.lgamma(i + 1) for i in j])
    poisson = np.exp(j * np.log(TIMES[:, None]) - TIMES[:, None] - log_factorial)
    for k in range(30):
        np.testing.assert_allclose(integrals[k], poisson @ np.maximum(j - k, 0), atol=1e-13, rtol=1e-11)


@pytest.mark.parametrize("horizon", [1.0, 30.0])
def test_the_general_method_meets_closed_forms(horizon):
    """A Weibull law of shape 1 is exponential, but does not go through its closed form."""
    times = np.linspace(0.01, 1, 30) * horizon
    exact = iterated_integrals(ExponentialGaps(mean=1.3), times, 60)
    general = WeibullGaps(shape=1.0, mean=1.3)
    error = np.max(np.abs(iterated_integrals(general, times, 60) - exact) / times)
    assert error <= iterated_error(general, times, 60) <= 1.5e-11


@pytest.mark.parametrize("shape", [0.1, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("horizon", [1.0, 8.0])
def test_singular_and_sharp_gamma_densities(shape, horizon):
    law, times = GammaGaps(shape=shape, mean=1.0), np.linspace(0.01, 1, 30) * horizon
    solution = _solve(law, horizon, 40)  # the general method, which iterated_integrals does not use here
    error = np.abs(solution.at(times) - iterated_integrals(law, times, 40))[1:] / times
    assert error.max() <= solution.error <= 1e-11


def test_hyperexponential_is_phase_type():
    """S_k is the absorption time of a Markov chain: its generator's exponential gives G_k."""
    weights, means, count = np.array([0.8, 0.2]), np.array([0.2, 4.2]), 12
    generator = np.zeros((2 * count + 1, 2 * count + 1))
    for stage in range(count):
        for phase in range(2):
            row = 2 * stage + phase
            generator[row, row] = -1 / means[phase]
            target = slice(2 * stage + 2, 2 * stage + 4) if stage + 1 < count else slice(2 * count, None)
            generator[row, target] = weights / means[phase] if stage + 1 < count else 1 / means[phase]
    start = np.concatenate([weights, np.zeros(2 * count - 1)])
    law = HyperexponentialGaps(weights=weights, means=means)
    integrals = iterated_integrals(law, TIMES, count + 1)
    size = generator.shape[0]
    for i, t in enumerate(TIMES[::8]):
        augmented = np.block([[generator, np.eye(size)], [np.zeros((size, 2 * size))]])
        occupation = start @ expm(augmented * t)[:size, size:]  # int_0^t P(state) du
        for k in range(1, count + 1):
            expected = occupation[2 * k :].sum()  # time since the k-th gap ended
            assert abs(integrals[k, 8 * i] - expected) <= 1e-11 * t


def test_uniform_is_irwin_hall():
    low, high = 0.5, 1.5
    law = UniformGaps(low=low, high=high)
    integrals = iterated_integrals(law, TIMES, 7)
    for k in range(1, 7):
        terms = [
            (-1) ** j * math.comb(k, j) * np.maximum(TIMES - k * low - j * (high - low), 0) ** (k + 1)
            for j in range(k + 1)
        ]
        exact = sum(terms) / (math.factorial(k + 1) * (high - low) ** k)
        np.testing.assert_allclose(integrals[k] / TIMES, exact / TIMES, atol=2e-12)
    assert iterated_error(law, TIMES, 7) < 1e-11


@pytest.mark.parametrize(
    "law",
    [LognormalGaps(1.0, 1.0), LognormalGaps(2.0, 1.0), WeibullGaps(0.4, 1.0), LomaxGaps(1.5, 1.0)],
    ids=lambda law: type(law).__name__,
)
def test_second_order_against_adaptive_quadrature(law):
    """G_2(t) = int_0^t F(s) F(t - s) ds, twice its half by symmetry."""
    for t in (0.3, 1.0, 3.0):
        value = quad(
            lambda s, t=t: float(law.cdf(s) * law.cdf(t - s)), 0, t / 2, epsabs=1e-14, epsrel=1e-13, limit=400
        )[0]
        assert abs(iterated_integrals(law, t, 3)[2] - 2 * value) <= 1e-11 * t


@pytest.mark.parametrize(
    "law",
    [
        LognormalGaps(1.0, 1.0),
        WeibullGaps(0.4, 1.0),
        LomaxGaps(1.5, 1.0),
        EmpiricalGaps(np.random.default_rng(3).exponential(size=500)),
    ],
    ids=lambda law: type(law).__name__,
)
def test_high_orders_against_simulation(law):
    """E[(t - S_k)^+] by plain Monte Carlo, 5 standard errors."""
    rng, draws, count = np.random.default_rng(11), 40_000, 8
    sums = np.cumsum(law.quantile(rng.random((draws, count - 1))), axis=1)
    t = 3.0
    integrals = iterated_integrals(law, t, count)
    for k in range(1, count):
        sample = np.maximum(t - sums[:, k - 1], 0)
        assert abs(sample.mean() - integrals[k]) < 5 * sample.std() / math.sqrt(draws)


@pytest.mark.parametrize("size", [6, 2000])
def test_recorded_gaps_within_the_stated_error(size):
    """G_2 = int F(s) F(t - s) ds is exact by two-point quadrature between all the knots of both factors."""
    law = EmpiricalGaps(np.random.default_rng(size).exponential(size=size))
    times = np.array([0.3, 1.0, 2.5])
    integrals, error = iterated_integrals(law, times, 5), iterated_error(law, times, 5)
    assert error < 1e-4
    for i, t in enumerate(times):
        knots = law.piecewise()[0]
        cuts = np.unique(np.clip(np.concatenate([knots, t - knots, [t]]), 0, t))
        middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
        points = middle + half * np.array([[-1], [1]]) / math.sqrt(3)
        exact = (half * law.cdf(points) * law.cdf(t - points)).sum()
        assert abs(integrals[2, i] - exact) <= error * t


def test_units_do_not_matter():
    times = np.linspace(0.1, 2, 20)
    unit = iterated_integrals(UniformGaps(0.5, 1.5), times, 5)
    for scale in (1e-6, 3e5):
        scaled = iterated_integrals(UniformGaps(0.5 * scale, 1.5 * scale), times * scale, 5)
        np.testing.assert_allclose(scaled / scale, unit, atol=1e-11)


def test_shapes_order_and_limits():
    law = LognormalGaps(sigma=0.5, mean=1.0)
    assert iterated_integrals(law, 2.0, 5).shape == (5,)
    assert iterated_integrals(law, np.zeros((2, 3)), 5).shape == (5, 2, 3)
    np.testing.assert_array_equal(iterated_integrals(law, np.zeros(3), 5), 0)
    np.testing.assert_array_equal(iterated_integrals(law, np.array([]), 5), np.empty((5, 0)))
    integrals = iterated_integrals(law, np.concatenate([[0], TIMES]), 80)
    assert np.all(integrals >= 0)
    assert np.all(np.diff(integrals, axis=0) <= 1e-12), "G_k falls in k"
    assert np.all(np.diff(integrals, axis=1) >= -1e-12), "G_k rises in t"


@pytest.mark.parametrize(
    ("times", "count", "line"), [([-1.0], 3, "0 or more"), ([math.inf], 3, "finite"), ([1.0], 0, "count=0")]
)
def test_bad_input_is_one_line(times, count, line):
    with pytest.raises(InputError, match=line) as error:
        iterated_integrals(LognormalGaps(1.0, 1.0), times, count)
    assert "\n" not in str(error.value)
