"""Displacement paths: exact against a literal simulation, in law against the oracle, and invariant under chunking."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_workloads import LAWS, reference_workload
from scipy import stats

import mfmc.displacement as displacement
from mfmc import replication
from mfmc.conversations import walk, window
from mfmc.displacement import passage_length, simulate_displacement
from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, PoissonBlocks
from mfmc.laws.gaps import EmpiricalGaps, ExponentialGaps, LognormalGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import EmpiricalTokens, LognormalTokens, TokenBlocks
from mfmc.laws.turns import FixedTurns, GeometricTurns, NegativeBinomialTurns
from mfmc.replication import Replicator
from mfmc.theory.compound_poisson import characteristic_time_cdf, displacement_cdf, hit_ratio_exact
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.mean_field import characteristic_time, mean_displacement
from mfmc.words import Lanes, lanes
from mfmc.workload import Workload

KEY = jax.random.key(7)


def accesses(workload, horizon, replications, accountings=("whole",)):
    """Times and masses [replications, slots] of a window, unused slots at infinity."""
    tables, shape = window(workload, horizon, accountings)
    streams = lanes(KEY, jnp.arange(replications), shape.lanes + 1)
    own = Lanes(streams.state[:, :-1], streams.gamma[:, :-1])
    found = walk(
        jax.device_put(tables), own, shape.steps, len(accountings), locate=lambda t: jnp.zeros(t.shape, jnp.int32)
    )
    assert not np.any(found.overflow)

    def by_replication(array):
        return np.asarray(array).reshape(shape.steps, replications, -1).transpose(1, 0, 2).reshape(replications, -1)

    return by_replication(found.time), [by_replication(m) for m in found.mass]


@pytest.mark.parametrize(
    "workload",
    [
        reference_workload("scm_poisson_blocks", 0.035, 300),
        reference_workload("lognormal_gaps", 0.035, 40),
        Workload(30.0, EmpiricalGaps([0.5, 1.0, 4.0]), FixedTurns(5), PoissonBlocks(1, 2, length_power=-0.3)),
    ],
    ids=["scm", "lognormal", "empirical"],
)
def test_one_pass_equals_a_sorted_event_list(workload):
    """Sup, values, passages and E[R F(tau)] of every replication against a plain sort of all its events."""
    capacity, horizon, replications = 300, 1.7, 40
    times = np.array([0.0, 0.3, 1.0, 1.7])
    paths = simulate_displacement(
        KEY,
        workload,
        capacity,
        horizon,
        replications,
        times=times,
        turns=(1, 2),
        accountings=("whole", "practical"),
        length=2.5,
        path_steps=16,
    )
    time, mass = accesses(workload, 2.5, replications, ("whole", "practical"))
    for name, blocks in zip(paths, mass):
        found, profile = paths[name], workload.profile(name)
        for i in range(replications):
            order = np.argsort(time[i])
            t, d = time[i][order], np.cumsum(blocks[i][order])
            t, d = t[np.isfinite(t)], d[np.isfinite(t)]
            before = np.concatenate(([0], d[:-1]))
            mean = mean_displacement(workload, t, name)
            inside = t <= horizon
            end = abs(d[inside][-1] - mean_displacement(workload, horizon, name))
            sup = max(np.abs(d - mean)[inside].max(), np.abs(before - mean)[inside].max(), end)
            assert found.sup[i] == pytest.approx(sup / capacity, rel=1e-12)
            values = [d[t <= x][-1] if np.any(t <= x) else 0 for x in times]
            np.testing.assert_array_equal(found.values[i], values)
            path = [d[t <= x][-1] if np.any(t <= x) else 0 for x in np.linspace(0, horizon, 17)]
            np.testing.assert_array_equal(found.path[i], path)
            r = profile.reuse.support
            first_beyond = np.searchsorted(d, capacity - r, side="right")  # the first event with D > N - r
            passage = np.where(r > capacity, 0.0, np.append(t, 1e9)[first_beyond])
            reuse = np.sum(r * profile.reuse.weight * workload.gaps.cdf(passage))
            assert found.reuse_given_path[i] == pytest.approx(reuse, rel=1e-8)
            jumps = np.concatenate((t, [np.inf, 0.0]))
            assert np.all(np.isin(found.passage[i], jumps))


@pytest.mark.parametrize("name", LAWS)
def test_laws_against_the_oracle(name, oracle):
    """Mean, variance, cdf of D_N(T_C) and of tau_C(2) at N = 1024, within 5 standard errors."""
    case, capacity, n = oracle[name], 1024, 6000
    workload = reference_workload(name, case["lambda0"], capacity)
    t_c = characteristic_time(workload, capacity)
    times = np.array([0.5, 1.0]) * case["mu_W"]
    paths = simulate_displacement(KEY, workload, capacity, 1.2, n, times=[*times, t_c], turns=(2,))["whole"]
    for i, multiple in enumerate(("0.5", "1.0")):
        sample = paths.values[:, i] / capacity
        variance = case["N_var"][multiple] / capacity
        assert abs(sample.mean() - case["d"][multiple]) < 5 * np.sqrt(variance / n)
        fourth = np.mean((sample - sample.mean()) ** 4)
        assert abs(sample.var() - variance) < 5 * np.sqrt((fourth - variance**2) / n)
    for x, p in case["cdf_D_1024_at_T_C"].items():
        assert abs(np.mean(paths.values[:, 2] <= int(x)) - p) < 5 * np.sqrt(p * (1 - p) / n)
    for share, p in case["tau_cdf_1024_turn2"].items():
        assert abs(np.mean(paths.passage[:, 0] <= float(share) * t_c) - p) < 5 * np.sqrt(p * (1 - p) / n)
    estimate = paths.reuse_given_path / case["AR"]
    assert abs(estimate.mean() - case["h_exact"]["1024"]) < 5 * estimate.std() / np.sqrt(n)


def token_workload() -> Workload:
    law = TokenBlocks(LognormalTokens(6.0, 1.0, 60), LognormalTokens(20.0, 0.8, 90), 8)
    return Workload(40.0, LognormalGaps(0.8, 1.0), NegativeBinomialTurns(3.5, 4.0, 1, 15), law)


def recorded_workload() -> Workload:
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(60), rng.integers(1, 7, 60))
    law = RecordedConversations.from_tokens(ids, rng.integers(1, 30, ids.size), rng.integers(0, 60, ids.size), 8)
    return Workload(40.0, LognormalGaps(0.8, 1.0), conversations=law)


@pytest.mark.parametrize("build", [token_workload, recorded_workload])
@pytest.mark.parametrize("accounting", ["whole", "practical", "token"])
def test_workloads_in_tokens_against_the_exact_law(build, accounting):
    """Law of D_N(t), of tau_C(1) and h(N) in every accounting (THEORY B3, B4)."""
    workload, capacity, n = build(), 250, 5000
    t_c = characteristic_time(workload, capacity, accounting)
    paths = simulate_displacement(KEY, workload, capacity, 1.0, n, times=[t_c], turns=(1,), accountings=(accounting,))[
        accounting
    ]
    for x in (150, 250, 350):
        p = float(displacement_cdf(workload, x, t_c, accounting))
        assert abs(np.mean(paths.values[:, 0] <= x) - p) < 5 * np.sqrt(p * (1 - p) / n)
    for t in (0.8 * t_c, 1.2 * t_c):
        p = float(characteristic_time_cdf(workload, t, capacity, 1, accounting))
        assert abs(np.mean(paths.passage[:, 0] <= t) - p) < 5 * np.sqrt(p * (1 - p) / n)
    estimate = paths.reuse_given_path / workload.profile(accounting).content
    exact = hit_ratio_exact(workload, capacity, accounting)
    assert abs(estimate.mean() - exact) < 5 * estimate.std() / np.sqrt(n)


def test_first_accesses_follow_the_residual_law():
    """Two turns of one block: accesses of waiting conversations have density Fbar / mu on top of the arrivals."""
    gaps = LognormalGaps(1.0, 1.0)
    workload = Workload(200.0, gaps, FixedTurns(2), ConstantBlocks(1, 1))
    times, mass = accesses(workload, 2.0, 200)
    waiting = np.sort(times[0][None, :][0][mass[0][0] == 2])
    for i in range(1, 200):
        waiting = np.concatenate((waiting, times[i][mass[0][i] == 2]))
    p = stats.kstest(waiting, lambda t: gaps.residence(t) / gaps.residence(2.0)).pvalue
    assert p > 1e-5
    fresh = stats.kstest(waiting, lambda t: gaps.cdf(t) / gaps.cdf(2.0)).pvalue
    assert fresh < 1e-10, "the test must catch a sampler that draws fresh gaps for waiting conversations"


@pytest.mark.parametrize("mutant", ["no waiting conversations", "fresh gaps at time 0"])
def test_mutants_of_the_stationary_sampler_are_caught(monkeypatch, mutant, oracle):
    """The mean of D_N(t) alone tells a wrong population at time 0."""
    case, n = oracle["lognormal_gaps"], 1500
    workload = reference_workload("lognormal_gaps", case["lambda0"], 1024)
    if mutant == "no waiting conversations":
        original = displacement.window

        def window_without(workload, horizon, accountings):
            return original(dataclasses.replace(workload, turns=FixedTurns(1)), horizon, accountings)

        monkeypatch.setattr(displacement, "window", window_without)
    else:
        import mfmc.conversations as conversations

        monkeypatch.setattr(conversations, "residual_table", lambda gaps, horizon: conversations.quantile_table(gaps))
    paths = simulate_displacement(KEY, workload, 1024, 1.0, n, times=[0.5])["whole"]
    error = np.sqrt(case["N_var"]["0.5"] / 1024 / n)
    assert abs(paths.values.mean() / 1024 - case["d"]["0.5"]) > 5 * error


def _run(**how):
    workload = reference_workload("scm_poisson_blocks", 0.035, 200)
    return simulate_displacement(
        KEY,
        workload,
        200,
        1.0,
        50,
        times=[0.4],
        turns=(1, 3),
        accountings=("whole", "practical"),
        replicator=Replicator(**how),
    )


@pytest.mark.parametrize(
    ("cores", "how"),
    [
        (1, {"chunk": 7}),
        (3, {"chunk": 16}),
        (2, {"devices": tuple(jax.devices()[:2]), "chunk": 20}),
        (2, {"memory_gib": 1e-4}),
    ],
    ids=["chunks of 7", "threads", "two devices", "little memory"],
)
def test_results_are_bit_identical_however_they_are_run(cores, how, monkeypatch):
    reference = _run()
    monkeypatch.setattr(replication, "cores", lambda: cores)
    other = _run(**how)
    for name in reference:
        for field in ("values", "sup", "passage", "reuse_given_path"):
            np.testing.assert_array_equal(getattr(reference[name], field), getattr(other[name], field))


def test_overflowing_buffers_are_enlarged_and_leave_no_trace(monkeypatch):
    reference = _run()
    original, grown, needed = displacement._problem, displacement.Sizes.grown, []

    def cramped(*args):
        problem, sizes = original(*args)
        shape = sizes.shape._replace(steps=sizes.shape.steps // 4)
        return problem, sizes._replace(shape=shape, buffer=sizes.buffer // 4)

    monkeypatch.setattr(displacement, "_problem", cramped)
    monkeypatch.setattr(displacement.Sizes, "grown", lambda sizes: needed.append(sizes) or grown(sizes))
    other = _run()
    assert needed
    for name in reference:
        np.testing.assert_array_equal(reference[name].sup, other[name].sup)
        np.testing.assert_array_equal(reference[name].reuse_given_path, other[name].reuse_given_path)


def test_many_lanes_agree_with_the_exact_law():
    """N = 60,000: several lanes a replication, thousands of cells."""
    capacity, n = 60_000, 60
    workload = reference_workload("scm_poisson_blocks", 0.035, capacity)
    paths = simulate_displacement(KEY, workload, capacity, 1.6, n, times=[0.8])["whole"]
    law = DisplacementLaw(workload, "whole")
    assert abs(paths.values.mean() - float(law.mean(0.8))) < 5 * np.sqrt(float(law.cumulant(2, 0.8)) / n)
    assert 5 < paths.sup.mean() * np.sqrt(capacity) < 12


def test_passage_length_covers_every_passage():
    workload = reference_workload("scm_poisson_blocks", 0.035, 50)
    length = passage_length(workload, 50)
    assert 0 <= 1 - characteristic_time_cdf(workload, length, 50, 1) < 1e-11


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"replications": 0}, "replications=0"),
        ({"horizon": -1.0}, "horizon=-1.0"),
        ({"times": [5.0]}, "times=\\[5.0\\]"),
        ({"turns": (500,)}, "turn=500"),
        ({"path_steps": 100}, "path_steps=100"),
        ({"accountings": ("token",)}, "needs a workload in tokens"),
    ],
)
def test_bad_arguments(arguments, line):
    workload = reference_workload("scm_poisson_blocks", 0.035, 100)
    settings = {"horizon": 1.0, "replications": 10, **arguments}
    with pytest.raises(InputError, match=line):
        simulate_displacement(KEY, workload, 100, **settings)


def test_empirical_tokens_of_one_value():
    """The smallest workload in tokens: one token a prompt, one a response, blocks of one token."""
    one = EmpiricalTokens((1.0,))
    workload = Workload(20.0, ExponentialGaps(1.0), GeometricTurns(0.5, 6), TokenBlocks(one, one, 1))
    paths = simulate_displacement(KEY, workload, 60, 1.0, 400, times=[1.0], accountings=("whole", "token"))
    np.testing.assert_array_equal(paths["whole"].values, paths["token"].values)
