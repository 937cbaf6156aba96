"""Tails to full relative accuracy: against closed forms, against the cdf, and where N is huge."""

from __future__ import annotations

import numpy as np
import pytest
from exact_workloads import small_workloads
from scipy.stats import norm, poisson

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks
from mfmc.laws.gaps import ExponentialGaps, GammaGaps
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.theory.compound_poisson import characteristic_time_cdf, displacement_cdf
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels
from mfmc.theory.exact_tails import characteristic_time_deviation, displacement_deviation
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload


@pytest.mark.parametrize("rate", [3.0, 1e3, 1e7])
def test_single_turns_of_constant_size_are_poisson(rate):
    workload = Workload(rate, ExponentialGaps(1.0), FixedTurns(1), ConstantBlocks(5, 1))
    capacity, mean = 5 * rate, rate * 1.3
    law = poisson(mean)
    for deviations in (0.02, 1.0, 4.0, 10.0, 25.0):
        epsilon = deviations * np.sqrt(mean) / rate
        low, high = deviation_levels(DisplacementLaw(workload).mean(1.3), capacity * epsilon)
        expected = law.cdf(low // 5) + law.sf(high // 5)
        assert displacement_deviation(workload, capacity, epsilon, 1.3) == pytest.approx(expected, rel=2e-8)


@pytest.mark.parametrize("name", small_workloads(1.0))
def test_agrees_with_the_cdf_where_that_has_digits(name):
    capacity = 100
    workload = small_workloads(capacity / 20)[name]
    for accounting in workload.accountings:
        center = characteristic_time(workload, capacity, accounting)
        epsilons = np.array([0.01, 0.3, 0.8])
        low, high = deviation_levels(DisplacementLaw(workload, accounting).mean(center), capacity * epsilons)
        cdf = [displacement_cdf(workload, x, center, accounting) for x in (low, high)]
        ours = displacement_deviation(workload, capacity, epsilons, center, accounting)
        assert ours == pytest.approx(cdf[0] + 1 - cdf[1], abs=1e-12)
        delays = center * np.array([0.02, 0.5, 2.0])
        cdf = [
            characteristic_time_cdf(workload, np.nextafter(center + s * delays, -9), capacity, 1, accounting)
            for s in (-1, 1)
        ]
        ours = characteristic_time_deviation(workload, capacity, delays, 1, accounting)
        assert ours == pytest.approx(cdf[0] + 1 - cdf[1], abs=1e-12)


def test_a_tagged_size_that_is_not_random_only_shifts_the_threshold():
    capacity = 3000
    workload = Workload(capacity / 20, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 8), ConstantBlocks(3, 4))
    center = characteristic_time(workload, capacity)
    passage = characteristic_time_deviation(workload, capacity, 0.6 * center, 3)
    early = 1 - displacement_cdf(workload, capacity - 11, 0.4 * center)
    late = displacement_cdf(workload, capacity - 11, 1.6 * center)
    assert 1e-9 < passage < 1e-7
    assert passage == pytest.approx(early + late, rel=1e-5)


def test_tends_to_the_normal_law_at_no_greater_cost():
    workload, capacity = small_workloads(1e12 / 20)["span 5"], 10**12
    center = characteristic_time(workload, capacity)
    spread = np.sqrt(float(DisplacementLaw(workload).cumulant(2, center)))
    deviations = np.array([0.1, 3.0, 15.0, 30.0])
    ours = displacement_deviation(workload, capacity, deviations * spread / capacity, center)
    assert ours == pytest.approx(2 * norm.sf(deviations), rel=2e-3)


def test_messages():
    workload = small_workloads(5.0)["span 5"]
    for call in (
        lambda: displacement_deviation(workload, 100, 0.0, 1.0),
        lambda: displacement_deviation(workload, 100, 0.1, 0.0),
        lambda: characteristic_time_deviation(workload, -1, 0.1, 1),
        lambda: characteristic_time_deviation(workload, 100, 0.1, 99),
    ):
        with pytest.raises(InputError):
            call()
