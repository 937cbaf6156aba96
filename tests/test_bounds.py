"""Bounds: constants, domains, and that each is above the exact probability on a grid of workloads."""

from __future__ import annotations

import numpy as np
import pytest
from exact_workloads import small_workloads
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_workloads import reference_workload

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, GeometricBlocks, LognormalBlocks
from mfmc.laws.gaps import ExponentialGaps, GammaGaps, WeibullGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.theory.best_bound import best_hit_ratio_bound
from mfmc.theory.bounds import (
    bound_constants,
    characteristic_time_bound,
    hit_ratio_bound,
    hit_ratio_parts,
    largest_theta,
    log_mgf,
    pointwise_bound,
    second_moment_envelope,
    uniform_bound,
)
from mfmc.theory.compound_poisson import characteristic_time_cdf, displacement_cdf, hit_ratio_exact
from mfmc.theory.displacement_law import DisplacementLaw, deviation_levels
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.theory.sharp_bounds import (
    characteristic_time_chebyshev,
    characteristic_time_chernoff,
    pointwise_chebyshev,
    pointwise_chernoff,
    uniform_chebyshev,
    uniform_chernoff,
)
from mfmc.workload import Workload


def exact_deviation(workload, capacity, epsilon, time, accounting):
    """P(|D_N(time)/N - d(time)| > epsilon)."""
    low, high = deviation_levels(DisplacementLaw(workload, accounting).mean(time), capacity * epsilon)
    return (
        displacement_cdf(workload, low, time, accounting)
        + 1
        - displacement_cdf(workload, high, time, accounting)
    )


def test_constants_in_closed_form():
    """FixedTurns and constant blocks: every moment by hand. Sizes 2, 5, 8; lambda0 = 3/60."""
    workload = Workload(3.0, ExponentialGaps(2.0), FixedTurns(3), ConstantBlocks(2, 3))
    assert second_moment_envelope(workload, 5.0) == pytest.approx(3 * (5 * 64 + 2 * 2 * 64))
    constants = bound_constants(workload, 60, 5.0)
    assert constants.second_moment_envelope == pytest.approx(3 * 576 / 60)
    assert constants.largest_slope == pytest.approx(0.05 * (8 + 7))
    assert constants.smallest_slope == pytest.approx(0.05 * 8)
    assert constants.uniform_constant == pytest.approx(16 / 9 * 28.8 * (2 + 4 * 0.75 * 5))
    practical = bound_constants(workload, 60, 5.0, "practical")
    assert practical.largest_slope == pytest.approx(0.05 * (8 + 5))
    assert practical.second_moment_envelope == constants.second_moment_envelope
    assert pointwise_bound(workload, 60, [0.5, 1.0], 5.0) == pytest.approx([28.8 / 15, 28.8 / 60])
    assert uniform_bound(workload, 60, 0.5, 5.0) == pytest.approx(constants.uniform_constant / 60 * 8)
    assert log_mgf(workload, 0.1) == pytest.approx(0.8)
    assert log_mgf(workload, 0.1, power=2) == pytest.approx(0.8 + np.log(64))
    parts = hit_ratio_parts(workload)
    assert parts.reusable[1:] == pytest.approx([2, 7])
    assert parts.root_second_moments[1:] == pytest.approx([2, 7])
    assert parts.content == pytest.approx(15)
    assert parts.lipschitz == 0.5


def test_constants_of_the_oracle(oracle):
    for name, case in oracle.items():
        workload = reference_workload(name, case["lambda0"], 1024)
        constants = bound_constants(workload, 1024, 1.0)
        assert constants.smallest_slope == pytest.approx(case["lambda0"] * case["EB"], rel=1e-9)
        assert constants.largest_slope == pytest.approx(case["lambda0"] * (case["EB"] + case["AH"]), rel=1e-9)
        without_waiting = second_moment_envelope(workload, 3.0) - second_moment_envelope(workload, 2.0)
        assert without_waiting == pytest.approx(1024 * case["lambda0"] * case["EB2"], rel=1e-9)


def test_bound_22_by_hand():
    workload = Workload(3.0, ExponentialGaps(2.0), FixedTurns(3), ConstantBlocks(2, 3))
    center = characteristic_time(workload, 60)
    epsilon, theta, horizon = center / 2, 0.3, 3 * center
    envelope = 3 * (horizon * 64 + 4 * 64) / 60
    expected = 18 * envelope / (60 * (0.4 * epsilon) ** 2) + np.exp(
        8 * theta - theta * 0.4 / 3 * 60 * epsilon
    )
    assert characteristic_time_bound(workload, 60, epsilon, 2, horizon, theta) == pytest.approx(expected)
    root = np.sqrt(expected)
    tail = 2 * 64 * np.exp(8 * theta - theta * 3)
    assert hit_ratio_bound(workload, 60, epsilon, 1, theta, horizon) == pytest.approx(
        (0.5 * epsilon * 2 + 2 * root + tail) / 15
    )


