"""The exact law against the oracle, against a brute-force FFT, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
from exact_workloads import small_workloads
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_workloads import LAWS, reference_workload

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, EmpiricalBlocks, LognormalBlocks
from mfmc.laws.gaps import EmpiricalGaps, ExponentialGaps, GammaGaps
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.theory.compound_poisson import (
    characteristic_time_cdf,
    characteristic_time_quantile,
    displacement_cdf,
    displacement_cumulant,
    displacement_log_mgf,
    displacement_quantile,
    hit_ratio_exact,
)
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.mean_field import characteristic_time, hit_ratio_slope, mean_displacement
from mfmc.workload import Workload

#: Where the oracle is off by more than 1e-9: the brute force below, which shares no code with it, decides
#: (1e-11).
ORACLE_ERROR = {("lognormal_gaps", "64"): 2e-7, ("lognormal_gaps", "256"): 3e-9}


def brute_pmfs(workload: Workload, times: np.ndarray, size: int, accounting: str) -> np.ndarray:
    """P(D_N(t) = x) for x < size, by a damped FFT of the jump measure: float64 [times, size]."""
    law = DisplacementLaw(workload, accounting)
    measure = law.intensity(law.integrals(times))
    length = 4 * size
    damping = 10 ** (-14 / length)
    kept = law.support < length
    dense = np.zeros((times.size, length))
    dense[:, law.support[kept]] = measure[:, kept] * damping ** law.support[kept]
    transform = np.exp(np.fft.rfft(dense, axis=1) - measure.sum(axis=1)[:, None])
    return np.fft.irfft(transform, n=length, axis=1)[:, :size] * damping ** -np.arange(size)


def brute_hit_ratio(workload: Workload, capacity: int, accounting: str, horizon: float) -> float:
    """THEORY B4 with composite Gauss-Legendre in t, graded towards 0 and cut at breakpoints of the
    density.
    """
    profile = workload.profile(accounting)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.concatenate(
        (horizon * 2.0 ** -np.arange(8, 60), np.linspace(horizon / 256, horizon, 100), [0.0])
    )
    edges = np.unique(np.concatenate((edges, [b for b in workload.gaps.breakpoints if b < horizon])))
    half = np.diff(edges)[:, None] / 2
    times = (edges[:-1, None] + half + half * nodes).ravel()
    resident = np.empty(times.size)
    fits = (profile.reuse.support <= capacity) & (profile.reuse.support > 0)
    sizes = profile.reuse.support[fits]
    tagged = sizes * profile.reuse.weight[fits] / profile.content
    for part in np.array_split(np.arange(times.size), 1 + times.size // 64):
        cdf = np.cumsum(brute_pmfs(workload, times[part], capacity + 1, accounting), axis=1)
        resident[part] = cdf[:, capacity - sizes] @ tagged
    return float((half * weights).ravel() @ (workload.gaps.density(times) * resident))


@pytest.mark.parametrize("name", LAWS)
def test_oracle(oracle, name):
    case = oracle[name]
    for key, accounting in (("h_exact", "whole"), ("h_prac_exact", "practical")):
        for capacity, expected in case.get(key, {}).items():
            ours = hit_ratio_exact(
                reference_workload(name, case["lambda0"], int(capacity)), int(capacity), accounting
            )
            assert abs(ours - expected) < ORACLE_ERROR.get((name, capacity), 1e-9), (key, capacity)
    workload, center = reference_workload(name, case["lambda0"], 1024), case["T_C"]
    points = case["cdf_D_1024_at_T_C"]
    assert displacement_cdf(workload, [float(x) for x in points], center) == pytest.approx(
        list(points.values()), abs=1e-9
    )
    shares = case["tau_cdf_1024_turn2"]
    times = center * np.array([float(x) for x in shares])
    assert characteristic_time_cdf(workload, times, 1024, 2) == pytest.approx(list(shares.values()), abs=1e-9)
    for share, expected in case["N_var"].items():
        variance = DisplacementLaw(workload).cumulant(2, float(share) * case["mu_W"])
        assert float(variance) / 1024 == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("capacity", [64, 256])
def test_brute_force_decides_where_the_oracle_is_off(oracle, capacity):
    workload = reference_workload("lognormal_gaps", oracle["lognormal_gaps"]["lambda0"], capacity)
    brute = brute_hit_ratio(workload, capacity, "whole", 12.0)
    assert hit_ratio_exact(workload, capacity) == pytest.approx(brute, abs=1e-10)


@pytest.mark.parametrize("name", small_workloads(1.0))
def test_hit_ratio_against_brute_force(name):
    capacity = 90
    workload = small_workloads(4.0)[name]
    horizon = min(14 * characteristic_time(workload, capacity), float(workload.gaps.quantile(1.0)))
    for accounting in workload.accountings:
        exact = hit_ratio_exact(workload, capacity, accounting)
        assert exact == pytest.approx(brute_hit_ratio(workload, capacity, accounting, horizon), abs=1e-10), (
            accounting
        )


@pytest.mark.parametrize("name", small_workloads(1.0))
def test_displacement_cdf_against_brute_force(name):
    workload = small_workloads(6.0)[name]
    x = np.arange(-2, 400)
    for accounting in workload.accountings:
        expected = np.cumsum(brute_pmfs(workload, np.array([0.9]), 400, accounting)[0])
        ours = displacement_cdf(workload, x, 0.9, accounting)
        assert ours[:2] == pytest.approx([0, 0], abs=0)
        assert ours[2:] == pytest.approx(expected, abs=1e-12)


def test_a_lattice_that_is_ignored_would_be_caught():
    """Mutant: thresholds taken as if D_N(t) could be any whole number, with blocks of 5."""
    workload = Workload(4.0, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 8), ConstantBlocks(5, 5))
    exact = hit_ratio_exact(workload, 90)
    assert hit_ratio_exact(workload, 94) == pytest.approx(exact, abs=1e-14)
    assert abs(hit_ratio_exact(workload, 92.5) - exact) < 1e-14
    assert abs(hit_ratio_exact(workload, 95) - exact) > 1e-3


@pytest.mark.parametrize("accounting", ["whole", "practical"])
@pytest.mark.parametrize("name", LAWS)
def test_cost_does_not_grow_with_the_capacity(name, accounting):
    """Ten decades of N; h(N) approaches h_inf as c/N. A cost that grew with N would never end."""
    errors = []
    for power in range(2, 13, 2):
        workload = reference_workload(name, 0.03, 10**power)
        exact = hit_ratio_exact(workload, 10**power, accounting)
        limit = workload.profile(accounting).reuse_ceiling * workload.gaps.cdf(
            characteristic_time(workload, 10**power, accounting)
        )
        errors.append((exact - limit) * 10**power)
    assert errors[2:5] == pytest.approx([errors[3]] * 3, rel=2e-3)


def test_heavy_blocks_cut_far_out():
    """Conversations of up to 3e4 blocks: few conversations or many, memory below the largest conversation or
    above.
    """
    blocks = LognormalBlocks(5, 8, sigma=1.6, maximum=8_000)

    def build(rate):
        return Workload(rate, ExponentialGaps(1.0), GeometricTurns(0.6, 4), blocks)

    assert build(1.0).profile().jumps.support[-1] > 25_000
    ratios = [
        hit_ratio_exact(build(capacity / 20), capacity) for capacity in (10**2, 10**3, 10**4, 10**6, 10**9)
    ]
    assert np.all(np.diff(ratios) > 0)
    assert (ratios[-2] - ratios[-1]) * 10**6 == pytest.approx((ratios[-3] - ratios[-1]) * 10**4, rel=0.1)


@given(
    rate=st.floats(0.5, 50),
    continuation=st.floats(0, 0.85),
    later=st.integers(1, 9),
    moment=st.floats(0.05, 4),
    accounting=st.sampled_from(["whole", "practical"]),
)
@settings(max_examples=25, deadline=None)
def test_law_of_displacement(rate, continuation, later, moment, accounting):
    workload = Workload(rate, GammaGaps(1.5, 1.0), GeometricTurns(continuation, 12), ConstantBlocks(3, later))
    law = DisplacementLaw(workload, accounting)
    mean, variance = float(law.mean(moment)), float(law.cumulant(2, moment))
    assert mean == pytest.approx(float(mean_displacement(workload, moment, accounting)))
    assert mean == pytest.approx(float(law.cumulant(1, moment)))
    x = np.arange(int(mean + 14 * np.sqrt(variance) + 60 * (3 + later)))
    cdf = displacement_cdf(workload, x, moment, accounting)
    assert np.all(np.diff(cdf) > -1e-13) and cdf[-1] == pytest.approx(1, abs=1e-12)
    survival = 1 - cdf
    assert survival.sum() == pytest.approx(mean, rel=1e-9)
    assert (2 * x + 1) @ survival - mean**2 == pytest.approx(variance, rel=1e-6)
    median = displacement_quantile(workload, 0.5, moment, accounting)
    assert displacement_cdf(workload, median, moment, accounting) >= 0.5
    assert displacement_cdf(workload, median - 1, moment, accounting) < 0.5


@pytest.mark.parametrize("accounting", ["whole", "practical"])
def test_characteristic_time_is_what_the_hit_ratio_averages(accounting):
    """Lemma D.6 with sizes that are not random: h(N) = sum_{j<M} R_j E[F(tau_C(j))] / A_R."""
    workload = Workload(4.0, GammaGaps(2.0, 1.0), FixedTurns(4), ConstantBlocks(3, 4))
    profile, capacity, half = workload.profile(accounting), 100, 7.0
    nodes, weights = np.polynomial.legendre.leggauss(120)
    times, total = half * (1 + nodes), 0.0
    for turn in range(1, 4):
        resident = 1 - characteristic_time_cdf(workload, times, capacity, turn, accounting)
        total += profile.turn_reuse(turn).moment(1) * float(
            half * weights @ (workload.gaps.density(times) * resident)
        )
    assert hit_ratio_exact(workload, capacity, accounting) == pytest.approx(total / profile.content, abs=1e-9)


def test_characteristic_time_quantiles_invert_the_cdf(oracle):
    case = oracle["scm_poisson_blocks"]
    workload = reference_workload("scm_poisson_blocks", case["lambda0"], 1024)
    probabilities = np.array([1e-6, 0.01, 0.5, 0.99])
    times = characteristic_time_quantile(workload, probabilities, 1024, 2)
    assert characteristic_time_cdf(workload, times, 1024, 2) == pytest.approx(probabilities, abs=1e-12)
    # A content larger than the memory is gone at once.
    assert characteristic_time_quantile(workload, 1e-3, 5, 6) == 0.0


def test_messages():
    workload = reference_workload("scm_poisson_blocks", 0.03, 100)
    for call in (
        lambda: hit_ratio_exact(workload, 0),
        lambda: displacement_cdf(workload, 3, -1.0),
        lambda: displacement_cdf(workload, np.nan, 1.0),
        lambda: characteristic_time_cdf(workload, 1.0, 100, 0),
        lambda: characteristic_time_quantile(workload, 1.0, 100, 1),
    ):
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize("accounting", ["whole", "practical", "token"])
def test_cumulants_are_derivatives_of_the_log_mgf(accounting):
    workload, step = small_workloads(3.0)["tokens"], 1e-3
    assert displacement_log_mgf(workload, 0.0, 1.2, accounting) == 0
    values = displacement_log_mgf(workload, step * np.array([-2, -1, 0, 1, 2]), 1.2, accounting)
    first = values @ np.array([1, -8, 0, 8, -1]) / (12 * step)
    second = values @ np.array([-1, 16, -30, 16, -1]) / (12 * step**2)
    assert first == pytest.approx(displacement_cumulant(workload, 1, 1.2, accounting), rel=1e-5)
    assert second == pytest.approx(displacement_cumulant(workload, 2, 1.2, accounting), rel=1e-4)
    # The mean has a closed form (15); the masses of THEORY B3 must reproduce it.
    means = displacement_cumulant(workload, 1, np.array([0.1, 1.0, 5.0]), accounting)
    assert means == pytest.approx(
        mean_displacement(workload, np.array([0.1, 1.0, 5.0]), accounting), rel=1e-9
    )


def test_recorded_gaps_with_thousands_of_knots():
    """A piecewise constant density: every knot is a breakpoint, and the integral is exact between them."""
    gaps = EmpiricalGaps(np.random.default_rng(1).lognormal(size=3000))
    workload = Workload(6.0, gaps, GeometricTurns(0.6, 8), ConstantBlocks(3, 4))
    exact = hit_ratio_exact(workload, 90)
    assert exact == pytest.approx(brute_hit_ratio(workload, 90, "whole", 10.0), abs=1e-10)


def test_recorded_gaps_of_long_conversations():
    """Half of the gaps within 1% of 1: the curve bends there, and is sampled closer."""
    rng = np.random.default_rng(1)
    gaps = EmpiricalGaps(np.concatenate([rng.lognormal(size=40), rng.uniform(0.99, 1.01, 40)]))
    workload = Workload(0.6, gaps, GeometricTurns(0.9, 30), ConstantBlocks(3, 4))
    exact = hit_ratio_exact(workload, 150, "practical")
    assert exact == pytest.approx(brute_hit_ratio(workload, 150, "practical", 12.0), abs=1e-5)


def test_blocks_that_almost_lie_on_a_coarser_lattice():
    """Sizes are multiples of 5 but for one in 10^4: the characteristic function comes back at 2 pi / 5."""
    almost = EmpiricalBlocks((0, 0, 0, 0, 0.9999, 0.0001), (0, 0, 0, 0, 0.9999, 0.0001))

    def build(capacity, blocks):
        return Workload(capacity / 40, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 6), blocks)

    exact = hit_ratio_exact(build(300, almost), 300)
    assert exact == pytest.approx(brute_hit_ratio(build(300, almost), 300, "whole", 8.0), abs=1e-10)
    # Few odd blocks in memory: four blocks more do nothing. Many: they count in full.
    for capacity, share in ((300, 0.02), (3 * 10**7, 1.0)):
        workload = build(capacity, almost)
        gain = hit_ratio_exact(workload, capacity + 4) - hit_ratio_exact(workload, capacity)
        assert gain / (4 * hit_ratio_slope(workload, capacity)) == pytest.approx(share, abs=0.02)


def test_small_and_fractional_memories():
    workload = small_workloads(4.0)["heavy blocks"]
    assert hit_ratio_exact(workload, 0.5) == 0
    ratios = [hit_ratio_exact(workload, capacity) for capacity in (1, 2, 3, 10, 100, 1e4)]
    assert np.all(np.diff(ratios) > 0) and ratios[-1] < workload.profile().reuse_ceiling + 1e-14
    assert hit_ratio_exact(workload, 3.7) == ratios[2]
