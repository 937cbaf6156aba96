"""Sweeps: experiments, one table of all jobs, and jobs that leave no trace on each other."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import hydra
import jax
import numpy as np
import pytest
from omegaconf import OmegaConf

from mfmc import plotting
from mfmc.buckets import padded, round_up
from mfmc.cli import main
from mfmc.collect import collect
from mfmc.config import compose
from mfmc.config.sweeps import PLAN, planned_jobs, sweep_folder
from mfmc.displacement_pass import replicate
from mfmc.errors import InputError
from mfmc.fingerprint import digest_of, fingerprint
from mfmc.plotting_sweeps import FIGURES
from mfmc.results import read_table
from mfmc.studies import mean_field
from mfmc.studies.context import Context

FAST = ["study=mean_field", "plots=false", "capacities=[100,1000]"]
TINY = [
    "study=displacement", "workload=single_shot", "capacities=[100]", "accountings=[whole]", "times=[1.0]",
    "epsilons=[0.1]", "runtime.replications=64", "plots=false",
]  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


def the_sweep() -> Path:
    (sweep,) = Path("outputs/multirun").iterdir()
    return sweep


def numbers(sweep: Path) -> dict[str, bytes]:
    """All that a sweep computed, as bytes by file."""
    found = [*sweep.glob("*.csv"), *sweep.glob("*/*.csv"), *sweep.glob("*/*.npz")]
    return {str(path.relative_to(sweep)): path.read_bytes() for path in found}


# --- experiments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", compose.options("experiment"))
def test_an_experiment_is_a_sweep_of_valid_jobs_with_figures(name, here):
    """Every job's settings are checked and its workload is built; nothing is computed."""
    compose.store_schema()
    with hydra.initialize_config_dir(str(compose.conf_folder()), version_base="1.3"):
        plan = hydra.compose(compose.NAME, [f"experiment={name}"], return_hydra_config=True).hydra
    assert plan.mode.name == "MULTIRUN" and name in FIGURES
    written = {"sweeper": {"params": plan.sweeper.params}, "overrides": {"task": [f"experiment={name}"]}}
    OmegaConf.save({"hydra": written}, here / PLAN)
    jobs = planned_jobs(here)
    assert len(jobs) >= 2
    for job in jobs:
        context = Context(compose.configured([f"{key}={value}" for key, value in job.items()]))
        assert context.workload.profile(context.accountings[0]).content > 0


def test_an_experiment_ends_in_one_table_and_one_report(here, capsys):
    assert main(["experiment=load", "plots=false", "workload.arrival_rate=0.5,1.5"]) == 0
    sweep = the_sweep()
    rows = read_table(sweep / "sweep.csv")
    assert [row["job"] for row in rows] == sorted(row["job"] for row in rows)
    assert {row["workload.arrival_rate"] for row in rows} == {0.5, 1.5}
    report = (sweep / "report.md").read_text()
    assert "the cache time shrinks as the load grows" in report and "| [1](1/report.md) | 1.5 |" in report
    assert "2 jobs: 2 done" in report and "![Hit ratio](figures/hit_ratio.png)" in report
    assert (sweep / "figures/hit_ratio.png").stat().st_size > 5_000
    assert f"results: {sweep}" in capsys.readouterr().out


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed")
def test_parquet_holds_the_same_rows(here):
    import pyarrow.parquet

    main([*FAST, "-m", "workload=scm,sharegpt"])
    rows = pyarrow.parquet.read_table(the_sweep() / "sweep.parquet").to_pylist()
    assert rows == read_table(the_sweep() / "sweep.csv") and {row["workload"] for row in rows} == {"scm", "sharegpt"}


