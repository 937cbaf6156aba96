"""The Gaussian limit: its covariance against simulation and exact variances, its sup against Brownian
motion.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from exact_workloads import small_workloads
from scipy.stats import kstwobign, norm

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks
from mfmc.laws.gaps import ExponentialGaps, GammaGaps
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.fluctuations import GaussianLimit, displacement_covariance, gaussian_limit
from mfmc.workload import Workload


@pytest.mark.parametrize("name", [n for n in small_workloads(1.0)])
def test_diagonal_is_the_exact_variance(name):
    workload = small_workloads(5.0)[name]
    times = 1.5 * np.arange(1, 17) / 16
    covariance = displacement_covariance(workload, 1.5, 16)
    assert np.diagonal(covariance) == pytest.approx(DisplacementLaw(workload).cumulant(2, times), rel=3e-5)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert covariance == pytest.approx(covariance.T, rel=1e-12)


def simulated_covariance(workload, times, conversations, seed):
    """arrival_rate int Phi_s Phi_t, by drawing conversations whose first access falls anywhere in a long
    past.
    """
    rng, past = np.random.default_rng(seed), 16.0
    pmf, shape = workload.profile().turn_pmf, getattr(workload.gaps, "shape", 1.0)
    turns, longest = rng.choice(pmf.size, size=conversations, p=pmf), pmf.size - 1
    waits = rng.gamma(shape, workload.gaps.mean / shape, size=(conversations, longest - 1))
    first = rng.uniform(-past, times[-1], (conversations, 1))
    access = np.concatenate((first, first + np.cumsum(waits, axis=1)), axis=1)
    real = np.arange(1, longest + 1) <= turns[:, None]
    size = np.cumsum([workload.blocks.first] + [workload.blocks.later] * (longest - 1))
    # The mass moved by time t is R at the last access in (0, t], whatever happened before.
    moved = [np.where(real & (access > 0) & (access <= t), size, 0).max(axis=1) for t in times]
    product = float(workload.arrival_rate) * (past + times[-1]) * moved[0] * moved[1]
    return product.mean(), product.std() / np.sqrt(conversations)


@pytest.mark.parametrize("gaps", [ExponentialGaps(0.7), GammaGaps(3.0, 0.8)])
def test_covariance_against_simulation(gaps):
    workload = Workload(2.0, gaps, GeometricTurns(0.7, 6), ConstantBlocks(2, 3))
    covariance = displacement_covariance(workload, 2.0, 4)
    for i, j in ((0, 3), (1, 2)):
        estimate, error = simulated_covariance(workload, np.array([0.5, 0.5]) * (i + 1, j + 1), 400_000, i)
        assert abs(covariance[i, j] - estimate) < 5 * error
        # A mutant that forgets the later turns, c(s, t) = v(s), would be caught.
        assert abs(covariance[i, i] - estimate) > 5 * error


def test_single_turns_give_brownian_motion():
    """With one turn a conversation D_N is compound Poisson in t: sup |B| has a known law, which bridges must
    hit.
    """
    workload = Workload(3.0, ExponentialGaps(1.0), FixedTurns(1), ConstantBlocks(2, 1))
    limit = gaussian_limit(workload, 30.0, 5.0, points=32)
    assert limit.covariance == pytest.approx(
        3 * 4 / 30 * np.minimum.outer(limit.times, limit.times), rel=1e-9
    )
    paths, level = 20_000, 1.3 * np.sqrt(2.0)
    survival = limit.sup_survival(jax.random.key(1), level, paths)
    # P(sup_[0,1] |B| <= x) = sum_k (-1)^k (Phi((2k+1) x) - Phi((2k-1) x)).
    k = np.arange(-20, 21)
    exact = 1 - np.sum((-1.0) ** k * (norm.cdf((2 * k + 1) * 1.3) - norm.cdf((2 * k - 1) * 1.3)))
    assert abs(survival - exact) < 5 * np.sqrt(exact * (1 - exact) / paths)
    # Without the bridges the grid would miss a good part of it.
    values = np.random.default_rng(0).standard_normal((paths, 32)) @ np.linalg.cholesky(limit.covariance).T
    assert exact - np.mean(np.abs(values).max(axis=1) > level) > 10 * np.sqrt(exact * (1 - exact) / paths)


def test_brownian_bridge_has_the_law_of_kolmogorov():
    times = np.arange(1, 40) / 40
    bridge = GaussianLimit(times, np.minimum.outer(times, times) - np.outer(times, times))
    samples = bridge.sup_samples(jax.random.key(2), 20_000)
    # The last cell, from 39/40 to 1, is left out: it can hold the sup only with negligible probability.
    for x in (0.6, 0.85, 1.2):
        exact = kstwobign.cdf(x)
        assert abs(np.mean(samples <= x) - exact) < 5 * np.sqrt(exact * (1 - exact) / 20_000) + 2e-3


def test_quantiles_are_reproducible_and_do_not_depend_on_the_grid():
    workload = Workload(2.0, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 6), ConstantBlocks(2, 3))
    coarse, fine = (gaussian_limit(workload, 20.0, 2.0, points) for points in (24, 96))
    first, error = coarse.sup_quantiles(jax.random.key(3), [0.5, 0.95])
    again, _ = coarse.sup_quantiles(jax.random.key(3), [0.5, 0.95])
    assert np.array_equal(first, again)
    other, other_error = fine.sup_quantiles(jax.random.key(4), [0.5, 0.95])
    assert np.all(np.abs(first - other) < 5 * np.hypot(error, other_error) + 0.004 * first)
    with pytest.raises(InputError):
        coarse.sup_quantiles(jax.random.key(3), 1.0)
    with pytest.raises(InputError):
        gaussian_limit(workload, 20.0, -1.0)
