"""Where a larger budget starts to pay: predicted by T_C, found by serving; and the whole study in small."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from legends import told_apart_in_grey

from mfmc.checkpoints import run_cache_budget, write_cache_budget
from mfmc.checkpoints.audit import audit_evidence
from mfmc.checkpoints.conversations import (
    ConversationTrace,
    compare_starts,
    conversation_thresholds,
    sweep_conversations,
)
from mfmc.checkpoints.fixed import PERIODS, fixed_thresholds, sweep_fixed_traces
from mfmc.checkpoints.residence import residence_intervals
from mfmc.checkpoints.traces import TRACES, thinned
from mfmc.checkpoints.working_set import WorkingSet, exact_threshold, working_set
from mfmc.errors import InputError
from mfmc.laws.blocks import PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, UniformGaps
from mfmc.laws.turns import GeometricTurns
from mfmc.lru.accesses import accesses_from_arrays
from mfmc.theory.mean_field import capacity_for, characteristic_time, hit_ratio, mean_displacement
from mfmc.workload import Workload

CONTINUATION, FIRST, LATER = 0.7, 1.0, 1.0


def workload_of(rate: float, gaps) -> Workload:
    return Workload(rate, gaps, turns=GeometricTurns(CONTINUATION), blocks=PoissonBlocks(FIRST, LATER))


def stream_of(workload: Workload, horizon: float, seed: int, warmup: float = 20.0):
    """A stationary stream, one conversation at a time; the last 70% of (0, horizon) count."""
    rng = np.random.default_rng(seed)
    conversations = rng.poisson(workload.arrival_rate * (horizon + warmup))
    turns = rng.geometric(1 - CONTINUATION, size=conversations)
    arrivals = rng.uniform(-warmup, horizon, size=conversations)
    times, owners, histories = [], [], []
    for owner, (turn, arrival) in enumerate(zip(turns, arrivals)):
        gaps = workload.gaps.quantile(rng.random(turn - 1)) if turn > 1 else []
        times.append(arrival + np.concatenate([[0.0], np.cumsum(gaps)]))
        new = 1 + rng.poisson(np.where(np.arange(turn) == 0, FIRST, LATER))
        histories.append(np.cumsum(new))
        owners.append(np.full(turn, owner))
    time, owner, history = map(np.concatenate, (times, owners, histories))
    kept = (time >= 0) & (time < horizon)
    stream = accesses_from_arrays(time[kept], owner[kept], history=history[kept])
    return replace(stream, counted=slice(int(np.searchsorted(stream.time, 0.3 * horizon)), None))


@pytest.fixture(scope="module")
def fixed():
    return fixed_thresholds(sweep_fixed_traces(range(0, 20_000, 264)))


def test_fixed_traces_pay_from_the_predicted_byte_on(fixed):
    predicted = [row for row in fixed if row["predicted_bytes"] is not None]
    assert len(predicted) == 4 * len(PERIODS)
    for row in predicted:
        assert row["pays_in_full_bytes"] == row["predicted_bytes"] <= row["mean_field_bytes"], row


def test_periods_are_those_of_the_traces():
    for name, period in PERIODS.items():
        trace = TRACES[name](0)
        keys = [(request.scope, tuple(request.tokens[:8])) for request in trace]
        assert keys == (keys[:period] * 12)[:12] and len(set(keys)) == period
        assert len({request.tokens[-1] for request in trace}) == 12


def test_larger_budget_evicts_more(fixed):
    row = next(r for r in fixed if r["design"] == "every_checkpoint" and r["trace"] == "alternating")
    assert row["begins_to_pay_bytes"] == 10_560
    assert row["most_evictions"] == 23 and row["most_evictions_bytes"] == 4224


@pytest.mark.parametrize("gaps", [ExponentialGaps(2.0), UniformGaps(0.5, 1.5)])
def test_whole_content_is_the_paper(gaps):
    workload = workload_of(3.0, gaps)
    curve = working_set(workload, "keep_longest")
    inside = curve.times[:: len(curve.times) // 50]
    np.testing.assert_allclose(
        curve.displaced[:: len(curve.times) // 50], mean_displacement(workload, inside), rtol=1e-12
    )
    for capacity in (20.0, 60.0, 100.0):
        assert curve.characteristic_time(capacity) == pytest.approx(
            float(characteristic_time(workload, capacity)), rel=1e-4
        )
        assert curve.hit_ratio(capacity) == pytest.approx(float(hit_ratio(workload, capacity)), abs=1e-4)
    for share in (0.05, 0.5, 0.9):
        target = share * workload.profile().reuse_ceiling
        assert curve.threshold(share) == pytest.approx(capacity_for(workload, target), rel=1e-4)


def full_prefixes_touched(stream, start: float, t: float) -> int:
    """Blocks of the checkpoints touched in (start, start + t], where a turn hits if its gap is up to t."""
    order = np.lexsort((stream.time, stream.conversation))
    time, owner, history = stream.time[order], stream.conversation[order], stream.history[order]
    again = np.concatenate([[False], owner[1:] == owner[:-1]])
    hit = again & (time - np.roll(time, 1) <= t)
    inside = np.flatnonzero((start < time) & (time <= start + t))
    first = inside[np.unique(owner[inside], return_index=True)[1]]
    last = inside[len(inside) - 1 - np.unique(owner[inside][::-1], return_index=True)[1]]
    lowest = np.where(
        hit[first], np.roll(history, 1)[first], 1
    )  # the one that is used and later ones, or all
    return int((history[last] * (history[last] + 1) // 2 - lowest * (lowest - 1) // 2).sum())


def test_displacement_of_full_prefixes_by_simulation():
    workload = workload_of(1000.0, UniformGaps(0.75, 1.25))
    curve = working_set(workload, "every_checkpoint")
    stream = stream_of(workload, 34.0, seed=5)
    for t in (0.5, 0.9, 1.1, 1.6):
        windows = [full_prefixes_touched(stream, start, t) for start in range(2, 32, 2)]
        error = np.std(windows, ddof=1) / np.sqrt(len(windows))
        expected = np.interp(t, curve.times, curve.displaced)
        assert abs(np.mean(windows) - expected) < 5 * error < 0.1 * expected, (t, np.mean(windows))
    forgets_hits = (
        workload.profile().reusable * workload.arrival_rate
    )  # what drops out without A_H (I - t Fbar)
    assert forgets_hits > 5 * error


def test_smallest_root_is_taken():
    curve = WorkingSet(
        np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 10.0, 4.0, 20.0]), np.array([0.0, 0.1, 0.8, 1.0]), 0.5
    )
    assert curve.characteristic_time(5.0) == 0.5
    assert curve.characteristic_time(12.0) == 3.0
    assert curve.characteristic_time(99.0) == 4.0
    np.testing.assert_allclose(curve.characteristic_time([5.0, 12.0]), [0.5, 3.0])
    assert curve.threshold(0.8) == 10.0  # what a cold cache needs lies behind the hill, not in the valley
    with pytest.raises(InputError, match="share=1"):
        curve.threshold(1.0)


@pytest.fixture(scope="module")
def trace():
    workload = workload_of(60.0, UniformGaps(0.75, 1.25))
    return ConversationTrace.from_stream(workload, stream_of(workload, 16.0, seed=2))


def test_conversations_pay_from_the_predicted_budget_on(trace):
    swept = sweep_conversations(trace, ["keep_longest", "every_checkpoint"], [0.5, 0.7, 0.9, 1.1, 1.4])
    for row in swept:
        if row["share_of_threshold"] in (0.5, 1.4):  # well below and above: nothing, and everything
            assert row["hit_ratio"] == pytest.approx(row["predicted_hit_ratio"], abs=0.03)
    for row in conversation_thresholds(trace, swept):
        # 3,200 requests on some 500 resident blocks: the mean field is good to about a tenth
        assert row["found_over_predicted_at_drawn_load"] == pytest.approx(1.0, abs=0.15), row
        if row["exact_bytes"] is not None and row["share_of_ceiling"] == 0.5:
            assert row["found_bytes"] / trace.drawn_load[row["design"]] == pytest.approx(
                row["exact_bytes"], rel=0.06
            ), row


def test_a_sweep_that_ends_too_early_is_refused(trace):
    swept = sweep_conversations(trace, ["keep_longest"], [0.3])
    with pytest.raises(InputError, match="keep_longest: no budget of the sweep reaches"):
        conversation_thresholds(trace, swept)


def test_same_budget_two_outcomes():
    workload = workload_of(120.0, UniformGaps(0.75, 1.25))
    trace = ConversationTrace.from_stream(workload, stream_of(workload, 10.0, seed=3))
    row = compare_starts(trace, relative=(0.85 * trace.drawn_load["every_checkpoint"],))[0]
    assert row["roots"] == 3
    assert row["cold_hit_ratio"] < 0.1
    assert row["after_plenty_hit_ratio"] > 0.4


def test_exact_threshold_is_where_the_exact_law_reaches_it():
    from mfmc.theory.compound_poisson import hit_ratio_exact

    workload = workload_of(5.0, ExponentialGaps(2.0))
    capacity = exact_threshold(workload, 0.5)
    target = 0.5 * workload.profile().reuse_ceiling
    assert hit_ratio_exact(workload, capacity - 1.5) < target < hit_ratio_exact(workload, capacity + 1.5)


def test_thinning_keeps_whole_conversations(trace):
    stream = stream_of(workload_of(20.0, ExponentialGaps(1.0)), 5.0, seed=1)
    few = thinned(stream, 4)
    assert 0.1 < len(few) / len(stream) < 0.5
    assert few.history.sum() == stream.history[stream.conversation % 4 == 0].sum()


def test_residence_stacks_without_overlap_and_within_the_budget():
    from mfmc.checkpoints.experiment import run_experiment

    for budget in (0, 4096, 8192, 10_560, 32_768):
        records = run_experiment(seeds=[7], budgets=[budget], traces=["alternating"]).results["requests"]
        stays = residence_intervals(records, budget, 528)
        assert sum(stay["left"] is not None for stay in stays) == sum(len(r["evicted"]) for r in records)
        for a in stays:
            assert a["bottom"] + a["nbytes"] <= 12_672
            for b in stays:
                together = a["entered"] < (b["left"] or 12) and b["entered"] < (a["left"] or 12)
                overlap = a["bottom"] < b["bottom"] + b["nbytes"] and b["bottom"] < a["bottom"] + a["nbytes"]
                assert a is b or not (together and overlap)


def test_whole_study_in_small(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mfmc.plotting import style
    from mfmc.plotting_cache_budget import FIGURES
    from mfmc.studies.result import Result, check

    workload = workload_of(20.0, UniformGaps(0.75, 1.25))
    parts: list[str] = []
    study = run_cache_budget(
        workload,
        stream_of(workload, 6.0, seed=4),
        relative_budgets=(0.5, 1.0, 2.0),
        timing_cases=((4, 16),),
        timing_thinning=4,
        advance=parts.append,
    )
    assert all(passed for _, passed, _ in study.checks) and len(study.checks) == 4
    assert study.summary["requests"] == 324 and study.summary["arrays"] == 648
    assert len(parts) == len(set(parts)) == 6
    assert "22 checkpoints where 4 KiB evict 11" in study.headline[0]
    write_cache_budget(study, tmp_path / "evidence")
    assert audit_evidence(tmp_path / "evidence") == json.loads(
        (tmp_path / "evidence" / "audit.json").read_text()
    )
    times = {row["design"]: row for row in study.tables["times"]}
    assert times["no_cache"]["time_against_no_cache"] == 1.0 and times["no_cache"]["hit_ratio"] == 0.0
    for row in times.values():
        stages = [row[f"{stage}_us"] for stage in ("lookup", "copy", "compute", "bookkeeping")]
        assert sum(stages) == pytest.approx(row["total_us"])
    result = Result(
        study.summary,
        study.headline,
        study.tables,
        study.arrays,
        [check(*statement) for statement in study.checks],
    )
    for name, draw in FIGURES.items():
        with style():
            figure = Figure()
            canvas = FigureCanvasAgg(figure)
            draw(figure, result)
            canvas.draw()
        assert np.asarray(canvas.buffer_rgba())[..., :3].std() > 5  # not an empty page
        assert told_apart_in_grey(figure), name
