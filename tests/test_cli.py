"""The command line, mostly in process: runs, refusals in one line, sweeps, workload files."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from dataclasses import fields
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import jax
import pytest

from mfmc import cli, defaults, results, studies
from mfmc.cli import main
from mfmc.config import compose
from mfmc.config import workload as workload_config
from mfmc.config.convert import keys_of
from mfmc.config.schema import RuntimeSection, Settings
from mfmc.config.workload import WorkloadSection
from mfmc.results import read_document
from mfmc.studies import mean_field
from mfmc.studies.result import Result, check

FAST = ["study=mean_field", "plots=false", "capacities=[100,1000]"]


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def mfmc(tmp_path, monkeypatch, capsys):
    """Runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))

    def run(*argv: str) -> Outcome:
        return Outcome(main(list(argv)), *capsys.readouterr())

    return run


def folders(root: str = "outputs") -> list[Path]:
    return sorted(path.parent for path in Path(root).rglob("result.json"))


def summary_of(*argv: str, run) -> dict:
    """The summary of a run into its own folder."""
    outcome = run(*FAST, "hydra.run.dir=one", *argv)
    assert outcome.status == 0, outcome.err
    return read_document("one")["summary"]


def refused(outcome: Outcome, *parts: str) -> None:
    """One line on stderr with all parts, status 2, no files."""
    assert outcome.status == 2
    assert outcome.err.startswith("mfmc: ") and outcome.err.count("\n") == 1, outcome.err
    for part in parts:
        assert part in outcome.err
    assert not folders(".")


# --- runs ---------------------------------------------------------------------------------------------------


def test_a_run_writes_one_folder(mfmc):
    outcome = mfmc("study=mean_field", "workload=scm", "capacities=[100,1024]")
    assert outcome.status == 0 and outcome.err == ""
    (folder,) = folders()
    assert folder.parent == Path("outputs/mean_field")
    assert f"results: {folder}" in outcome.out and "hit ratio" in outcome.out
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names >= {
        "result.json",
        "table.csv",
        "arrays.npz",
        "report.md",
        "figures/hit_ratio.png",
        ".hydra/config.yaml",
    }
    document = read_document(folder)
    assert document["study"] == "mean_field" and document["summary"]["mean_field"][1]["capacity"] == 1024
    provenance = document["provenance"]
    assert provenance["overrides"] == ["study=mean_field", "workload=scm", "capacities=[100,1024]"]
    assert provenance["precision"] == "float64" and provenance["device"]["platform"] == jax.default_backend()
    assert {"seed", "seconds", "versions", "config"} <= set(provenance)
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]


def test_the_default_workload_reproduces_the_printed_constants(mfmc):
    from mfmc.config.workload import build_workload

    summary = summary_of(run=mfmc)
    whole, practical = summary["workload"]["whole"], summary["workload"]["practical"]
    assert whole["lifetime_blocks"] == pytest.approx(12.9220, rel=5e-4)
    assert whole["accessed_blocks"] == pytest.approx(38.9092, rel=5e-4)
    assert practical["reusable_blocks"] == pytest.approx(22.5178, rel=5e-4)
    rows = {(row["accounting"], row["capacity"]): row for row in summary["mean_field"]}
    assert rows["practical", 2275]["hit_ratio"] == pytest.approx(0.171784, rel=1e-3)
    assert rows["practical", 2275]["characteristic_time"] == pytest.approx(47.5413, rel=1e-3)
    settings = compose.configured(["study=mean_field"])
    profile = build_workload(settings.workload).profile()
    assert profile.mean_turns == pytest.approx(4.4694, rel=5e-4)
    assert profile.variance_turns == pytest.approx(7.9659, rel=5e-4)


@pytest.mark.parametrize("name", sorted(set(compose.options("workload")) - {"trace", "from_trace"}))
def test_every_shipped_workload_runs(mfmc, name):
    assert summary_of(f"workload={name}", run=mfmc)["mean_field"]


def test_a_trace_of_turns_is_a_workload_with_three_accountings(mfmc):
    rows = "".join(f"c{i // 3},{i % 3},{40 + 7 * i},{i}\n" for i in range(30)) + "x,1,?,1\n"
    Path("turns.csv").write_text("id,turn,prompt_tokens,response_tokens\n" + rows)
    argv = [
        "workload=trace",
        "workload.path=turns.csv",
        "workload.block_tokens=16",
        "workload.columns.conversation=id",
    ]
    summary = summary_of(*argv, run=mfmc)
    assert set(summary["workload"]) == {"whole", "practical", "token"}
    report = Path("one/report.md").read_text()
    assert "31 rows read, 30 kept in 10 conversations, 1 rejected: 1 with text for a number" in report


