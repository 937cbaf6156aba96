"""The estimator (35)-(39): the paper's constants, moments, gap laws of cut files, intervals, and a replay."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_traces import synthetic_trace

from mfmc.errors import InputError
from mfmc.estimator import (
    ConversationSums,
    TraceEstimator,
    empirical,
    estimate_hit_ratio,
    kaplan_meier,
    partial_workload,
)
from mfmc.estimator.bootstrap import interval
from mfmc.estimator.gap_laws import condensed, size_weighted
from mfmc.laws.blocks import ConstantBlocks
from mfmc.laws.gaps import EmpiricalGaps, ExponentialGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.turns import GeometricTurns
from mfmc.lru import hit_ratio_curve, sample_accesses
from mfmc.studies.replays import replay_trace
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.traces.table import COLUMNS, SHRUNK, ConversationTable, Gaps, Trace
from mfmc.workload import Workload

PAPER = {"accessed_blocks": 38.9092, "hashable_blocks": 22.5178, "mean_lifetime_blocks": 12.9220}


@pytest.mark.parametrize(
    ("rate", "gap", "ratio"), [(1.5, 135, 0.171784), (1.5, 90, 0.247641), (0.5, 135, 0.425302)]
)
def test_the_papers_constants(rate, gap, ratio):
    workload = partial_workload(rate, ExponentialGaps(gap), **PAPER)
    assert hit_ratio(workload, 2275, "practical") == pytest.approx(ratio, abs=5e-7)
    if (rate, gap) == (1.5, 135):
        assert characteristic_time(workload, 2275, "practical") == pytest.approx(47.5413, abs=5e-5)


def test_known_means_give_whole_content_with_the_mean_turns():
    workload = partial_workload(1.5, ExponentialGaps(135.0), **PAPER, mean_turns=4.4694)
    assert workload.accountings == ("whole", "practical")
    whole = workload.profile("whole")
    assert whole.reusable == pytest.approx(22.5178 + 3.4694)
    assert whole.content == pytest.approx(whole.reusable + whole.allocated, abs=1e-2)  # A_R = A_H + E[B]
    with pytest.raises(InputError, match="gives only whole, practical"):
        workload.profile("token")
    with pytest.raises(InputError, match="needs conversations"):
        workload.law  # noqa: B018


@pytest.mark.parametrize(
    "change", [{"hashable_blocks": 50.0}, {"accessed_blocks": 5.0}, {"mean_lifetime_blocks": 0.0}]
)
def test_means_that_contradict_each_other_are_refused(change):
    with pytest.raises(InputError):
        partial_workload(1.5, ExponentialGaps(135.0), **(PAPER | change))


@settings(max_examples=25)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 400), st.integers(0, 400)), min_size=1, max_size=5),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 200),
)
def test_moments_are_those_of_the_law_of_the_same_conversations(conversations, block_tokens):
    number = np.repeat(np.arange(len(conversations)), [len(turns) for turns in conversations])
    prompt, response = np.array([turn for turns in conversations for turn in turns]).T
    table = ConversationTable(number, prompt, response, block_tokens)
    sums, law = ConversationSums.of(table), RecordedConversations.from_tokens(*table)
    for name in ("whole", "practical", "token"):
        moments = sums.moments(name)
        assert moments.allocated == pytest.approx(law.allocated(name))
        assert moments.content == pytest.approx(law.content(name))
        assert moments.reusable == pytest.approx(law.histories(name).reuse.moment(1))


def test_kaplan_meier_corrects_what_the_raw_law_cannot():
    gaps, end = ExponentialGaps(100.0), 400.0
    trace = synthetic_trace(gaps, 20.0, 8000, end)
    found = trace.gaps()
    corrected, raw = kaplan_meier(found.seconds, found.censored), empirical(found.observed)
    times = np.array([30.0, 70.0, 150.0])
    followed = gaps.cdf(times) / gaps.cdf(350.0)  # by the file's end few gaps of more than 350 s can be seen
    error = np.sqrt(0.25 / found.observed.size)
    assert np.all(np.abs(corrected.law.cdf(times) - followed) < 5 * error)
    assert np.all(raw.cdf(times) - followed > 5 * error)  # the mutant: gaps seen, as they are
    assert corrected.continues == pytest.approx(0.7, abs=0.02) and corrected.seen < 0.64


def test_kaplan_meier_by_hand():
    found = kaplan_meier(np.array([1.0, 2.0, 2.0, 4.0]), np.zeros(4, dtype=bool))
    assert np.allclose(found.law.cdf(np.array([1.0, 2.0, 4.0])), [0.25, 0.75, 1.0])
    many = np.repeat([1.0, 2.0, 3.0], 40)  # 40 gaps end at 1; 40 waits are cut at 2; 40 gaps end at 3
    cut = np.repeat([False, True, False], 40)
    found = kaplan_meier(many, cut)
    assert found.law.cdf(1.0) == pytest.approx(1 / 3) and found.continues == pytest.approx(1.0)
    assert found.seen == pytest.approx(2 / 3)
    few = kaplan_meier(np.arange(1.0, 20.0), np.arange(19) > 16)  # two waits of 19 are cut, and long ones
    assert few.law.piecewise()[0][-1] >= 16 and few.unseen == 1.0 <= few.continues / few.seen + 0.1


def test_condensing_keeps_the_law():
    law = EmpiricalGaps(np.concatenate([np.random.default_rng(0).exponential(10, 5000), np.full(2000, 7.0)]))
    small = condensed(law, 200)
    times = np.linspace(0, 60, 601)
    assert small.piecewise()[0].size < 420
    assert np.max(np.abs(small.cdf(times) - law.cdf(times))) < 1 / 190
    assert np.allclose(EmpiricalGaps.from_cdf(*law.piecewise()).cdf(times), law.cdf(times))


def test_a_trace_without_gaps_is_one_line():
    with pytest.raises(InputError, match="give a gap law"):
        empirical(np.zeros(3))


@pytest.fixture(scope="module")
def estimator() -> TraceEstimator:
    return TraceEstimator(
        synthetic_trace(ExponentialGaps(60.0), 2.0, 6000, 2500.0), 64, prior=ExponentialGaps(60.0)
    )


def test_the_estimate_against_a_replay_of_the_same_trace(estimator):
    curve = hit_ratio_curve(estimator.trace.accesses(64), "token", eviction="block")
    for capacity in (1500, 4000):
        found = estimator.estimate(capacity)
        assert found.accounting == "token" and found.law == "size_weighted"
        assert found.low < found.hit_ratio < found.high
        assert found.hit_ratio == pytest.approx(float(curve.hit_ratio(capacity)), rel=0.06)


def test_laws_agree_with_the_truth_that_they_estimate(estimator):
    values = [
        estimator.estimate(1500, "token", law).hit_ratio
        for law in ("size_weighted", "kaplan_meier", "empirical", "posterior", "prior")
    ]
    assert np.ptp(values) < 0.03


def test_bootstrap_errors_are_those_of_means(estimator):
    resampled = estimator.resampled("token", "prior")
    sums = estimator.sums.blocks["token"]
    expected = sums[0].std() / np.sqrt(sums.shape[1])
    assert resampled.allocated[1:].std() == pytest.approx(expected, rel=5 * np.sqrt(0.5 / 400))
    assert resampled.allocated[0] == pytest.approx(sums[0].mean())


def test_the_row_of_the_trace_itself_is_the_estimate(estimator):
    for law in estimator.laws:
        row = estimator.resampled("token", law)
        value = estimator.estimate(1500, "token", law)
        assert row.hit_ratio(1500)[0] == pytest.approx(value.hit_ratio, rel=0.01)
        assert row.characteristic_time(1500)[0] == pytest.approx(value.characteristic_time, rel=0.01)
        assert row.hit_ratio(float(row.capacity_for(0.2)[0]))[0] == pytest.approx(0.2, rel=1e-3)


def test_the_interval_surrounds_the_estimate():
    low, high = interval(0.5, np.array([0.4, 0.3, 0.5]))
    assert (low, high) == pytest.approx((0.4, 0.6))


def test_the_finite_size_correction_fades_like_one_over_n():
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 500)
    corrections = []
    for factor in (1, 8):
        scaled = TraceEstimator(
            trace, 64, arrival_rate=2.0 * factor, prior=ExponentialGaps(60.0), replicates=0
        )
        corrections.append(scaled.finite_size_correction(200 * factor, "token", "prior"))
    assert 1e-5 < abs(corrections[0]) < 0.02
    assert corrections[0] / corrections[1] == pytest.approx(8, rel=0.15)


def test_the_exact_law_of_either_eviction_against_replays():
    workload = Workload(1.0, ExponentialGaps(20.0), GeometricTurns(0.7), ConstantBlocks(3, 4))
    evictions = ("block", "conversation")
    found = []
    for key in range(4):
        stream = sample_accesses(jax.random.key(key), workload, 150, conversations=6000)
        found.append([float(hit_ratio_curve(stream, "whole", eviction=name).hit_ratio(150)) for name in evictions])
    exact = [hit_ratio_exact(workload, 150, eviction=name) for name in evictions]
    assert np.all(np.abs(np.mean(found, axis=0) - exact) < 5 * np.std(found, axis=0, ddof=1) / 2)
    gained = -np.diff(found, axis=1).ravel()  # of the same stream: the noise of arrivals cancels
    error = gained.std(ddof=1) / 2
    assert abs(gained.mean() - (exact[0] - exact[1])) < 5 * error
    assert gained.mean() > 5 * error  # the mutant: one law for both


def test_a_cut_file_gives_nearly_the_hit_ratio_of_the_whole_one():
    gaps = ExponentialGaps(100.0)
    cut = TraceEstimator(synthetic_trace(gaps, 5.0, 5 * 2000, 2000.0), 64, replicates=0)
    whole = TraceEstimator(synthetic_trace(gaps, 5.0, 5 * 2000), 64, replicates=0)
    truth = whole.estimate(10_000, law="empirical").hit_ratio
    off = {law: abs(cut.estimate(10_000, law=law).hit_ratio / truth - 1) for law in cut.laws}
    assert 0.25 < truth < 0.8 * whole.sums.moments("token").reuse_ceiling
    assert max(off["size_weighted"], off["kaplan_meier"]) < 0.12 < off["empirical"]
    assert off["size_weighted"] < 0.6 * off["empirical"]


def test_gaps_weighed_by_the_blocks_that_wait():
    seconds, blocks = np.array([1.0, 2.0, 2.0, 9.0]), np.array([1, 1, 2, 4])
    none = np.zeros(4, dtype=bool)
    found = size_weighted(Gaps(seconds, none, np.arange(4), np.ones(4), ~none, 64 * blocks + 5), 64)
    assert np.allclose(found.law.cdf(np.array([1.0, 2.0, 9.0])), [1 / 8, 4 / 8, 1.0])
    assert found.unseen == pytest.approx(1.0)
    assert size_weighted(Gaps(seconds, none, np.arange(4), np.ones(4), ~none, 0 * blocks + 5), 64) is None


def test_a_given_rate_counts_conversations_of_the_file():
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 300)
    columns = {name: trace.column(name).copy() for name in COLUMNS}
    last = np.append(columns["turn"][1:] == 1, True)
    columns["context"][last & (columns["turn"] > 1)] = SHRUNK  # those begin anew for the cache
    shrunk = Trace.from_columns(columns, format="test")
    share = np.count_nonzero(columns["context"] == SHRUNK) / 300
    rates = [TraceEstimator(t, 64, arrival_rate=3.0, replicates=0).arrival_rate for t in (trace, shrunk)]
    assert rates == pytest.approx([3.0, 3.0 * (1 + share)]) and share > 0.5


def test_conversations_placed_several_times_over():
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 200)
    trace.clock = "per conversation"
    placed = trace.placed(0.5, seed=1, rounds=3)
    assert len(placed) == 3 * len(trace) and placed.lengths.tolist() == 3 * trace.lengths.tolist()
    assert abs(placed.arrival_rate() / 0.5 - 1) < 5 / np.sqrt(600)
    gaps = [np.diff(t.submitted_at)[t.turn[1:] > 1] for t in (trace, placed)]
    assert np.allclose(np.tile(gaps[0], 3), gaps[1])


def test_a_placed_replay_ends_with_the_last_arrival():
    """Not with the last prompt of a long conversation that shrinks again and again when all others have gone."""
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 200)
    columns = {name: trace.column(name).copy() for name in COLUMNS}
    longest = columns["conversation"] == np.argmax(trace.lengths)
    columns["submitted_at"][longest] += 1e5 * (columns["turn"][longest] - 1)
    columns["context"][longest & (columns["turn"] > 1)] = SHRUNK
    trace = Trace.from_columns(columns, format="test", clock="per conversation")
    context = SimpleNamespace(settings=SimpleNamespace(runtime=SimpleNamespace(seed=0)))
    estimator = TraceEstimator(trace, 64, arrival_rate=2.0, replicates=0)
    replayed = replay_trace(estimator, context, 10_000, 0.1).curve.hit_ratio(10_000)
    assert replayed == pytest.approx(estimator.estimate(10_000).hit_ratio, abs=0.05)


def test_what_is_missing_is_said():
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 50)
    with pytest.raises(InputError, match="law 'prior'"):
        estimate_hit_ratio(trace, 100, law="prior")
    trace = synthetic_trace(ExponentialGaps(60.0), 2.0, 50)
    trace.clock = "none"
    with pytest.raises(InputError, match="give the arrival rate"):
        estimate_hit_ratio(trace, 100)
    with pytest.raises(InputError, match="has no gap above 0 s"):
        estimate_hit_ratio(trace, 100, arrival_rate=1.0)
