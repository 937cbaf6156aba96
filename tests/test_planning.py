"""Capacity planning: inverses, derivatives against differences, bytes of a cache, the knee against a grid."""

from __future__ import annotations

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.estimator import partial_workload
from mfmc.laws.blocks import PoissonBlocks
from mfmc.laws.gaps import (
    EmpiricalGaps,
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    UniformGaps,
)
from mfmc.laws.turns import GeometricTurns
from mfmc.models import GIB, KVModel, Layers
from mfmc.planning import Economics, best_capacity, cache_bytes, exact_capacity, sensitivities
from mfmc.planning.sensitivity import smoothed
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import capacity_for, characteristic_time, hit_ratio
from mfmc.workload import Workload

QWEN = KVModel("Qwen3-8B", (Layers(36, 8, 128),))
SMALL = Workload(2.0, ExponentialGaps(50.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
GAPS = [
    ExponentialGaps(135.0),
    GammaGaps(2.0, 135.0),
    LognormalGaps(1.0, 135.0),
    UniformGaps(10.0, 260.0),
    HyperexponentialGaps((0.5, 0.5), (20.0, 250.0)),
    EmpiricalGaps(np.random.default_rng(0).exponential(135, 400)),
]


def paper(gaps=None, rate=1.5):
    return partial_workload(rate, gaps or ExponentialGaps(135.0), 38.9092, 22.5178, 12.9220)


def test_the_papers_target_is_the_papers_memory():
    ratio = hit_ratio(paper(), 2275, "practical")
    assert capacity_for(paper(), ratio, "practical") == pytest.approx(2275, rel=1e-10)
    assert 2275 * QWEN.block_bytes(128) / GIB == pytest.approx(39.990, abs=1e-3)
    with pytest.raises(InputError, match="reuse ceiling"):
        capacity_for(paper(), 0.6, "practical")


def test_exact_capacity_inverts_the_exact_law():
    capacity = exact_capacity(SMALL, 0.3)
    assert hit_ratio_exact(SMALL, capacity - 1) < 0.3 <= hit_ratio_exact(SMALL, capacity)
    assert abs(hit_ratio_exact(SMALL, capacity_for(SMALL, 0.3)) - 0.3) > 1e-3
    near = exact_capacity(SMALL, 0.3, tolerance=2e-3)
    assert hit_ratio_exact(SMALL, near) == pytest.approx(0.3, abs=2e-3)


@pytest.mark.parametrize("gaps", GAPS, ids=lambda law: type(law).__name__)
def test_sensitivities_are_derivatives(gaps):
    found = sensitivities(paper(gaps), 2275, "practical")
    assert found.hit_ratio == pytest.approx(hit_ratio(paper(gaps), 2275, "practical"), rel=1e-9)
    gaps = smoothed(gaps)
    step = 1e-6  # within one piece of the empirical law
    by_capacity = np.diff([hit_ratio(paper(gaps), 2275 * (1 + s), "practical") for s in (-step, step)]) / (
        2 * step
    )
    by_rate = np.diff([hit_ratio(paper(gaps, 1.5 * (1 + s)), 2275, "practical") for s in (-step, step)]) / (
        2 * step
    )
    assert found.per_block * 2275 == pytest.approx(by_capacity[0], rel=1e-4)
    assert found.per_arrival_rate * 1.5 == pytest.approx(by_rate[0], rel=1e-4)
    # Stretching all gaps is speeding up all arrivals: only rate times gap counts.
    assert found.one_percent_mean_gap == pytest.approx(found.one_percent_arrival_rate, rel=1e-6)


def test_gaps_by_a_coarse_clock_have_the_sensitivity_of_their_law():
    """Gaps rounded to 10 s: dh/dN as without, though F jumps at every tick."""
    exact = sensitivities(paper(), 2275, "practical").one_percent_capacity
    seconds = np.random.default_rng(3).exponential(135.0, 20_000)
    for ticks in (seconds, np.maximum(np.round(seconds, -1), 10)):
        found = sensitivities(paper(EmpiricalGaps(ticks)), 2275, "practical")
        assert found.one_percent_capacity == pytest.approx(exact, rel=0.15)


def test_the_derivative_by_the_mean_gap_is_that_of_the_law():
    found = sensitivities(paper(), 2275, "practical")
    ratios = [hit_ratio(paper(ExponentialGaps(135.0 + s)), 2275, "practical") for s in (-1e-3, 1e-3)]
    assert found.per_mean_gap == pytest.approx((ratios[1] - ratios[0]) / 2e-3, rel=1e-5)


def test_bytes_of_a_full_cache():
    held = cache_bytes(QWEN, 128, SMALL, SMALL, "whole")
    assert held(1000) == 1000 * QWEN.block_bytes(128)
    layers = (Layers(1, 1, 1), Layers(1, 1, 1, window=64))
    window = KVModel("half windowed", layers, policy="window")
    held = cache_bytes(window, 16, SMALL, SMALL, "whole")
    # By hand, from who is in the cache: at rate (b(r) T + a(r) I(T)), with 4 bytes a token in each layer.
    time = float(characteristic_time(SMALL, 1000))
    profile = SMALL.profile()
    total = 0.0
    for spectrum, weight in (
        (profile.histories.terminal, time),
        (profile.reuse, float(SMALL.gaps.residence(time))),
    ):
        tokens = 16 * spectrum.support
        total += 2.0 * weight * spectrum.weight @ (4.0 * (tokens + np.minimum(tokens, 64)))
    assert held(1000) == pytest.approx(total, rel=1e-9)
    assert 0.5 < held(1000) / (1000 * window.block_bytes(16)) < 1


def test_the_knee_is_the_lowest_point():
    money = Economics(0.002, 0.05, cache_bytes(QWEN, 128, SMALL, SMALL, "whole"), accessed_tokens=5000.0)
    best = best_capacity(SMALL, money)
    grid = np.geomspace(1, 1e5, 400)
    costs = [money.hourly(SMALL, n, "whole")["cost"] for n in grid]
    assert money.hourly(SMALL, best, "whole")["cost"] <= min(costs) * (1 + 1e-9)
    parts = money.hourly(SMALL, best, "whole")
    assert parts["cost"] == pytest.approx(parts["memory_cost"] + parts["prefill_cost"])
    assert best_capacity(SMALL, Economics(1e9, 0.05, money.bytes_of, 5000.0)) == 0