def test_a_workload_in_tokens(mfmc):
    Path("tokens.yaml").write_text(
        "arrival_rate: 2.0\ncapacity: 100\nblock_tokens: 16\nturns: {kind: fixed, count: 3}\n"
        "tokens:\n  prompt: {kind: geometric, mean: 40.0, maximum: 200}\n"
        "  response: {kind: constant, count: 20}\n"
        "gaps: {kind: uniform, low: 0.0, high: 2.0}\n"
    )
    assert "token" in summary_of("workload=tokens.yaml", run=mfmc)["workload"]


def test_a_failed_check_is_status_1(mfmc, monkeypatch):
    monkeypatch.setattr(
        mean_field, "run", lambda *_: Result({"x": 1}, checks=[check("bound", False, "2 > 1")])
    )
    outcome = mfmc(*FAST)
    assert outcome.status == 1 and "FAILED bound: 2 > 1" in outcome.out
    assert read_document(folders()[0])["summary"]["checks"][0]["passed"] is False


def test_a_defect_is_status_3_with_its_traceback(mfmc, monkeypatch):
    monkeypatch.setattr(mean_field, "run", lambda *_: 1 / 0)
    outcome = mfmc(*FAST)
    assert outcome.status == 3 and "Traceback" in outcome.err and not folders(".")
    assert not Path("outputs").exists() or not list(Path("outputs").rglob("*.*"))


@pytest.mark.parametrize("launch", [[], ["-m", "runtime.seed=1,2"]])
def test_a_full_disk_is_no_defect(mfmc, monkeypatch, launch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results.Folder, "write", full)
    outcome = mfmc(*FAST, *launch)
    assert outcome.status == 2 and "no space left on device: make room" in outcome.err
    assert outcome.err.count("\n") == max(len(launch), 1) and not folders(".")


def test_precision_and_cache_are_the_runs_own(mfmc, monkeypatch):
    seen = []

    def spy(config, context):
        import jax.numpy as jnp

        seen.append((jnp.ones(1).dtype.name, jax.config.jax_compilation_cache_dir))
        return Result({})

    monkeypatch.setattr(mean_field, "run", spy)
    before = jax.config.jax_enable_x64, jax.config.jax_compilation_cache_dir
    assert mfmc(*FAST, "-m", "runtime.precision=float32,float64").status == 0
    assert [dtype for dtype, _ in seen] == ["float32", "float64"]
    assert Path(seen[0][1]).parent == Path(".cache/mfmc").absolute()
    assert (jax.config.jax_enable_x64, jax.config.jax_compilation_cache_dir) == before


def test_keys_depend_on_the_seed_and_the_names_only(mfmc):
    from mfmc.studies.context import Context

    def words(*names, seed=0):
        return jax.random.key_data(
            Context(compose.configured(["study=mean_field", f"runtime.seed={seed}"])).key(*names)
        ).tolist()

    assert words("a", 10) == words("a", 10) != words("a", 100)
    assert words("a") != words("b") and words("a") != words("a", seed=1)


def test_help_is_short_and_names_every_study(mfmc):
    outcome = mfmc("--help")
    assert outcome.status == 0 and outcome.out.count("\n") < 50
    assert all(name in outcome.out for name in (*studies.STUDIES, *compose.options("workload")))
    assert "jax" in mfmc("--version").out
    assert "arrival_rate: 1.5" in mfmc("--cfg", "job").out


def test_a_terminal_need_not_know_every_sign(monkeypatch):
    out = TextIOWrapper(BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["mfmc", "--help"])
    monkeypatch.setattr(cli, "_help", lambda: "0.5 ± 0.1")
    assert main() == 0
    out.flush()
    assert out.buffer.getvalue() == b"0.5 ? 0.1\n"


# --- refusals -----------------------------------------------------------------------------------------------

