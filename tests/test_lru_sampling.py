"""Stationary streams and replayed hit ratios against exact values; samplers that are wrong are caught."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from reference_workloads import reference_workload

from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, LognormalBlocks, PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, UniformGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import GeometricTokens, TokenBlocks
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.lru import (
    batch_means,
    draws,
    hit_ratio_curve,
    replay_lru,
    replayed_hit_ratio,
    sample_accesses,
    sampling,
)
from mfmc.statistics import mean
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import mean_displacement
from mfmc.workload import Workload

KEY = jax.random.key(20)


def oracle_workload(oracle, name="scm_poisson_blocks", capacity=64):
    return reference_workload(name, oracle[name]["lambda0"], capacity)


@pytest.mark.parametrize("name", ["scm_poisson_blocks", "scm_constant_blocks"])
def test_replay_meets_the_exact_law_where_censoring_would_show(oracle, name):
    workload = oracle_workload(oracle, name)
    got = replayed_hit_ratio(KEY, workload, [64], conversations=25_000, replications=12, backend="numba")
    exact = oracle[name]["h_exact"]["64"]
    assert got.standard_error[0] < 1.5e-3
    assert abs(got.estimate[0] - exact) < 4 * got.standard_error[0]


def test_practical_replay_meets_the_exact_law(oracle):
    workload = oracle_workload(oracle)
    got = replayed_hit_ratio(KEY, workload, [64], "practical", conversations=25_000, replications=12, backend="numba")
    assert abs(got.estimate[0] - oracle["scm_poisson_blocks"]["h_prac_exact"]["64"]) < 4 * got.standard_error[0]


@pytest.mark.parametrize("accounting", ["whole", "practical"])
def test_replay_block_by_block_meets_its_exact_law(oracle, accounting):
    workload = oracle_workload(oracle)
    sampled = dict(conversations=25_000, replications=12, eviction="block", backend="numba")
    got = replayed_hit_ratio(KEY, workload, [64], accounting, **sampled)
    exact = hit_ratio_exact(workload, 64, accounting, eviction="block")
    assert abs(got.estimate[0] - exact) < 5 * got.standard_error[0]
    assert exact - hit_ratio_exact(workload, 64, accounting) > 10 * got.standard_error[0]  # whole ones serve less


def flow_deviations(streams, horizon):
    """Accesses and blocks looked up per unit time in the window against theory, in standard errors."""
    profile, rate = FLOW.profile("whole"), FLOW.arrival_rate
    sample = sampling.sampler(FLOW, 1000, horizon * rate, warm_up=25.0)
    windows = [sample(jax.random.fold_in(KEY, i)) for i in range(streams)]
    counted = [stream.history[stream.counted] for stream in windows]
    deviations = []
    targets = profile.mean_turns, profile.content
    for target, sums in zip(targets, zip(*[(len(h), h.sum()) for h in counted], strict=True), strict=True):
        flow = mean(np.array(sums) / horizon / rate)
        assert flow.standard_error < 0.03 * target
        deviations.append((flow.value - target) / flow.standard_error)
    return deviations


FLOW = Workload(
    40.0,
    UniformGaps(2.0, 38.0),
    GeometricTurns(0.8),
    LognormalBlocks(3.0, 6.0, sigma=1.0, maximum=400),
)


def test_the_window_sees_the_stationary_flow_of_blocks():
    assert np.max(np.abs(flow_deviations(20, 20.0))) < 5


def test_a_stream_whose_conversations_wait_after_the_wrong_turn_is_caught(monkeypatch):
    """The mutant: all who wait at the beginning wait after turn 1; the window sees too short histories."""

    def hurried(rng, law, arriving, waiting):
        return draws._draw(law, rng, arriving, waiting).after(np.repeat([0, 1], [arriving, waiting]))

    monkeypatch.setattr(sampling, "draw_conversations", hurried)
    assert np.max(np.abs(flow_deviations(20, 20.0))) > 8


def test_token_and_recorded_streams_carry_every_accounting():
    tokens = TokenBlocks(GeometricTokens(60.0, 400), GeometricTokens(90.0, 400), block_tokens=16)
    drawn = Workload(5.0, ExponentialGaps(10.0), FixedTurns(4), tokens)
    rng = np.random.default_rng(0)
    conversation = np.repeat(np.arange(200), 4)
    recorded = RecordedConversations.from_tokens(
        conversation, rng.integers(1, 120, 800), rng.integers(0, 180, 800), block_tokens=16
    )
    resampled = Workload(5.0, ExponentialGaps(10.0), conversations=recorded)
    for workload in (drawn, resampled):
        stream = sample_accesses(KEY, workload, 500, 4000)
        assert stream.accountings == ("whole", "practical", "token")
        for accounting in stream.accountings:
            sizes = stream.sizes(accounting)
            profile = workload.profile(accounting)
            per_conversation = len(stream.history[stream.counted]) / 4
            ceiling = sizes.reuse[stream.counted].sum() / sizes.content[stream.counted].sum()
            assert abs(ceiling - profile.reuse_ceiling) < 0.01
            assert abs(sizes.content[stream.counted].sum() / per_conversation / profile.content - 1) < 0.03
    assert set(stream.tokens.tolist()) <= set(recorded.tokens.tolist())  # the prompts themselves, not whole blocks


def test_what_the_warm_up_brings_in_front_is_the_mean_displacement():
    workload = Workload(50.0, ExponentialGaps(2.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    sample = sampling.sampler(workload, 100, 5.0, warm_up=3.0)
    streams = [sample(jax.random.fold_in(KEY, i)) for i in range(32)]
    for accounting in ("whole", "practical"):
        brought = [sampling.brought_in_front(s, accounting, s.counted.start) for s in streams]
        error = np.std(brought, ddof=1) / np.sqrt(len(brought))
        assert abs(np.mean(brought) - mean_displacement(workload, 3.0, accounting)) < 5 * error


def test_a_warm_up_that_does_not_fill_the_cache_is_refused():
    workload = Workload(1.0, ExponentialGaps(10.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    with pytest.raises(InputError, match="does not fill a cache of 1000 blocks"):
        sample_accesses(KEY, workload, 1000, 50, warm_up=2.0)


def test_capacities_in_parts_and_windows_without_accesses_are_refused():
    workload = Workload(1.0, ExponentialGaps(10.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    with pytest.raises(InputError, match=r"capacity is 2\.7: expected a whole number"):
        replayed_hit_ratio(KEY, workload, [2.7])
    with pytest.raises(InputError, match="no access came in the counted time"):
        sample_accesses(KEY, workload, 10, 1e-6)


def test_a_longer_warm_up_changes_nothing_that_is_counted():
    """Once it has filled, the cache has forgotten how the stream began."""
    workload = Workload(20.0, ExponentialGaps(2.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    stream = sample_accesses(KEY, workload, 200, 2000, warm_up=60.0)
    start = stream.counted.start
    filled = start - 1
    while sampling.brought_in_front(_from(stream, filled), "whole", start - filled) <= 200:
        filled -= 1
    short = replay_lru(_from(stream, filled), 200, backend="numba")
    np.testing.assert_array_equal(short.hit[start - filled :], replay_lru(stream, 200, backend="numba").hit[start:])


def test_batch_means_and_replications_give_one_error(oracle):
    workload = oracle_workload(oracle, capacity=256)
    many = replayed_hit_ratio(KEY, workload, [256], conversations=3_000, replications=30, backend="numba")
    long = batch_means(replay_lru(sample_accesses(KEY, workload, 256, 90_000), 256, backend="numba"), batches=30)
    assert abs(long.value - many.estimate[0]) < 5 * np.hypot(long.standard_error, many.standard_error[0])
    assert 0.5 < long.standard_error / many.standard_error[0] < 2


def test_streams_are_a_function_of_the_key():
    workload = Workload(20.0, ExponentialGaps(2.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    first, again = (sample_accesses(KEY, workload, 50, 100) for _ in range(2))
    np.testing.assert_array_equal(first.time, again.time)
    other = sample_accesses(jax.random.fold_in(KEY, 1), workload, 50, 100)
    assert len(other) != len(first) or np.any(other.time != first.time)


def test_counted_windows_are_what_curves_count():
    workload = Workload(20.0, ExponentialGaps(2.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    stream = sample_accesses(KEY, workload, 300, 500)
    for backend in ("numba", "xla"):
        curve = hit_ratio_curve(stream, max_capacity=300, backend=backend)
        assert curve.accesses == len(stream) - stream.counted.start
        assert curve.hit_ratio(300) == replay_lru(stream, 300, backend=backend).hit_ratio


def _from(stream, start):
    """The accesses from ``start`` on, all counted."""
    end = len(stream)
    cut = {
        name: getattr(stream, name)[start:] for name in ("time", "conversation", "history", "shared", "row", "final")
    }
    previous = stream.previous[start:] - start
    return replace(
        stream,
        previous=np.where(previous < 0, -1, previous),
        next=np.minimum(stream.next[start:], end) - start,
        counted=slice(None),
        **cut,
    )


def test_turns_closer_than_the_clock_resolves_keep_their_order():
    workload = Workload(1.0, ExponentialGaps(1e-9), GeometricTurns(0.8), ConstantBlocks(1, 2))
    stream = sample_accesses(KEY, workload, 100, 20_000)
    returns = stream.previous >= 0
    assert np.any(stream.time[returns] == stream.time[stream.previous[returns]])
    assert np.all(stream.history[returns] == stream.history[stream.previous[returns]] + 2)
