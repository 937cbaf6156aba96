"""The main job through the command line: what the summary holds, that checks can fail, and real input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from legends import told_apart_in_grey

from mfmc import plotting, results
from mfmc.cli import main

SMALL = ["runtime.replications=60", "capacities=[100,2000]", "turns_of_interest=[1]"]


def run(folder: Path, *overrides: str) -> tuple[int, dict]:
    """Exit status and summary."""
    status = main([*overrides, f"hydra.run.dir={folder}"])
    return status, json.loads((folder / "result.json").read_text())["summary"]


@pytest.fixture(scope="module")
def validated(tmp_path_factory) -> tuple[int, dict, Path]:
    folder = tmp_path_factory.mktemp("validate") / "run"
    return *run(folder, *SMALL), folder


def test_no_two_lines_of_a_legend_look_alike_in_grey(validated):
    from matplotlib.figure import Figure

    result = results.read(validated[2])
    for name, draw in plotting.drawings("validate").items():
        figure = Figure()
        draw(figure, result)
        assert told_apart_in_grey(figure), name


def test_the_summary_holds_what_is_promised(validated):
    status, summary, _ = validated
    assert status == 0 and all(check["passed"] for check in summary["checks"])
    assert {
        "mean_turns",
        "variance_turns",
        "mean_lifetime_blocks",
        "accessed_blocks",
        "reusable_blocks",
        "hashable_blocks",
        "reuse_ceiling",
        "mean_gap",
        "assumptions",
    } <= set(summary["workload"])
    assert [set(a) for a in summary["workload"]["assumptions"]] == [{"name", "holds", "detail"}] * 3
    assert set(summary["mean_field"]) == {"whole", "practical"}
    columns = {
        "displacement": {
            "capacity",
            "time",
            "epsilon",
            "estimate",
            "low",
            "high",
            "bound",
            "exact",
            "chebyshev",
            "chernoff",
        },
        "displacement_sup": {
            "capacity",
            "horizon",
            "epsilon",
            "estimate",
            "low",
            "high",
            "bound",
            "mean_sup",
            "mean_sup_standard_error",
            "chernoff",
            "gaussian_limit",
        },
        "characteristic_time": {
            "capacity",
            "turn",
            "epsilon",
            "estimate",
            "low",
            "high",
            "bound",
            "mean",
            "standard_deviation",
            "exact",
            "chebyshev",
            "chernoff",
        },
        "hit_ratio": {"capacity", "accounting", "mean_field", "refined", "exact", "bound", "conditional", "replay"},
    }
    for section, expected in columns.items():
        assert summary[section] and all(expected <= set(row) for row in summary[section]), section
    for row in summary["hit_ratio"]:
        assert set(row["conditional"]) == set(row["replay"]) == {"estimate", "standard_error"}
    assert {row["quantity"] for row in summary["rates"]} == {"mean sup", "mean deviation at a time"}


def test_the_folder_holds_report_tables_and_figures(validated):
    _, _, folder = validated
    report = (folder / "report.md").read_text()
    for name in ("paths", "tail_probabilities", "characteristic_time", "convergence", "hit_ratio"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 5000
        assert f"figures/{name}.png" in report
    assert "## Assumptions" in report and "**fails**" in report  # B.2, by construction of sharegpt
    for table in ("table", "displacement", "displacement_sup", "characteristic_time"):
        assert (folder / f"{table}.csv").stat().st_size > 100


def test_a_wrong_theory_fails_its_checks(tmp_path, monkeypatch):
    """A mutant: the exact law of another arrival rate. The run says so and exits with status 1."""
    import dataclasses

    import mfmc.studies.exact as exact

    original = exact.hit_ratio_exact
    monkeypatch.setattr(
        exact,
        "hit_ratio_exact",
        lambda w, *rest: original(dataclasses.replace(w, arrival_rate=1.3 * w.arrival_rate), *rest),
    )
    status, summary = run(
        tmp_path / "run",
        "study=hit_ratio",
        "workload=scm",
        "capacities=[1000]",
        "runtime.replications=200",
        "plots=false",
    )
    failed = [check["name"] for check in summary["checks"] if not check["passed"]]
    assert status == 1 and any("Monte Carlo" in name for name in failed) and any("replay" in name for name in failed)


def test_real_conversations_have_every_accounting(tmp_path, shared):
    status, summary = run(
        tmp_path / "run",
        "workload=trace",
        f"workload.path={shared / 'traces' / 'sharegpt_turns.csv.gz'}",
        "workload.block_tokens=128",
        "capacities=[500]",
        "runtime.replications=60",
        "plots=false",
        "turns_of_interest=[1]",
    )
    assert status == 0
    assert set(summary["mean_field"]) == {"whole", "practical", "token"}
    assert {row["accounting"] for row in summary["hit_ratio"]} == {"whole", "practical", "token"}
    independence = summary["workload"]["assumptions"][0]
    assert independence["holds"] is False and "rank correlation" in independence["detail"]


def test_exact_study_needs_no_simulation(tmp_path):
    status, summary = run(
        tmp_path / "run",
        "study=exact",
        "workload=scm",
        "capacities=[1000,1000000000000]",
        "epsilons=[0.1]",
        "times=[1.0]",
        "turns_of_interest=[1]",
        "plots=false",
    )
    assert status == 0
    whole = [row for row in summary["hit_ratio"] if row["accounting"] == "whole"]
    assert abs(whole[1]["exact"] - whole[1]["mean_field"]) < 1e-10 < abs(whole[0]["exact"] - whole[0]["mean_field"])


def test_replay_of_a_trace_and_of_one_without_a_clock(tmp_path, shared, capsys):
    traces = shared / "traces"
    status, summary = run(
        tmp_path / "run",
        "study=replay",
        f"trace.path={traces / 'mooncake_conversation.jsonl.gz'}",
        "capacities=[5000]",
        "plots=false",
    )
    assert status == 0 and summary["prediction"] == "estimator" and abs(summary["replay"][0]["difference"]) < 0.01
    capsys.readouterr()
    command = ["study=replay", f"trace.path={traces / 'sharegpt_turns.csv.gz'}", "capacities=[2275]", "plots=false"]
    assert main([*command, f"hydra.run.dir={tmp_path / 'refused'}"]) == 2
    assert "give replay.arrival_rate" in capsys.readouterr().err