BAD = {
    "misspelt key": (["capacites=[100]"], "unknown setting 'capacites'", "did you mean 'capacities'?"),
    "misspelt inner key": (["workload.turns.meen=3"], "did you mean 'workload.turns.mean'?"),
    "misspelt section": (["workload.tuns.mean=3"], "did you mean 'workload.turns.mean'?"),
    "added key": (["+extra=1"], "unknown setting 'extra'", "capacities"),
    "text for a number": (["workload.arrival_rate=abc"], "workload.arrival_rate=abc", "a number above 0"),
    "true for a number": (["workload.gaps.mean=true"], "workload.gaps.mean=True: expected a number"),
    "number for a list": (["capacities=100"], "expected a list, such as capacities=[100]"),
    "number for a group": (["workload.turns=5"], "workload.turns=5: expected a group"),
    "fraction for a count": (
        ["runtime.replications=1.5"],
        "runtime.replications=1.5: expected a whole number",
    ),
    "text for a truth value": (["plots=maybe"], "plots=maybe: expected true or false"),
    "null": (["output=null"], "output is not set"),
    "continuation out of range": (
        ["workload=scm", "workload.turns.continuation=1.5"],
        "workload.turns.continuation=1.5",
        "[0, 1)",
    ),
    "parameter of another kind": (
        ["workload.turns.continuation=1.5"],
        "workload.turns.continuation=1.5: kind negative_binomial has no continuation",
        "mean, variance",
    ),
    "parameter missing": (
        ["workload.gaps.kind=gamma"],
        "workload.gaps.shape is not set",
        "kind gamma needs shape",
    ),
    "parameter out of range": (
        ["workload.gaps.kind=gamma", "workload.gaps.shape=-2"],
        "workload.gaps.shape=-2",
    ),
    "unknown kind": (["workload.gaps.kind=gama"], "workload.gaps.kind=gama", "did you mean gamma?"),
    "negative rate": (["workload.arrival_rate=-1"], "workload.arrival_rate=-1: expected a number above 0"),
    "capacity 0": (["capacities=[100,0]"], "capacities[1]=0: expected a whole number of at least 1"),
    "no capacity": (["capacities=[]"], "capacities=[]: expected at least one entry"),
    "unknown choice": (["runtime.precision=float16"], "did you mean float64?"),
    "unknown study": (["study=mean_feild"], "study=mean_feild", "did you mean mean_field?", "known are"),
    "unknown workload": (["workload=scmm"], "did you mean scm?", "path of a .yaml file"),
    "unknown runtime": (["runtime=fast"], "runtime=fast: no such runtime", "default, gpu, quick"),
    "number for an option": (["workload=3"], "workload=3: expected one of"),
    "list for an option": (["workload=[scm]"], "workload=[scm]: expected one of"),
    "unreadable workload": (["workload=no.yaml"], "workload=no.yaml: cannot be read (no such file"),
    "unreadable trace": (["workload=trace", "workload.path=no.csv"], "no.csv: cannot be read (no such file"),
    "trace without a path": (["workload=trace"], "workload.path is not set"),
    "open bracket": (["capacities=[100"], "cannot read 'capacities=[100'", "'capacities=[100,1000]'"),
    "no equals sign": (["capacities"], "'capacities' is not an override: write key=value"),
    "no key": (["=3"], "'=3' is not an override"),
    "package of a group": (["runtime@foo=quick"], "unknown setting 'runtime@foo'; did you mean 'runtime'?"),
    "several values": (["runtime.seed=1,2"], "runtime.seed=1,2: several values are a sweep, which needs -m"),
    "launcher that is not there": (["-m", "hydra/launcher=slurms"], "did you mean slurm?", "processes"),
    "unknown flag": (["--foo"], "unrecognized arguments: --foo (see mfmc --help)"),
    "deleted key": (["~capacities"], "capacities is not set"),
    "deleted study": (["~study"], "study is not set"),
    "interpolation": (["capacities=[${nothing}]"], "nothing"),
    "no such accounting": (["accountings=[token]"], "only whole, practical"),
    "platform": (["runtime=gpu"], "runtime.platform=gpu: jax computes on cpu here"),
    "devices": (["runtime.devices=64"], "runtime.devices=64: jax has"),
    "folder": (["hydra.run.dir=/proc/mfmc"], "/proc/mfmc"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(mfmc, monkeypatch, name):
    monkeypatch.setenv("XLA_FLAGS", "")  # `runtime.devices` writes to it
    argv, *parts = BAD[name]
    base = [] if any("study" in word for word in argv) else ["study=mean_field"]
    refused(mfmc(*base, *argv), *parts)
    assert not Path("outputs").exists() or not list(Path("outputs").iterdir())


@pytest.mark.parametrize(
    "name", ["misspelt key", "unknown workload", "unknown study", "open bracket", "no equals sign"]
)
def test_bad_input_is_refused_in_a_multirun_too(mfmc, name):
    argv, *parts = BAD[name]
    refused(mfmc("-m", *argv, "runtime.seed=1,2"), *parts)
    assert not list(Path().rglob("multirun.yaml"))


@pytest.mark.parametrize(
    "content, part",
    [
        ("a: [1,\n b", "not a YAML file, line 2"),
        ("- 1\n", "found a list"),
        ("", "is not set"),
        ("text", "unknown setting 'text'"),
        ("arival_rate: 2\n", "unknown setting 'arival_rate'; did you mean 'arrival_rate'?"),
        ("workload: {arrival_rate: 2}\n", "put the settings at the top of the file"),
        ("gaps: {kind: exponential, mean: 1}\n", "is not set"),
        (
            "arrival_rate: 1\ncapacity: 9\ngaps: {kind: exponential, men: 1}\n",
            "did you mean 'workload.gaps.mean'?",
        ),
    ],
)
def test_a_bad_workload_file_is_refused_in_one_line(mfmc, content, part):
    Path("bad.yaml").write_text(content)
    refused(mfmc("study=mean_field", "workload=bad.yaml"), part)


def test_foreign_files_are_left_alone(mfmc):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("x")
    refused(mfmc(*FAST, "hydra.run.dir=mine"), "mine: holds files that are no result of mfmc")
    assert Path("mine/notes.txt").exists()


# --- workload files, kinds ----------------------------------------------------------------------------------

GOOD = (
    "name: mine\narrival_rate: 2.0\ncapacity: 100\nturns: {kind: fixed, count: 3}\n"
    "blocks: {kind: constant, first: 1, later: 2}\ngaps: {kind: exponential, mean: 1.0}\n"
)


@pytest.mark.parametrize(
    "form", ["w.yaml", "./w.yaml", "sub/../w.yaml", "absolute", "v.yml", "scm.yaml", "'a b.yaml'"]
)
def test_a_workload_file_is_found_from_where_the_user_stands(mfmc, form):
    Path("sub").mkdir()
    for name in ("w.yaml", "v.yml", "scm.yaml", "a b.yaml"):
        Path(name).write_text(GOOD)
    path = str(Path("w.yaml").absolute()) if form == "absolute" else form
    summary = summary_of(f"workload={path}", "workload.arrival_rate=3", run=mfmc)
    assert summary["arrival_rate"] == 3 and summary["workload"]["whole"]["lifetime_blocks"] == 5


def test_a_sweep_over_workload_files_and_names(mfmc):
    Path("w.yaml").write_text(GOOD)
    assert mfmc("-m", *FAST, "workload=w.yaml,scm", "hydra.sweep.dir=sweep").status == 0
    rates = [read_document(f"sweep/{i}")["summary"]["arrival_rate"] for i in range(2)]
    assert rates[0] == 2.0 and rates[1] > 30


def test_workload_files_keep_apart_whatever_their_folder_is_called(mfmc, monkeypatch):
    folder = Path("Bob's, ** [ä]")
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("w.yaml").write_text(GOOD)
    Path("w.yml").write_text(GOOD.replace("arrival_rate: 2", "arrival_rate: 7"))
    assert mfmc("-m", *FAST, "workload=w.yaml,w.yml", "hydra.sweep.dir=sweep").status == 0
    assert [read_document(f"sweep/{i}")["summary"]["arrival_rate"] for i in range(2)] == [2.0, 7.0]
    assert mfmc(*FAST, "workload=w.yml", "hydra.run.dir='a**b'").status == 0


def test_another_kind_keeps_what_it_shares_and_forgets_the_rest(mfmc):
    def gaps(*argv):
        section = compose.configured(["study=mean_field", *argv]).workload.gaps
        return {
            entry.name: value
            for entry in fields(section)
            if (value := getattr(section, entry.name)) is not None
        }

    assert gaps("workload.gaps.kind=gamma", "workload.gaps.shape=2") == {
        "kind": "gamma",
        "mean": 135.0,
        "shape": 2.0,
    }
    uniform = ["workload.gaps.kind=uniform", "workload.gaps.low=0", "workload.gaps.high=9"]
    assert gaps(*uniform) == {"kind": "uniform", "low": 0.0, "high": 9.0}
    refused(mfmc("study=mean_field", *uniform, "workload.gaps.mean=3"), "kind uniform has no mean")


@pytest.mark.parametrize("section", workload_config._HOME, ids=lambda section: section.__name__)
def test_every_kind_is_a_law_whose_parameters_are_keys(section):
    for kind in workload_config._HOME[section][1]:
        law = workload_config._class_of(section(kind=kind))
        assert set(workload_config._parameters(law)) <= {entry.name for entry in fields(section)}, kind


# --- multirun, folders --------------------------------------------------------------------------------------


def test_one_bad_job_does_not_take_the_others_along(mfmc):
    outcome = mfmc("-m", *FAST, "workload.arrival_rate=2,-1,3", "hydra.sweep.dir=sweep")
    assert outcome.status == 2 and outcome.err.count("\n") == 1
    assert "job 1 " in outcome.err and "workload.arrival_rate=-1: expected a number above 0" in outcome.err
    assert "3 jobs: 2 done, 1 refused; results: sweep" in outcome.out
    assert [path.name for path in folders("sweep")] == ["0", "2"]
    failure = json.loads(Path("sweep/1/failure.json").read_text())
    assert failure["status"] == 2 and "arrival_rate=-1" in failure["error"]


def test_a_sweep_goes_on_when_nobody_reads_its_lines(tmp_path):
    command = [sys.executable, "-m", "mfmc", *FAST, "-m", "runtime.seed=1,2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait() == 0
    assert len(folders(tmp_path)) == 2


def test_a_sweep_goes_below_outputs_by_default(mfmc):
    assert mfmc("-m", *FAST, "runtime.seed=1,2").status == 0
    assert [path.parent.parent for path in folders()] == [Path("outputs/multirun")] * 2


def test_the_same_folder_again_replaces_the_result(mfmc):
    for rate in ("2", "3"):
        assert mfmc(*FAST, f"workload.arrival_rate={rate}", "hydra.run.dir=here").status == 0
    assert read_document("here")["summary"]["arrival_rate"] == 3.0
    assert [path.name for path in Path().iterdir() if not path.name.startswith(".")] == ["here"]


def test_output_is_relative_to_the_caller(mfmc):
    assert mfmc(*FAST, "output=elsewhere").status == 0
    assert len(folders("elsewhere/mean_field")) == 1


# --- the frame itself ---------------------------------------------------------------------------------------


def test_studies_and_conf_name_the_same():
    assert set(studies.STUDIES) == set(compose.options("study"))


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_study_has_its_settings_in_conf_and_runs_by_one_pattern(name):
    module = studies.load(name)
    assert callable(module.run) and issubclass(getattr(module, "Config", Settings), Settings)
    settings = compose.configured([f"study={name}", *(["sweep=."] if name == "collect" else [])])
    assert settings.study == name and isinstance(settings, getattr(module, "Config", Settings))


@pytest.mark.parametrize("name", compose.options("runtime"))
def test_every_runtime_is_complete(name):
    settings = compose.configured(["study=mean_field", f"runtime={name}"])
    assert isinstance(settings.runtime, RuntimeSection) and settings.runtime.replications >= 1


def test_conf_is_found_inside_an_installed_package(tmp_path, monkeypatch):
    """A wheel carries conf/ as mfmc/conf (hatch's force-include)."""
    installed = tmp_path / "site-packages/mfmc"
    (installed / "conf").mkdir(parents=True)
    monkeypatch.setattr(defaults, "__file__", str(installed / "defaults.py"))
    with pytest.raises(ValueError, match="installed without its conf/ folder"):
        defaults.conf_folder()
    (installed / "conf/config.yaml").touch()
    assert defaults.conf_folder() == installed / "conf"


def test_unknown_studies_are_listed():
    with pytest.raises(ValueError, match=r"known are .*mean_field"):
        studies.load("nonsense")


def test_keys_are_dotted():
    assert {"gaps", "gaps.mean", "tokens.prompt.kind"} <= set(keys_of(WorkloadSection))


def test_the_command_starts_light_and_refuses_from_any_folder(tmp_path):
    """A refusal imports nothing that takes long and is for runs; any folder will do, and so will `python -m mfmc`."""
    code = (
        "import sys; from mfmc.cli import main; status = main(['study=mean_field', 'capacities=[0]']);"
        "sys.exit(100 if {'matplotlib', 'numba', 'scipy.stats'} & set(sys.modules) else status)"
    )
    for command in (["-c", code], ["-m", "mfmc", "study=mean_field", "capacities=[0]"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "capacities[0]=0" in done.stderr
