"""Rare events: weighted tilted paths against exact laws and plain Monte Carlo, and mutants to be caught."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from reference_workloads import reference_workload

from mfmc.displacement import simulate_displacement
from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, GeometricBlocks, PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, UniformGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import GeometricTokens, TokenBlocks
from mfmc.laws.turns import FixedTurns, GeometricTurns, NegativeBinomialTurns
from mfmc.rare_bounds import deviation_probabilities
from mfmc.rare_events import rare_passage_probability, rare_sup_probability
from mfmc.rare_paths import SortedPaths, TiltedConversations
from mfmc.statistics import deviations
from mfmc.theory.compound_poisson import characteristic_time_cdf
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload

KEY = jax.random.key(11)
LAMBDA0 = 0.03509557478308677  # T_C = 0.8 mean gaps


def scm(capacity: float) -> Workload:
    return reference_workload("scm_poisson_blocks", LAMBDA0, capacity)


def recorded() -> Workload:
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(60), rng.integers(1, 7, 60))
    law = RecordedConversations.from_blocks(ids, rng.integers(1, 9, ids.size))
    return Workload(12.0, UniformGaps(0.2, 1.8), conversations=law)


WORKLOADS = {
    "scm": scm(250),
    "lognormal": reference_workload("lognormal_gaps", 0.05, 200),
    "mixed": Workload(
        12.0, UniformGaps(0.2, 1.8), NegativeBinomialTurns(4, 6, 1, 20),
        PoissonBlocks(1.5, 3, length_power=-0.3),
    ),
    "recorded": recorded(),
}


def weighted_moments(workload: Workload, accounting: str, paths: int = 4000) -> list[float]:
    """Errors, in standard errors, of the mass, mean and variance of D_N at three times, by weighted paths.

    They are drawn under a tilt at the second time: before it a path is walked backward, after it forward.
    """
    law, times, found = DisplacementLaw(workload, accounting), np.array([0.35, 0.9, 1.6]), []
    mean, variance = law.mean(times), law.cumulant(2, times)
    sampler = TiltedConversations(workload, times[-1], accounting)
    for tilt in (0.5, -0.5):
        theta = tilt / np.sqrt(variance[1])
        events = sampler.draw(np.random.default_rng(3), times[1], theta, paths)
        displaced = SortedPaths(events, paths, times[-1]).at(times)
        log_mgf = float(law.exponents(np.array([theta]))[:, 0] @ law.integrals(times[1:2])[:, 0])
        weight = np.exp(log_mgf - theta * displaced[:, 1])[:, None]
        deviation = displaced - mean
        for samples, target in ((weight, 1), (weight * deviation, 0), (weight * deviation**2, variance)):
            error = samples.std(axis=0) / np.sqrt(paths)
            found += list(deviations(samples.mean(axis=0), error, target))
    return found


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("accounting", ["whole", "practical"])
def test_weights_undo_the_tilt(name, accounting):
    assert max(weighted_moments(WORKLOADS[name], accounting)) < 5


def forget_the_age(self, v):
    return self.quantile(np.random.default_rng(1).random(np.shape(v)))


def leave_the_past_untilted(self, rng, rows, start, original=TiltedConversations._backward):
    return original(self, rng, self._plain, start)


def lose_some_returns(self, rng, walkers, original=TiltedConversations._forward):
    return original(self, rng, walkers.where(walkers.node % 3 > 0))


def do_not_thin(self, rng, *args, original=TiltedConversations._seen):
    self.accounting = "whole"  # the masses stay those of the practical model
    return original(self, rng, *args)


#: Contents so small that the one block which a conversation that waited does not bring counts.
SMALL = Workload(30.0, ExponentialGaps(1.0), GeometricTurns(0.7, 20), ConstantBlocks(1, 1))

#: Increments that vary much, so that most of a tilt falls on them.
WIDE = Workload(12.0, ExponentialGaps(1.0), FixedTurns(2), GeometricBlocks(8, 8))


@pytest.mark.parametrize(
    ("owner", "method", "mutant", "workload", "accounting"),
    [
        (UniformGaps, "upper_quantile", forget_the_age, WORKLOADS["mixed"], "whole"),
        (TiltedConversations, "_backward", leave_the_past_untilted, WIDE, "whole"),
        (TiltedConversations, "_forward", lose_some_returns, WORKLOADS["mixed"], "whole"),
        (TiltedConversations, "_seen", do_not_thin, SMALL, "practical"),
    ],
)
def test_mutants_are_caught(owner, method, mutant, workload, accounting, monkeypatch):
    assert max(weighted_moments(workload, accounting, 6000)) < 5
    monkeypatch.setattr(owner, method, mutant)
    assert max(weighted_moments(workload, accounting, 6000)) > 5


@pytest.mark.parametrize("name", ["lognormal", "mixed"])
def test_sup_against_plain_monte_carlo(name):
    """Where plain Monte Carlo reaches: within 5 joint standard errors, and within the exact bounds."""
    workload, accounting = WORKLOADS[name], "practical" if name == "mixed" else "whole"
    capacity, horizon, plain = 200, 1.3, 4000
    paths = simulate_displacement(KEY, workload, capacity, horizon, plain, accountings=(accounting,))
    sup = paths[accounting].sup
    epsilon = float(np.quantile(sup, 0.98)) + 1e-6
    p = np.mean(sup > epsilon)
    rare = rare_sup_probability(KEY, workload, capacity, epsilon, horizon, 2000, accounting=accounting)
    assert abs(rare.estimate - p) < 5 * np.hypot(rare.standard_error, np.sqrt(p * (1 - p) / plain))
    assert rare.lower - 5 * rare.standard_error < rare.estimate < rare.upper + 5 * rare.standard_error
    spread = rare.batches.std(ddof=1) / np.sqrt(rare.batches.size)
    assert rare.batches.mean() == pytest.approx(rare.estimate)
    assert rare.standard_error / 3 < spread < 3 * rare.standard_error
    assert 1 / rare.largest_weight_share >= 50 and rare.effective_sample_size > 100


def test_a_probability_of_1e_9():
    """scm at N = 10^4, a fifth of the paths that 5% takes."""
    rare = rare_sup_probability(KEY, scm(10_000), 10_000, 0.44, 1.6, 800)
    assert 2e-10 < rare.lower < rare.estimate < rare.upper < 2e-8
    assert rare.relative_error < 0.15 and rare.largest_weight_share < 0.1
    assert rare.standard_error == pytest.approx(rare.relative_error * rare.estimate)


@pytest.mark.parametrize("accounting", ["whole", "practical"])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.55])
def test_passage_against_the_exact_law(accounting, epsilon):
    """From common deviations of tau_C(2) to ones of 1e-12."""
    workload, capacity = scm(2000), 2000
    rare = rare_passage_probability(KEY, workload, capacity, epsilon, 2, 2000, accounting=accounting)
    centre = float(characteristic_time(workload, capacity, accounting))
    ends = [centre - epsilon, centre + epsilon]
    early, late = characteristic_time_cdf(workload, ends, capacity, 2, accounting)
    assert rare.lower == rare.upper == pytest.approx(early + 1 - late, abs=1e-12)
    assert abs(rare.estimate - rare.lower) < 5 * rare.standard_error
    assert rare.relative_error < 0.1


def test_passage_beyond_the_characteristic_time():
    """epsilon > T_C: only late passages are left, since tau_C is not negative."""
    workload, capacity = scm(60), 60
    epsilon = float(characteristic_time(workload, capacity)) + 0.2
    rare = rare_passage_probability(KEY, workload, capacity, epsilon, 1, 2000)
    late = 1 - float(characteristic_time_cdf(workload, 2 * epsilon - 0.2, capacity, 1))
    assert rare.upper == pytest.approx(late, rel=1e-9)
    assert abs(rare.estimate - late) < 5 * rare.standard_error


def test_bounds_do_not_cross():
    for epsilon in (0.02, 0.2, 0.8, 3.0):
        for workload in WORKLOADS.values():
            lower, upper = deviation_probabilities(DisplacementLaw(workload), 200, epsilon, 1.3)
            assert 0 <= lower <= upper <= 1


def test_results_depend_on_the_key_alone():
    args = (scm(200), 200, 0.8, 1.6, 64)
    first, again, other = (rare_sup_probability(jax.random.key(k), *args) for k in (1, 1, 2))
    np.testing.assert_array_equal(first.batches, again.batches)
    assert first.estimate != other.estimate
    more = rare_sup_probability(jax.random.key(1), *args[:-1], 72, batches=9)
    np.testing.assert_array_equal(more.batches[:8], first.batches)


def test_bad_input_is_refused():
    prompt = GeometricTokens(20, 90)
    tokens = Workload(5.0, ExponentialGaps(1.0), FixedTurns(3), TokenBlocks(prompt, prompt, 8))
    for call, words in (
        (lambda: rare_sup_probability(KEY, scm(100), 100, 0.0, 1.0), "epsilon"),
        (lambda: rare_sup_probability(KEY, scm(100), 100, 0.5, 1.0, 1), "samples"),
        (lambda: rare_sup_probability(KEY, scm(100), 100, 0.5, 1.0, accounting="token"), "token"),
        (lambda: rare_sup_probability(KEY, tokens, 100, 0.5, 1.0), "workloads in blocks"),
        (lambda: rare_passage_probability(KEY, scm(100), 100, 0.5, 999), "turn"),
    ):
        with pytest.raises(InputError, match=words):
            call()
