"""The mean-field limit: oracle values, closed forms, inverses, and gradients through T_C."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_workloads import LAWS, reference_workload

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, GammaGaps, LomaxGaps, UniformGaps
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import (
    capacity_for,
    characteristic_time,
    hit_ratio,
    hit_ratio_slope,
    mean_displacement,
)
from mfmc.theory.refined import hit_ratio_refined
from mfmc.workload import Workload


@pytest.mark.parametrize("name", LAWS)
def test_every_oracle_value(name, oracle):
    case, capacity = oracle[name], 1024
    workload = reference_workload(name, case["lambda0"], capacity)
    assert characteristic_time(workload, capacity) == pytest.approx(case["T_C"], rel=1e-9)
    assert hit_ratio(workload, capacity) == pytest.approx(case["h_inf"], rel=1e-9)
    assert characteristic_time(workload, capacity, "practical") == pytest.approx(case["T_C_prac"], rel=1e-9)
    assert hit_ratio(workload, capacity, "practical") == pytest.approx(case["h_prac_inf"], rel=1e-9)
    for multiple, value in case["d"].items():
        time = float(multiple) * case["mu_W"]
        assert mean_displacement(workload, time) / capacity == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("mean_gap, expected", [(135.0, 0.171784), (90.0, 0.247641)])
def test_estimator_values_of_the_paper(mean_gap, expected):
    """A_R = 38.9092, A_H_hash = 22.5178, E[B] = 12.9220, rate 1.5/s, N = 2275, by the formula alone."""
    a_r, a_h, e_b, rate, capacity = 38.9092, 22.5178, 12.9220, 1.5, 2275

    def displaced(t: float) -> float:
        return rate * (e_b * t + a_h * mean_gap * -math.expm1(-t / mean_gap))

    low, high = 0.0, 1e4
    for _ in range(200):
        low, high = ((low + high) / 2, high) if displaced((low + high) / 2) < capacity else (low, (low + high) / 2)
    assert a_h / a_r * -math.expm1(-low / mean_gap) == pytest.approx(expected, abs=2e-6)


def test_scaling_leaves_the_limit_unchanged():
    workload = reference_workload("lognormal_gaps", 0.03, 1000)
    assert hit_ratio(workload.scaled(17.0), 17_000) == pytest.approx(hit_ratio(workload, 1000), rel=1e-13)


@given(
    st.floats(0.05, 0.9), st.floats(0.2, 30.0), st.floats(0.05, 0.95),
    st.sampled_from([ExponentialGaps(2.0), GammaGaps(0.4, 1.0), LomaxGaps(1.5, 3.0), UniformGaps(0.5, 2.0)]),
)
@settings(max_examples=60)
def test_capacity_for_inverts_the_hit_ratio(continuation, rate, share, gaps):
    workload = Workload(rate, gaps, GeometricTurns(continuation), PoissonBlocks(1.0, 2.0))
    for accounting in ("whole", "practical"):
        target = share * workload.profile(accounting).reuse_ceiling
        capacity = capacity_for(workload, target, accounting)
        assert hit_ratio(workload, capacity, accounting) == pytest.approx(target, rel=1e-9)
        assert mean_displacement(
            workload, characteristic_time(workload, capacity, accounting), accounting
        ) == pytest.approx(capacity, rel=1e-12)


def test_slope_is_the_derivative_in_capacity():
    workload = reference_workload("single_shot_heavy", 0.14, 1000)
    step = 1e-3
    numeric = (hit_ratio(workload, 1000 + step) - hit_ratio(workload, 1000 - step)) / (2 * step)
    assert hit_ratio_slope(workload, 1000) == pytest.approx(numeric, rel=1e-7)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("quantity", [characteristic_time, hit_ratio])
def test_gradients_against_finite_differences(name, quantity):
    capacity = 1000.0
    workload = reference_workload(name, 0.03, capacity)
    gradient = jax.grad(lambda w: quantity(w, capacity))(workload)
    step = 1e-5

    def central(change) -> float:
        return (quantity(change(step), capacity) - quantity(change(-step), capacity)) / (2 * step)

    rate = central(lambda h: dataclasses.replace(workload, arrival_rate=workload.arrival_rate + h))
    mean = central(
        lambda h: dataclasses.replace(workload, gaps=dataclasses.replace(workload.gaps, mean=workload.gaps.mean + h))
    )
    assert gradient.arrival_rate == pytest.approx(rate, rel=1e-6)
    assert gradient.gaps.mean == pytest.approx(mean, rel=1e-6)


def test_jit_vmap_and_second_derivatives():
    workload = reference_workload("scm_poisson_blocks", 0.035, 1000)
    values = jax.jit(jax.vmap(lambda c: hit_ratio(workload, c)))(np.array([500.0, 1000.0]))
    np.testing.assert_allclose(values, [hit_ratio(workload, c) for c in (500, 1000)], rtol=1e-12)
    second = jax.grad(jax.grad(lambda c: hit_ratio(workload, c)))(1000.0)
    step = 0.1
    numeric = (hit_ratio_slope(workload, 1000 + step) - hit_ratio_slope(workload, 1000 - step)) / (2 * step)
    assert second == pytest.approx(numeric, rel=1e-5)


def test_gaps_with_a_shortest_length():
    """Until the first gap can end, only the lower bound of T_C's bracket is attained."""
    workload = Workload(10.0, UniformGaps(5.0, 6.0), FixedTurns(2), ConstantBlocks(1, 1))
    assert characteristic_time(workload, 30) == pytest.approx(1.0)  # 10 (2 t + t) = 30
    assert hit_ratio(workload, 30) == 0


@pytest.mark.parametrize("capacity", [0, -3, math.inf, math.nan, "2275", [1000, 2275], np.array([1000, 2275]), None])
@pytest.mark.parametrize("function", [characteristic_time, hit_ratio, hit_ratio_exact, hit_ratio_refined])
def test_bad_capacity(function, capacity):
    with pytest.raises(InputError, match=r"capacity=.*: expected one positive, finite number"):
        function(reference_workload("scm_poisson_blocks", 0.03, 1000), capacity)


def test_hit_ratio_above_the_ceiling_is_refused():
    with pytest.raises(InputError, match=r"less than the reuse ceiling 0\.7"):
        capacity_for(reference_workload("scm_poisson_blocks", 0.03, 1000), 0.7)