def test_without_pyarrow_the_report_says_so(here, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    main([*FAST, "-m", "workload=scm,sharegpt"])
    assert "pyarrow is not installed" in (the_sweep() / "report.md").read_text()
    assert not (the_sweep() / "sweep.parquet").exists()


def test_figures_of_scaling_and_bounds_are_drawn_from_rows(here):
    rows = [
        {"workload": w, "capacity": n, "accounting": "whole", "mean_field": 0.4, "exact": 0.4 - 3 / n,
         "refined": 0.4 - 3.1 / n, "conditional_estimate": 0.4, "conditional_standard_error": 1e-3,
         "replay_estimate": 0.39, "replay_standard_error": 1e-3, "epsilon": e, "bound": 1 - 3 / n, "estimate": 0.1,
         "low": 0.05, "high": 0.2}
        for w in ("scm", "sharegpt") for n in (100, 1000) for e in (0.1, 0.2)
    ]  # fmt: skip
    rates = [{"workload": "scm", "quantity": "mean sup", "slope": -0.5, "low": -0.52, "high": -0.47}]
    tables = {"table": rows, "rates": rates, "displacement_sup": rows}
    for experiment in ("scaling", "bounds"):
        for name, (_, draw) in FIGURES[experiment].items():
            plotting.save(draw, tables, here / name)
            assert (here / f"{name}.pdf").stat().st_size > 5_000


# --- collection ---------------------------------------------------------------------------------------------


def test_a_failed_job_is_listed_and_does_not_take_the_others_along(here, capsys):
    assert main([*FAST, "-m", "workload.arrival_rate=2,-1,3"]) == 2
    sweep = the_sweep()
    assert {row["job"] for row in read_table(sweep / "sweep.csv")} == {0, 2}
    report = (sweep / "report.md").read_text()
    assert "2 done, 1 refused" in report and "workload.arrival_rate=-1: expected a number above 0" in report
    capsys.readouterr()
    assert main(["study=collect", f"sweep={sweep}"]) == 1
    assert "job 1: workload.arrival_rate=-1: expected" in capsys.readouterr().out


def test_a_half_finished_sweep_is_collected(here, monkeypatch):
    """The process ends in the middle of job 1; jobs 1 and 2 are said not to be finished."""
    run, seen = mean_field.run, []

    def stops(config, context):
        seen.append(config.workload.arrival_rate)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return run(config, context)

    monkeypatch.setattr(mean_field, "run", stops)
    command = [*FAST, "-m", "workload.arrival_rate=1,2,3"]
    assert main(command) == 130
    found = collect(the_sweep())
    assert [job.status for job in found.jobs] == [0, None, None] and found.counts() == "3 jobs: 1 done, 2 not finished"
    assert {row["workload.arrival_rate"] for row in found.tables["table"]} == {1}
    monkeypatch.setattr(mean_field, "run", run)
    assert main(["study=collect", f"sweep={the_sweep()}"]) == 1
    assert main(command) == 0 and len(read_table(the_sweep() / "sweep.csv")) == 3 * len(found.tables["table"])


def test_what_is_no_sweep_is_refused(here, capsys):
    with pytest.raises(InputError, match="no such folder"):
        collect("nowhere")
    with pytest.raises(InputError, match="no folder of a multirun"):
        collect(here)
    assert main(["study=collect"]) == 2 and "sweep is not set" in capsys.readouterr().err
    assert main(["study=collect", "sweep=nowhere"]) == 2


# --- the folder of a command, and fingerprints --------------------------------------------------------------


def test_the_same_command_has_the_same_folder_and_another_one_another():
    first = sweep_folder(["experiment=load", "runtime=quick"])
    assert first.startswith("hydra.sweep.dir=${output}/multirun/load-")
    assert first == sweep_folder(
        ["experiment=load", "output=x", "runtime=quick", "runtime.threads=1", "hydra/launcher=x"]
    )
    assert first != sweep_folder(["experiment=load"]) != sweep_folder(["experiment=turns"])
    assert sweep_folder(["a=1,2", "b=1"]) != sweep_folder(["b=1", "a=1,2"])  # the order numbers the jobs
    assert "/sweep-" in sweep_folder(["a=1,2"])


def test_a_workload_file_of_other_content_is_another_sweep(here):
    Path("w.yaml").write_text("a: 1")
    before = sweep_folder(["workload=w.yaml"])
    Path("w.yaml").write_text("a: 2")
    assert sweep_folder(["workload=w.yaml"]) != before


def test_the_fingerprint_knows_what_matters(here):
    config = {"study": "x", "output": "a", "runtime": {"seed": 0, "threads": None}, "workload": {"path": "t.csv"}}
    mark = fingerprint(config)
    assert mark == fingerprint(config | {"output": "b", "runtime": {"seed": 0, "threads": 2}})
    assert mark != fingerprint(config | {"runtime": {"seed": 1, "threads": None}})
    Path("t.csv").write_text("1")
    with_file = fingerprint(config)
    Path("t.csv").write_text("12")
    assert len({mark, with_file, fingerprint(config)}) == 3


def test_an_edit_reruns_jobs_unless_it_only_shows_them_otherwise(tmp_path):
    digests = []
    for name in ("laws/gaps.py", "plotting_exact.py", "report.py", "studies/exact.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("edited")
        digests.append(digest_of(tmp_path))
    assert digests[0] == digests[1] == digests[2] != digests[3]


# --- isolation ----------------------------------------------------------------------------------------------


def test_a_job_computes_the_same_alone_and_after_others(here):
    """After jobs in single precision, one of them refused (Monte Carlo needs double), and other studies."""
    studies = ["study=mean_field,displacement", "runtime.precision=float32,float64"]
    assert main([*TINY[1:], "-m", *studies, "hydra.sweep.dir=sweep"]) == 2
    assert [job.status for job in collect(Path("sweep")).jobs] == [0, 0, 2, 0]
    assert main([*TINY, "hydra.run.dir=alone"]) == 0
    for path in [Path("alone/arrays.npz"), *Path("alone").glob("*.csv")]:
        assert path.read_bytes() == (Path("sweep/3") / path.name).read_bytes()


LAUNCHERS = {"processes": "joblib", "slurm_here": "submitit", "cluster": "ray"}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_gives_the_same_tables(here, launcher):
    plugin = f"hydra_plugins.hydra_{LAUNCHERS[launcher]}_launcher"
    if not installed(plugin):
        pytest.skip(f"pip install 'mfmc[parallel-{LAUNCHERS[launcher]}]' to test this")
    # Processes of their own, as a user has them: launchers start workers, and plugins are found when Hydra starts.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    for folder, more in (("basic", []), ("other", [f"hydra/launcher={launcher}"])):
        command = [sys.executable, "-m", "mfmc", *TINY, "-m", "runtime.seed=1,2", f"hydra.sweep.dir={folder}", *more]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
    assert numbers(Path("other")) == numbers(Path("basic")) != {}


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- programs -----------------------------------------------------------------------------------------------


def test_a_scaling_sweep_compiles_a_handful_of_programs(here):
    """Two jobs of four memories each: one large program a memory, counted when XLA compiles it, and few small ones."""
    compiled: list[str] = []

    def listen(event: str, seconds: float, **facts) -> None:
        if event.endswith("/backend_compile_duration"):
            compiled.append(facts["fun_name"])

    capacities = [100, 1000, 10_000, 100_000]
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        command = [*TINY, f"capacities={capacities}", "runtime.replications=16", "-m", "workload.arrival_rate=120,130"]
        assert main(command) == 0
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    paths = compiled.count(f"jit({replicate.__name__})")
    assert 1 <= paths <= len(capacities) and len(compiled) - paths <= 8, compiled


def test_sizes_are_rounded_up_by_little():
    for size in (0, 1, 7, 9, 100, 1025, 10**6 + 1):
        assert size <= round_up(size) <= max(1.25 * size, 8)
    table = padded(np.arange(10.0).reshape(2, 5))
    assert table.shape == (2, 8) and table[0].tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
    assert len({round_up(size) for size in range(1, 1025)}) < 40
