"""The studies of the two other sources, through the command line: eviction_tradeoff and cache_budget."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from mfmc.cli import main


def run(tmp_path: Path, *overrides: str) -> tuple[dict, Path]:
    """Summary and folder of a run that must succeed."""
    folder = tmp_path / "run"
    assert main([*overrides, f"hydra.run.dir={folder}"]) == 0
    return json.loads((folder / "result.json").read_text())["summary"], folder


def test_eviction_tradeoff_on_the_agentic_steps(tmp_path, shared):
    """The check values of the source's definitions on real steps."""
    summary, folder = run(
        tmp_path,
        "study=eviction_tradeoff",
        f"eviction.path={shared / 'traces' / 'agentic_steps.csv.gz'}",
        "plots=false",
    )
    assert summary["covered_steps"] == 24_468 and summary["steps_without_gap"] == 46
    assert summary["optimal_hit_rate"] == pytest.approx(0.989450, abs=5e-7)
    assert summary["hit_rate_60s"] == pytest.approx(0.800318, abs=5e-7)
    assert summary["amplification_60s"] == pytest.approx(18.9276, abs=5e-5)
    assert summary["deployed_hit_rate"] == pytest.approx(0.973292, abs=5e-7)
    assert summary["deployed_amplification"] == pytest.approx(2.5316, abs=5e-5)
    assert summary["effective_eviction_time_s"] == pytest.approx(2072, abs=0.5)
    with (folder / "eviction_tradeoff_by_scope.csv").open() as file:
        assert {"scope", "timeout_s", "hit_rate", "prefill_amplification"} <= set(next(csv.reader(file)))


def test_eviction_tradeoff_draws_its_figures(tmp_path):
    steps = tmp_path / "steps.csv.gz"
    with gzip.open(steps, "wt") as file:
        file.write("trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens\n")
        for trace in range(4):
            for step in range(12):
                tokens = 1000 + 300 * step
                kind = "human" if step % 3 == 0 else "tool"
                file.write(f"t{trace},{step},{kind},{40 * step},{5 + 7 * step},3,{tokens},{max(tokens - 400, 0)},60\n")
    summary, folder = run(
        tmp_path,
        "study=eviction_tradeoff",
        f"eviction.path={steps}",
        "eviction.replications=2",
        "eviction.session_rate=0.1",
    )
    assert summary["covered_steps"] == 44
    for name in ("eviction_tradeoff_by_timeout", "eviction_tradeoff_pareto"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 5000
        assert (folder / "figures" / f"{name}.pdf").exists()


def test_eviction_tradeoff_without_a_file_says_what_to_do(tmp_path, capsys):
    assert main(["study=eviction_tradeoff", f"hydra.run.dir={tmp_path / 'run'}"]) == 2
    assert "eviction.path=null: name the file of steps" in capsys.readouterr().err


def test_cache_budget_reproduces_the_published_table_and_leaves_evidence(tmp_path):
    from mfmc.checkpoints import audit_evidence

    summary, folder = run(
        tmp_path,
        "study=cache_budget",
        "plots=false",
        "cache_budget.conversations=10",
        "cache_budget.timing_thinning=20",
    )
    assert all(check["passed"] for check in summary["checks"])
    evidence = folder / "evidence"
    assert {path.name for path in evidence.iterdir()} == {"results.json", "arrays.npz", "audit.json"}
    assert audit_evidence(evidence)
