"""The refined mean field: the oracle's c, and errors of order N^-2 in every accounting and lattice."""

from __future__ import annotations

import numpy as np
import pytest
from exact_workloads import small_workloads
from reference_workloads import LAWS, reference_workload

from mfmc.laws.blocks import ConstantBlocks, PoissonBlocks
from mfmc.laws.gaps import EmpiricalGaps, ExponentialGaps, GammaGaps, UniformGaps
from mfmc.laws.turns import GeometricTurns
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import hit_ratio
from mfmc.theory.refined import hit_ratio_refined, refined_coefficient, refined_hit_ratio
from mfmc.workload import Workload


@pytest.mark.parametrize("name", LAWS)
def test_oracle(oracle, name):
    case = oracle[name]
    workload = reference_workload(name, case["lambda0"], 1024)
    assert refined_coefficient(workload, 1024) == pytest.approx(case["refined_coefficient"], rel=1e-8)


def scaled_errors(build, accounting, capacities):
    return np.array(
        [
            (hit_ratio_exact(build(n), n, accounting) - hit_ratio_refined(build(n), n, accounting)) * n**2
            for n in capacities
        ]
    )


@pytest.mark.parametrize("accounting", ["whole", "practical"])
@pytest.mark.parametrize("name", LAWS)
def test_error_is_of_order_two(oracle, name, accounting):
    errors = scaled_errors(
        lambda n: reference_workload(name, oracle[name]["lambda0"], n), accounting, (1024, 4096, 16384)
    )
    assert errors[:2] == pytest.approx([errors[2]] * 2, rel=0.3)
    assert errors[1] == pytest.approx(errors[2], rel=0.06)


@pytest.mark.parametrize("accounting", ["whole", "practical", "token"])
def test_error_is_of_order_two_in_tokens(accounting):
    errors = scaled_errors(lambda n: small_workloads(n / 20)["tokens"], accounting, (500, 2000, 8000))
    assert errors == pytest.approx([errors[-1]] * 3, rel=0.25)


@pytest.mark.parametrize("remainder", [0, 2, 4])
def test_lattice_of_span_5(remainder):
    """c depends on N mod 5; without the lattice terms the error would grow like N."""

    def build(n):
        return Workload(n / 60, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 8), ConstantBlocks(5, 5))

    capacities = (1000 + remainder, 4000 + remainder, 16000 + remainder)
    assert scaled_errors(build, "whole", capacities) == pytest.approx(
        [scaled_errors(build, "whole", capacities[2:])[0]] * 3, rel=0.2
    )
    shift = refined_coefficient(build(1004), 1004) - refined_coefficient(build(1000), 1000)
    profile = build(1000).profile()
    slope = (hit_ratio(build(1000), 1001) - hit_ratio(build(1000), 999)) / 2 * 1000
    assert shift == pytest.approx(-4 * slope, rel=0.02)
    assert profile.reuse.support[0] == 5


def test_a_memory_too_small_for_the_expansion_gets_the_exact_value():
    workload = Workload(1.5, ExponentialGaps(135.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    refined = refined_hit_ratio(workload, 1)  # limit + c/N would be negative
    assert not refined.applies and "N=1 is too small" in refined.statement
    assert refined.value == hit_ratio_exact(workload, 1)


def test_says_where_it_does_not_apply():
    turns, blocks = GeometricTurns(0.6, 8), ConstantBlocks(3, 4)
    probe = Workload(20.0, UniformGaps(0.3, 0.9), turns, blocks)
    # A capacity at which T_C sits on the jump of the density at 0.9.
    capacity = float(
        20.0 * (probe.profile().allocated * 0.9 + probe.profile().reusable * probe.gaps.residence(0.9))
    )
    kinked = refined_hit_ratio(probe, capacity)
    assert not kinked.applies and "0.9" in kinked.statement
    assert kinked.value == hit_ratio_exact(probe, capacity)
    assert kinked.coefficient == pytest.approx(capacity * (kinked.value - kinked.mean_field))
    # At the jump the distance shrinks like N^-1/2: no c would do.
    larger = refined_hit_ratio(probe.scaled(100), 100 * capacity)
    assert larger.coefficient / kinked.coefficient > 5
    # Far from it the same law has an expansion.
    smooth = refined_hit_ratio(probe.scaled(1e4), 0.6e4 * capacity)
    assert smooth.applies
    assert smooth.value == pytest.approx(hit_ratio_exact(probe.scaled(1e4), 0.6e4 * capacity), abs=1e-9)
    assert hit_ratio_refined(probe, capacity) == kinked.value
    samples = EmpiricalGaps(np.random.default_rng(0).exponential(size=500))
    assert not refined_hit_ratio(Workload(20.0, samples, turns, blocks), 300).applies
    assert refined_hit_ratio(Workload(20.0, ExponentialGaps(1.0), turns, blocks), 300).applies