def test_domains():
    workload = small_workloads(4.0)["two time scales"]
    center = characteristic_time(workload, 100)
    heavy = Workload(4.0, ExponentialGaps(1.0), GeometricTurns(0.5), LognormalBlocks(3, 4, sigma=1.0))
    geometric = Workload(4.0, ExponentialGaps(1.0), GeometricTurns(0.5), GeometricBlocks(3, 4))
    steep = Workload(4.0, WeibullGaps(0.5, 1.0), FixedTurns(3), ConstantBlocks(3, 4))
    single = Workload(4.0, ExponentialGaps(1.0), FixedTurns(1), ConstantBlocks(3, 4))
    still = Workload(
        4.0,
        ExponentialGaps(1.0),
        conversations=RecordedConversations.from_tokens([0, 0, 1], [64, 0, 90], [0, 0, 0], 64),
    )
    for message, call in (
        ("epsilon", lambda: uniform_bound(workload, 100, 1.5, 1.0)),
        ("epsilon", lambda: pointwise_bound(workload, 100, 0.0, 1.0)),
        ("horizon", lambda: second_moment_envelope(workload, -1.0)),
        ("less than T_C", lambda: characteristic_time_bound(workload, 100, center, 1)),
        (
            "more than T_C",
            lambda: characteristic_time_bound(workload, 100, center / 2, 1, horizon=center * 1.4),
        ),
        ("turn", lambda: characteristic_time_bound(workload, 100, center / 2, 11)),
        (
            "theta",
            lambda: characteristic_time_bound(geometric, 100, 0.1, 1, theta=largest_theta(geometric) * 1.01),
        ),
        ("truncation", lambda: hit_ratio_bound(workload, 100, center / 2, 10, 0.1)),
        ("B.3", lambda: log_mgf(heavy, 0.01)),
        ("maximum", lambda: largest_theta(heavy)),
        ("Lipschitz", lambda: hit_ratio_parts(steep)),
        ("second turn", lambda: hit_ratio_parts(single)),
        ("R_j >= j", lambda: hit_ratio_parts(still)),
        ("token", lambda: second_moment_envelope(workload, 1.0, "token")),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("name", small_workloads(1.0))
@pytest.mark.parametrize("capacity", [60, 1000])
def test_every_bound_is_above_the_exact_probability(name, capacity):
    workload = small_workloads(capacity / 20)[name]
    epsilons = np.array([0.05, 0.2, 0.6, 1.0])
    for accounting in workload.accountings:
        center = characteristic_time(workload, capacity, accounting)
        for time in (0.3 * center, 1.5 * center):
            exact = (
                np.array([exact_deviation(workload, capacity, e, time, accounting) for e in epsilons]) - 1e-12
            )
            chebyshev = pointwise_chebyshev(workload, capacity, epsilons, time, accounting)
            chernoff = pointwise_chernoff(workload, capacity, epsilons, time, accounting)
            assert np.all(chebyshev >= exact) and np.all(chernoff >= exact)
            assert np.all(
                pointwise_bound(workload, capacity, epsilons, time, accounting) >= chebyshev * (1 - 1e-9)
            )
            # The sup is at least the deviation at the horizon.
            assert np.all(uniform_chebyshev(workload, capacity, epsilons, time, accounting) >= exact)
            assert np.all(uniform_chernoff(workload, capacity, epsilons, time, accounting) >= exact)
            assert np.all(uniform_bound(workload, capacity, epsilons, time, accounting) >= exact)
        delays = center * np.array([0.1, 0.4, 0.9])
        cdf = [
            characteristic_time_cdf(workload, center + s * delays, capacity, 1, accounting) for s in (-1, 1)
        ]
        exact = cdf[0] + 1 - cdf[1] - 1e-12
        assert np.all(characteristic_time_chebyshev(workload, capacity, delays, 1, accounting) >= exact)
        assert np.all(characteristic_time_chernoff(workload, capacity, delays, 1, accounting) >= exact)
        paper = [characteristic_time_bound(workload, capacity, e, 1, accounting=accounting) for e in delays]
        assert np.all(np.array(paper) >= exact)


def test_chernoff_is_exponential_where_the_paper_is_polynomial():
    bounds, exact = [], []
    for capacity in (500, 1000, 2000):
        workload = small_workloads(capacity / 20)["span 5"]
        time = characteristic_time(workload, capacity)
        bounds.append(float(pointwise_chernoff(workload, capacity, 0.4, time)))
        exact.append(float(exact_deviation(workload, capacity, 0.4, time, "whole")))
    assert np.log(bounds[2] / bounds[1]) == pytest.approx(2 * np.log(bounds[1] / bounds[0]), rel=0.15)
    assert np.all(np.array(bounds) < 30 * np.array(exact))


@given(
    share=st.floats(0.01, 0.99),
    theta_share=st.floats(0.001, 0.99),
    truncation=st.integers(1, 7),
    late=st.floats(1.001, 3),
    accounting=st.sampled_from(["whole", "practical"]),
)
@settings(max_examples=40)
def test_best_bound_is_the_least_and_above_the_distance(share, theta_share, truncation, late, accounting):
    workload, capacity, best = _best(accounting)
    center = characteristic_time(workload, capacity, accounting)
    other = hit_ratio_bound(
        workload, capacity, share * center, truncation, theta_share * largest_theta(workload),
        horizon=center + late * share * center, accounting=accounting,
    )  # fmt: skip
    assert best.value <= other * (1 + 1e-9)
    assert best.value >= abs(
        hit_ratio_exact(workload, capacity, accounting) - hit_ratio(workload, capacity, accounting)
    )
    assert best.value == pytest.approx(
        hit_ratio_bound(workload, capacity, best.epsilon, best.truncation, best.theta, accounting=accounting)
    )


_found: dict = {}


def _best(accounting):
    capacity = 10**6
    workload = Workload(capacity / 20, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 8), ConstantBlocks(3, 2))
    if accounting not in _found:
        _found[accounting] = best_hit_ratio_bound(workload, capacity, accounting)
    return workload, capacity, _found[accounting]


def test_dependent_lengths_use_the_next_turn():
    """Where M may depend on the blocks, the tagged conversation has M > J: p divides by S_{J+1}."""
    workload = small_workloads(4.0)["length dependent"]
    parts, profile = hit_ratio_parts(workload), workload.profile()
    assert parts.survival[2] == pytest.approx(profile.survival(3))
    independent = small_workloads(4.0)["two time scales"]
    assert hit_ratio_parts(independent).survival[2] == pytest.approx(independent.profile().survival(2))
