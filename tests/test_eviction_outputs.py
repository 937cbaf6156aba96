"""The study as a whole: its summary, tables, files and figures."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.eviction import Steps, run_eviction_tradeoff, steps_from_arrays, steps_from_file
from mfmc.eviction.tradeoff import duration
from mfmc.plotting_eviction_tradeoff import FIGURES, write_outputs
from mfmc.results import read_table

NAMES = ("eviction_tradeoff_by_timeout", "eviction_tradeoff_pareto")


def _steps(**columns: object) -> Steps:
    rng = np.random.default_rng(0)
    gap = rng.lognormal(3, 2, 400)
    gap[::20] = math.nan
    total = np.tile(np.arange(20) * 50 + 100, 20)
    given = {
        "prefix": total - 60,
        "generation": rng.gamma(2, 3, 400),
        "provider": np.repeat(["x", "y"], 200),
        "kind": np.where(np.arange(400) % 5 == 0, "human", "tool"),
    } | columns
    return steps_from_arrays(np.repeat(np.arange(20), 20), total, rng.integers(0, 30, 400), gap, **given)


def test_summary_and_tables() -> None:
    outcome = run_eviction_tradeoff(_steps(), replications=2)
    summary = outcome.summary
    assert summary["covered_steps"] == 380 and summary["session_first_steps"] == 20
    rows = outcome.tables["eviction_tradeoff_by_scope"]
    assert {row["scope"] for row in rows} == {"all", "provider=x", "provider=y", "kind=human", "kind=tool"}
    at_5_min = next(row for row in rows if row["scope"] == "all" and row["timeout_s"] == 300)
    assert at_5_min["timeout"] == "5 min"
    assert at_5_min["hit_rate"] == summary["hit_rate_300s"]
    assert at_5_min["redundant_prefill_ratio"] == pytest.approx(1 - 1 / summary["amplification_300s"])
    memory = outcome.tables["eviction_tradeoff_by_memory"]
    assert all(row["memory_tokens"] > row["idle_tokens"] for row in memory)
    first = memory[0]
    assert first["memory_gib"] == pytest.approx(first["memory_tokens"] * 147456 / 2**30)
    assert first["difference"] == first["lru_hit_rate"] - first["hit_rate"]
    json.dumps(summary, allow_nan=False)


def test_files(tmp_path: Path) -> None:
    outcome = run_eviction_tradeoff(_steps(), replications=2)
    written = write_outputs(outcome, tmp_path / "new" / "folder")
    assert all(path.stat().st_size > 0 for path in written)
    names = {path.name for path in written}
    assert {f"{name}{suffix}" for name in NAMES for suffix in (".png", ".pdf")} <= names
    assert len(names) == len(outcome.tables) + 2 * len(FIGURES)
    stored = read_table(tmp_path / "new" / "folder" / "eviction_tradeoff_by_scope.csv")
    assert stored == outcome.tables["eviction_tradeoff_by_scope"]


def test_tables_only(tmp_path: Path) -> None:
    written = write_outputs(run_eviction_tradeoff(_steps(), replications=2), tmp_path, plots=False)
    assert {path.suffix for path in written} == {".csv"}
    assert tmp_path / "eviction_tradeoff_by_scope.csv" in written


@pytest.mark.parametrize(
    "steps",
    [
        _steps(prefix=None, generation=None, provider=None, kind=None),  # nothing optional is known
        _steps(prefix=np.zeros(400)),  # a deployed cache that serves nothing
        _steps(prefix=np.tile(np.arange(20) * 50 + 100, 20)),  # one that serves everything: no fresh token
    ],
)
def test_figures_of_meagre_input(steps: Steps, tmp_path: Path) -> None:
    outcome = run_eviction_tradeoff(steps, timeouts=np.array([2.0, 20.0, 200.0]), replications=2)
    write_outputs(outcome, tmp_path)


def test_unknown_model() -> None:
    with pytest.raises(InputError, match=r"model 'gpt' is unknown: choose one of .*qwen3_8b"):
        run_eviction_tradeoff(_steps(), model="gpt")


def test_durations_in_words() -> None:
    assert [duration(s) for s in (1, 59.94, 60, 2072, 3600, 14400)] == [
        "1 s", "59.9 s", "1 min", "34.5 min", "1 h", "4 h",
    ]  # fmt: skip


def test_import_is_light() -> None:
    code = (
        "import sys, mfmc.eviction; print([m for m in ('matplotlib', 'duckdb', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_coding_agent_trace(shared: Path) -> None:
    """LRU in the memory of a long time-out hits as the time-out does."""
    steps = steps_from_file(shared / "traces" / "agentic_steps.csv.gz")
    outcome = run_eviction_tradeoff(steps, replications=2)
    rows = {row["timeout_s"]: row for row in outcome.tables["eviction_tradeoff_by_memory"]}
    short, long = rows[60.0], rows[1800.0]
    assert -0.06 < short["difference"] < -0.01
    assert abs(long["difference"]) < 0.002
    assert outcome.summary["effective_eviction_time_s"] == 2072.0
