"""The studies trace, estimate, plan and fit, and workload=from_trace, from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from synthetic_traces import synthetic_trace

from mfmc import cli
from mfmc.estimator import PartialWorkload, TraceEstimator
from mfmc.laws.gaps import ExponentialGaps
from mfmc.results import read
from mfmc.theory.mean_field import hit_ratio
from mfmc.traces import read_trace

PARTIAL = [
    "study=estimate",
    "estimate.source=partial",
    "estimate.accessed_blocks=38.9092",
    "estimate.hashable_blocks=22.5178",
    "estimate.mean_lifetime_blocks=12.9220",
    "estimate.arrival_rate=1.5",
    "estimate.gap_mean=135",
    "capacities=[2275]",
]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def turns_file(tmp_path_factory) -> Path:
    """A CSV with times: 700 conversations of exponential gaps."""
    trace = synthetic_trace(ExponentialGaps(60.0), 1.0, 700, 660.0, seed=5)
    path = tmp_path_factory.mktemp("trace") / "turns.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["conversation", "turn", "submitted_at", "prompt_tokens", "response_tokens"])
        columns = (
            trace.conversation,
            trace.turn,
            trace.submitted_at,
            trace.new_prompt_tokens,
            trace.response_tokens,
        )
        writer.writerows(zip(*(column.tolist() for column in columns)))
    return path


def run(*argv: str) -> dict:
    """The summary of a run that must succeed."""
    folder = Path(f"run{len(list(Path().glob('run*')))}")
    assert cli.main([*argv, "plots=false", f"hydra.run.dir={folder}"]) == 0
    return json.loads((folder / "result.json").read_text())["summary"]


def refused(capsys, *argv: str) -> str:
    """The one line of a run that must be refused."""
    assert cli.main([*argv, "plots=false"]) == 2
    line = capsys.readouterr().err
    assert line.startswith("mfmc: ") and line.count("\n") == 1
    return line


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [([], 0.171784), (["estimate.gap_mean=90"], 0.247641), (["estimate.arrival_rate=0.5"], 0.425302)],
)
def test_partial_information_gives_the_papers_values(here, changes, ratio):
    (row,) = run(*PARTIAL, *changes)["estimates"]
    assert row["hit_ratio"] == pytest.approx(ratio, abs=5e-7)
    if not changes:
        assert row["characteristic_time"] == pytest.approx(47.5413, abs=5e-5)


def test_partial_information_from_a_file(here, capsys):
    Path("known.yaml").write_text(
        "accessed_blocks: 38.9092\nhashable_blocks: 22.5178\nmean_lifetime_blocks: 12.9220\nmean_turns:"
        " 4.4694\n"
        "arrival_rate: 1.5\ngaps: {kind: gamma, shape: 1.0, mean: 135}\n"
    )
    argv = ["study=estimate", "estimate.source=partial", "estimate.file=known.yaml", "capacities=[2275]"]
    rows = run(*argv)["estimates"]
    assert [row["accounting"] for row in rows] == ["whole", "practical"]
    assert rows[1]["hit_ratio"] == pytest.approx(0.171784, abs=5e-7)
    (slower,) = run(*argv, "estimate.arrival_rate=0.5", "accountings=[practical]")["estimates"]
    assert slower["hit_ratio"] == pytest.approx(0.425302, abs=5e-7)
    Path("known.yaml").write_text("accessed_block: 3\n")
    assert "accessed_blocks" in refused(capsys, *argv)


def test_what_partial_information_lacks_is_said(here, capsys):
    assert "estimate.gap_mean is not set" in refused(capsys, *[a for a in PARTIAL if "gap_mean" not in a])
    assert "estimate.arrival_rate is not set" in refused(capsys, *[a for a in PARTIAL if "arrival" not in a])
    assert "both set" in refused(capsys, *PARTIAL, "estimate.gaps.kind=gamma")
    assert "trace.path is not set" in refused(capsys, "study=estimate")


def test_an_estimate_has_its_interval_its_error_and_the_exact_value(here, turns_file):
    summary = run(
        "study=estimate",
        f"trace.path={turns_file}",
        "trace.block_tokens=64",
        "capacities=[600]",
        "estimate.replicates=100",
        "estimate.gap_mean=60",
    )
    assert summary["accounting"] == "token" and summary["law"] == "size_weighted"
    assert summary["continues"] > summary["continues_seen"]
    for row in summary["estimates"]:
        assert row["low"] < row["hit_ratio"] < row["high"]
        assert row["absolute_error"] == pytest.approx(abs(row["hit_ratio"] - row["replayed"]))
        assert row["relative_error"] == pytest.approx(row["absolute_error"] / row["replayed"])
        assert row["relative_error"] < 0.25 and abs(row["exact"] - row["hit_ratio"]) < 0.02
    kinds = {(row["accounting"], row["law"]) for row in summary["all_estimates"]}
    assert len(kinds) == 3 * 5


def test_a_plan_reaches_its_targets(here, turns_file):
    summary = run(
        "study=plan",
        "plan.source=trace",
        f"trace.path={turns_file}",
        "trace.block_tokens=64",
        "plan.hit_ratios=[0.2,0.9]",
        "plan.prefill_savings=[0.2]",
        "plan.budgets_gib=[4]",
        "plan.replicates=50",
        "plan.memory_prices=[1e-6,1e6]",
    )
    rows = {row["target"]: row for row in summary["plan"]}
    assert set(rows) == {"hit ratio 0.2", "prefill saving 0.2", "budget 4 GiB"}  # 0.9 lies above the ceiling
    goal = rows["hit ratio 0.2"]
    assert goal["hit_ratio"] == pytest.approx(0.2) and rows["prefill saving 0.2"][
        "prefill_saving"
    ] == pytest.approx(0.2)
    assert goal["gib_low"] < goal["gib"] < goal["gib_high"]
    assert goal["gib"] == pytest.approx(goal["capacity"] * 147_456 * 64 / 2**30)
    assert rows["budget 4 GiB"]["capacity"] == 4 * 2**30 // (147_456 * 64)
    assert summary["knees"][0]["capacity"] > 0 and summary["knees"][1]["capacity"] == 0


def test_the_default_plan_is_the_papers_forty_gigabytes(here):
    summary = run("study=plan", "plan.hit_ratios=[0.2]", "plan.exact=false", "plan.replay=false")
    budget = next(row for row in summary["plan"] if row["target"] == "budget 40 GiB")
    assert budget["capacity"] == 2275 and budget["hit_ratio"] == pytest.approx(0.171784, abs=2e-5)


def test_a_fitted_workload_runs(here, turns_file):
    summary = run("study=fit", f"trace.path={turns_file}", "trace.block_tokens=64", "fit.kinds=[exponential]")
    (gap,) = summary["gaps"]["fits"]
    mean = gap["parameters"]["mean"]
    assert abs(mean["estimate"] - 60) < 5 * mean["standard_error"]
    blocks = summary["blocks"]
    assert blocks["reusable_blocks"] == pytest.approx(blocks["reusable_blocks_of_trace"], rel=1e-3)
    ran = run("study=mean_field", "workload=run0/workload.yaml", "capacities=[400]")
    assert ran["arrival_rate"] == pytest.approx(summary["workload"]["arrival_rate"])


def test_a_law_far_from_the_trace_says_so(here, capsys):
    """Sessions with clocks of their own, gaps of 1 s or 1,000 s, prompts that shrink once: twice the conversations."""
    rows = [
        f"s{i},{j},human,{1000 * (j > 4) + (1 + i / 100) * j},,,{100 + 100 * (j % 4)},{100 * (j % 4)},50"
        for i in range(40)
        for j in range(8)
    ]
    header = "trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens"
    Path("steps.csv").write_text("\n".join([header, *rows]) + "\n")
    summary = run("study=fit", "trace.path=steps.csv", "fit.kinds=[exponential]", "fit.arrival_rate=0.5")
    assert summary["workload"]["arrival_rate"] == pytest.approx(1.0)
    assert "no law of the gaps comes near the trace" in capsys.readouterr().out


def test_real_conversations_and_gaps_are_a_workload(here, turns_file):
    shared = ["workload=from_trace", f"workload.trace.path={turns_file}", "workload.block_tokens=64"]
    rows = run("study=mean_field", *shared, "capacities=[900]")["mean_field"]
    estimator = TraceEstimator(read_trace(turns_file), 64, replicates=0)
    known = PartialWorkload(estimator.arrival_rate, estimator.laws["size_weighted"], known=estimator.sums.known)
    token = next(row for row in rows if row["accounting"] == "token" and row["capacity"] == 900)
    assert token["hit_ratio"] == pytest.approx(float(hit_ratio(known, 900, "token")), rel=5e-3)


def test_a_trace_without_clock_says_what_it_lacks(here, capsys):
    Path("turns.csv").write_text(
        "conv,turn,prompt_tokens,response_tokens\n" + "".join(f"a{i},1,9,9\na{i},2,9,9\n" for i in range(9))
    )
    line = refused(capsys, "study=mean_field", "workload=from_trace", "workload.trace.path=turns.csv")
    assert "workload.arrival_rate is not set" in line
    timeless = ["workload=from_trace", "workload.trace.path=turns.csv", "workload.arrival_rate=1"]
    assert "workload.gaps.kind is not set" in refused(capsys, "study=mean_field", *timeless)
    assert "estimate.arrival_rate" in refused(capsys, "study=estimate", "trace.path=turns.csv")
    line = refused(capsys, "study=estimate", "trace.path=turns.csv", "estimate.arrival_rate=1")
    assert "give a gap law" in line
    assert "no gaps" in refused(capsys, "study=fit", "trace.path=turns.csv")


def test_the_report_of_a_trace(here, turns_file):
    summary = run("study=trace", f"trace.path={turns_file}")
    rows = summary["rows"]
    assert rows["rows_read"] == rows["rows_kept"] + rows["rows_rejected"] > 1000
    result = read("run0")
    turns = next(row for row in result.tables["table"] if row["quantity"] == "turns")
    assert turns["count"] == summary["shape"]["conversations"]
    assert np.all(np.diff(result.arrays["gap_seconds_quantiles"]) >= 0)


@pytest.mark.parametrize("study", ["trace", "estimate", "plan", "fit"])
def test_figures_are_drawn_from_results(here, turns_file, study):
    argv = {
        "trace": [],
        "estimate": ["estimate.replicates=20", "estimate.exact=false"],
        "fit": ["fit.kinds=[exponential]"],
        "plan": ["plan.source=trace", "plan.hit_ratios=[0.1]", "plan.exact=false", "plan.replicates=20"],
    }[study]
    assert (
        cli.main(
            [f"study={study}", f"trace.path={turns_file}", "capacities=[400]", *argv, "hydra.run.dir=drawn"]
        )
        == 0
    )
    from mfmc.plotting import drawings

    assert {path.stem for path in Path("drawn/figures").glob("*.png")} == set(drawings(study))
