"""The time-out sweep: cases by hand, the definitions step by step, and known figures of a real trace."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfmc.errors import InputError
from mfmc.eviction import Scope, Steps, steps_from_arrays, steps_from_csv, sweep, timeout_grid

NAN = math.nan


@pytest.fixture(scope="module")
def by_hand() -> Steps:
    """Five steps: ordinary, compacted, without a gap, and served beyond what its growth explains."""
    return steps_from_arrays(
        session=["s"] * 5,
        total=[100, 150, 120, 200, 260],
        prefix=[0, 100, 60, 190, 250],
        output=[10, 20, 0, 0, 7],
        gap=[NAN, 5.0, 50.0, NAN, 500.0],
        generation=[1.0, 2.0, 3.0, 4.0, NAN],
        kind=["human", "tool", "human", "human", "tool"],
    )


def test_fresh_tokens_by_hand(by_hand: Steps) -> None:
    # step 1 grew by 50, of which 10 are output; step 2 shrank; step 4 grew by 60, all but 10 of it served
    assert by_hand.fresh.tolist()[1:] == [40, 0, 10, 10]
    assert by_hand.cacheable.tolist()[1:] == [110, 120, 190, 250]
    assert by_hand.covered.tolist() == [False, True, True, False, True]


def test_sweep_by_hand(by_hand: Steps) -> None:
    everything, human, tool = sweep(by_hand, np.array([1.0, 5.0, 10.0, 50.0, 1000.0]))
    assert (everything.scope, human.scope, tool.scope) == ("all", "kind=human", "kind=tool")
    total, fresh = 150 + 120 + 260, 40 + 0 + 10
    served = np.array([0, 110, 110, 230, 480])  # a gap equal to the time-out survives it
    assert np.allclose(everything.hit_rate, served / total, rtol=1e-15)
    assert np.allclose(everything.amplification, (fresh + 480 - served) / fresh, rtol=1e-15)
    assert np.allclose(everything.storage_ratio, np.array([3, 15, 25, 105, 555]) / 10, rtol=1e-15)
    assert everything.optimal_hit_rate == pytest.approx(480 / total)
    assert everything.unlimited_storage_ratio == pytest.approx(55.5)
    assert everything.coverage.__dict__ == {
        "steps": 5, "covered": 3, "session_first": 1, "without_tokens": 0, "without_gap": 1,
    }  # fmt: skip
    # kinds: a part's generation is that of all its steps, covered or not
    assert np.allclose(human.storage_ratio, np.minimum(50, everything.timeouts) / (1 + 3 + 4))
    assert tool.coverage.covered == 2


def test_deployed_cache_by_hand(by_hand: Steps) -> None:
    everything, human, _ = sweep(by_hand)
    assert everything.deployed is not None and human.deployed is not None
    assert everything.deployed.hit_rate == pytest.approx((100 + 60 + 250) / 530)
    assert everything.deployed.amplification == pytest.approx((50 + 60 + 10) / 50)
    assert (
        everything.deployed.effective_timeout == 500.0
    )  # 110, 230, 480 served after each gap; 410 are wanted
    # without fresh tokens any prefill is infinitely more than needed
    assert human.deployed.amplification == math.inf
    assert human.redundant_ratio.tolist()[-1] == 0.0 and human.amplification.tolist()[-1] == 1.0


def test_deployed_cache_better_than_any_timeout() -> None:
    steps = steps_from_arrays(["s", "s"], total=[100, 100], prefix=[0, 100], output=[0, 0], gap=[NAN, 9.0])
    assert sweep(steps)[0].deployed.effective_timeout == 9.0
    more = steps_from_arrays(["s"] * 2, total=[10, 20], prefix=[0, 0], output=[0, 0], gap=[NAN, 9.0])
    assert sweep(more)[0].deployed.effective_timeout == 0.0
    assert math.isnan(sweep(more)[0].storage_ratio[0])  # no span of generation is known


def test_no_prefix_no_deployed_cache(by_hand: Steps) -> None:
    steps = steps_from_arrays(["s", "s"], total=[100, 150], output=[10, 0], gap=[NAN, 1.0])
    assert sweep(steps)[0].deployed is None
    assert steps.fresh.tolist()[1] == 40


def test_nothing_to_sweep() -> None:
    with pytest.raises(InputError, match="none of 2 steps"):
        sweep(steps_from_arrays(["a", "b"], total=[1, 1], output=[0, 0], gap=[NAN, 1.0]))


@st.composite
def tables(draw: st.DrawFn) -> Steps:
    count = draw(st.integers(2, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    total = rng.integers(0, 50, count)
    gap = rng.choice([NAN, 0.0, 1.0, 2.0, 30.0, 400.0], count)
    return steps_from_arrays(
        rng.integers(0, 4, count),
        total,
        rng.integers(0, 10, count),
        gap,
        prefix=rng.integers(0, total + 1),
        generation=rng.choice([NAN, 1.0, 7.0], count),
        provider=rng.choice(["x", "y"], count),
        kind=rng.choice(["human", "tool"], count),
    )


@given(tables())
def test_sweep_is_its_definition(steps: Steps) -> None:
    """Step by step, as the source defines it."""
    if not steps.covered.any():
        return
    timeouts = np.array([0.5, 1.0, 10.0, 30.0, 1e4])
    for tradeoff in sweep(steps, timeouts):
        inside = np.array([_in(steps, i, tradeoff.scope) for i in range(len(steps))])
        for k, tau in enumerate(timeouts):
            total = served = fresh = redundant = idle = 0.0
            for i in range(1, len(steps)):
                first = steps.session[i] != steps.session[i - 1]
                empty = min(steps.total[i], steps.total[i - 1]) == 0
                if not inside[i] or first or empty or math.isnan(steps.gap[i]):
                    continue
                growth = max(0, steps.total[i] - steps.total[i - 1])
                new = min(max(growth - steps.output[i - 1], 0), steps.total[i] - steps.prefix[i])
                total += steps.total[i]
                fresh += new
                idle += min(steps.gap[i], tau)
                if steps.gap[i] <= tau:
                    served += steps.total[i] - new
                else:
                    redundant += steps.total[i] - new
            assert tradeoff.hit_rate[k] == pytest.approx(served / total, abs=1e-12)
            if fresh:
                assert tradeoff.amplification[k] == pytest.approx((fresh + redundant) / fresh)
            generation = np.nansum(steps.generation[inside])
            if generation:
                assert tradeoff.storage_ratio[k] == pytest.approx(idle / generation)


def _in(steps: Steps, i: int, scope: str) -> bool:
    names = {f"provider={steps.providers[steps.provider[i]]}", f"kind={steps.kinds[steps.kind[i]]}"}
    return scope == "all" or scope in names


@given(tables())
def test_curves_are_monotone_and_reach_their_limits(steps: Steps) -> None:
    if not steps.covered.any():
        return
    tradeoffs = sweep(steps, np.append(timeout_grid(), 1e9))
    for each in tradeoffs:
        assert (each.hit_rate[1:] >= each.hit_rate[:-1]).all()
        assert (each.amplification[1:] <= each.amplification[:-1]).all()
        assert each.hit_rate[-1] == pytest.approx(each.optimal_hit_rate) and each.amplification[-1] == 1
        assert np.allclose(each.redundant_ratio, 1 - 1 / each.amplification)
        known = np.isfinite(each.storage_ratio)
        assert (np.diff(each.storage_ratio[known]) >= 0).all()
        assert np.allclose(each.active_ratio[known] * (1 + each.storage_ratio[known]), 1)
        deployed = each.deployed
        assert deployed is not None
        if 0 < deployed.effective_timeout < math.inf:
            around = np.array([np.nextafter(deployed.effective_timeout, 0), deployed.effective_timeout])
            part = [Scope(each.scope, np.array([_in(steps, i, each.scope) for i in range(len(steps))]))]
            below, reached = sweep(steps, around, part)[0].hit_rate
            assert below < deployed.hit_rate <= reached
    kinds = [each for each in tradeoffs if each.scope.startswith("kind=")]
    if kinds:
        assert sum(each.coverage.covered for each in kinds) == tradeoffs[0].coverage.covered


def test_grid_has_its_landmarks() -> None:
    grid = timeout_grid()
    assert grid[0] == 1.0 and grid[-1] == 14400.0 and len(grid) < 300
    assert {60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0} <= set(grid)
    assert (np.diff(np.log10(grid)) < 1 / 59).all()
    with pytest.raises(InputError, match="0 < shortest < longest"):
        timeout_grid(10.0, 1.0)


def test_source_figures_on_a_real_trace(shared: Path) -> None:
    """The figures that the project's issue gives for the coding-agent trace."""
    everything, human, tool = sweep(steps_from_csv(shared / "traces" / "agentic_steps.csv.gz"))
    assert everything.coverage.covered == 24468 and everything.coverage.without_gap == 46
    assert everything.coverage.session_first == 355 and everything.coverage.steps == 24869
    assert round(everything.optimal_hit_rate, 6) == 0.989450
    assert round(everything.hit_rate_at(60.0), 6) == 0.800318
    assert round(everything.amplification_at(60.0), 4) == 18.9276
    assert everything.deployed is not None
    assert round(everything.deployed.hit_rate, 6) == 0.973292
    assert round(everything.deployed.amplification, 4) == 2.5316
    assert everything.deployed.effective_timeout == 2072.0
    assert human.coverage.covered + tool.coverage.covered == 24468
