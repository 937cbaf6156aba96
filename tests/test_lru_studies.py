"""The studies of LRU as a user meets them: what their rows and figures say, and what they refuse."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from legends import told_apart_in_grey
from matplotlib.figure import Figure

from mfmc import plotting, results
from mfmc.cli import main
from mfmc.config.compose import configured
from mfmc.studies import sampling
from mfmc.studies.context import Context
from mfmc.studies.hit_ratio import hit_ratio_checks, hit_ratio_rows
from mfmc.theory.compound_poisson import hit_ratio_exact


@pytest.mark.parametrize("eviction", ["conversation", "block"])
def test_replay_of_a_drawn_stream_lies_on_the_exact_law(tmp_path, eviction):
    drawn = ["workload=scm", "capacities=[1024,100,1024]", "replay.conversations=60000", f"replay.eviction={eviction}"]
    assert main(["study=replay", *drawn, f"hydra.run.dir={tmp_path}"]) == 0
    summary = json.loads((tmp_path / "result.json").read_text())["summary"]
    assert summary["prediction"] == "exact"
    assert [row["capacity"] for row in summary["replay"]] == [100, 1024] * 2
    # Block by block, 100 blocks serve 0.042 of whole contents, and 0.036 where contents leave whole.
    assert all(abs(row["difference"]) < 4 * row["standard_error"] < 0.015 for row in summary["replay"])
    assert (tmp_path / "figures" / "curve.png").stat().st_size > 5000
    figure = Figure()
    plotting.drawings("replay")["curve"](figure, results.read(tmp_path))
    assert told_apart_in_grey(figure)


def test_a_drawn_stream_has_the_load_of_its_workload(tmp_path, capsys):
    assert main(["study=replay", "workload=scm", "replay.gap_mean=9", f"hydra.run.dir={tmp_path / 'refused'}"]) == 2
    assert "replay.gap_mean is for traces" in capsys.readouterr().err


def test_a_capacity_too_large_to_simulate_is_refused(tmp_path, capsys, monkeypatch):
    def starving(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(sampling, "simulate_displacement", starving)
    assert main(["study=hit_ratio", "workload=scm", "capacities=[100000000000]", f"hydra.run.dir={tmp_path}"]) == 2
    assert "capacities=100000000000: not even one path" in capsys.readouterr().err


def test_paths_that_all_give_one_value_are_not_taken_for_certain():
    """Every gap ends before T_C on all paths that were drawn; on rare others it does not, and h(N) is smaller."""
    settings = configured(["study=hit_ratio", "workload=scm", "runtime.replications=10"])
    context = Context(settings)
    profile = context.workload.profile("whole")
    agreeing = np.full(50, hit_ratio_exact(context.workload_at(500), 500) * profile.content * (1 + 1e-6))
    rows = hit_ratio_rows(settings, context, {500: {"whole": SimpleNamespace(reuse_given_path=agreeing)}})
    assert rows[0]["conditional"]["standard_error"] == profile.reuse_ceiling / 50
    assert all(found.passed for found in hit_ratio_checks(rows) if "Monte Carlo" in found.name)


def test_a_refined_formula_that_does_not_apply_is_not_praised_for_being_close():
    error = {"estimate": 0.4, "standard_error": 0.01}
    same = {"mean_field": 0.8, "refined": 0.4, "exact": 0.4, "conditional": error, "replay": error}
    rows = [{"capacity": 100, "accounting": "whole", **same}, {"capacity": 1000, "accounting": "whole", **same}]
    rows[1]["refined"] = 0.401
    figure = Figure()
    plotting.drawings("validate")["hit_ratio"](figure, SimpleNamespace(summary={"hit_ratio": rows[:1]}))
    assert "does not apply" in figure.axes[1].get_title()
    figure = Figure()
    plotting.drawings("validate")["hit_ratio"](figure, SimpleNamespace(summary={"hit_ratio": rows}))
    assert figure.axes[1].get_title() == "At N = 1,000 the refined value is 400 times closer"
