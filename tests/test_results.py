"""Results on disk: atomic, never in each other's way, read back as written."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc import plotting, progress, report, results
from mfmc.errors import InputError
from mfmc.results import Folder, plain, read, read_table, write_table
from mfmc.studies.result import Check, Result, check

PROVENANCE = {"config": {"plots": False}, "overrides": ["a=1"], "seconds": 1.0}


def example(value: float = 0.5) -> Result:
    return Result(
        summary={"estimate": value, "rows": [{"capacity": 10, "low": math.nan}]},
        headline=["It works."],
        tables={
            "table": [
                {"capacity": 10, "hit_ratio": value, "note": "a|b"},
                {"capacity": 20, "hit_ratio": None},
            ]
        },
        arrays={"paths": np.arange(6).reshape(2, 3)},
        checks=[check("near", np.bool_(True), "0.1 sigma")],
        sections={"Notes": "text"},
    )


def write(folder: Folder, result: Result | None = None) -> None:
    folder.write(result or example(), "example", PROVENANCE, {".hydra/config.yaml": "a: 1\n"})


def test_a_result_is_read_back_as_written(tmp_path):
    write(Folder(tmp_path / "run"))
    document = results.read_document(tmp_path / "run")
    assert set(document) == {"schema", "study", "summary", "provenance"} and document["schema"] == 1
    assert document["summary"]["rows"] == [{"capacity": 10, "low": None}]
    again = read(tmp_path / "run")
    assert again.summary["estimate"] == 0.5 and again.checks == [Check("near", True, "0.1 sigma")]
    assert again.tables["table"][1] == {"capacity": 20, "hit_ratio": None, "note": None}
    assert (again.arrays["paths"] == example().arrays["paths"]).all()
    assert (tmp_path / "run/.hydra/config.yaml").read_text() == "a: 1\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_not_finite_becomes_null_and_the_rest_is_kept():
    value = {1: (np.float32(0.5), math.inf, np.nan, np.int64(2**62)), "a": np.array([[1.0, -math.inf]])}
    assert plain(value) == {"1": [0.5, None, None, 2**62], "a": [[1.0, None]]}
    assert plain([np.bool_(True), True, None, "x", Check("n", False)]) == [
        True,
        True,
        None,
        "x",
        {"name": "n", "passed": False, "detail": ""},
    ]
    with pytest.raises(TypeError, match="object"):
        plain({"a": object()})


cells = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.lists(st.integers(), max_size=3)
)


@settings(max_examples=50)
@given(
    rows=st.lists(
        st.fixed_dictionaries({"a": cells, "b": st.text("xyz,\"|'", min_size=1)}), min_size=1, max_size=5
    )
)
def test_tables_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "table.csv"
    write_table(path, rows)
    again = read_table(path)
    assert [row["a"] for row in again] == [row["a"] for row in rows]
    assert [str(row["b"]) for row in again] == [row["b"] for row in rows]


def test_nan_and_infinities_survive_a_table(tmp_path):
    write_table(tmp_path / "t.csv", [{"x": math.nan, "y": math.inf}])
    (row,) = read_table(tmp_path / "t.csv")
    assert math.isnan(row["x"]) and row["y"] == math.inf


def test_launches_of_one_moment_do_not_clash(tmp_path):
    folders = [Folder(tmp_path / "run") for _ in range(5)]
    threads = [threading.Thread(target=write, args=(folder, example(i))) for i, folder in enumerate(folders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = {read(folder.path).summary["estimate"] for folder in folders}
    assert written == {0.0, 1.0, 2.0, 3.0, 4.0} and len(list(tmp_path.iterdir())) == 5


def test_an_earlier_result_is_replaced_but_foreign_files_are_not(tmp_path):
    write(Folder(tmp_path / "run"), example(1.0))
    folder = Folder(tmp_path / "run")
    write(folder, example(2.0))
    assert folder.path == tmp_path / "run" and read(folder.path).summary["estimate"] == 2.0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("x")
    with pytest.raises(InputError, match="mine: holds files that are no result"):
        Folder(tmp_path / "mine")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "run"]


def test_a_write_that_breaks_leaves_nothing(tmp_path):
    folder = Folder(tmp_path / "run")
    with pytest.raises(TypeError):
        write(folder, Result(summary={"bad": object()}))
    assert list(tmp_path.iterdir()) == []
    write(Folder(tmp_path / "kept"), example(1.0))
    with pytest.raises(TypeError):
        write(Folder(tmp_path / "kept"), Result(summary={"bad": object()}))
    assert read(tmp_path / "kept").summary["estimate"] == 1.0


def test_status_of_a_folder(tmp_path):
    write(Folder(tmp_path / "0"))
    failing = example()
    failing.checks.append(check("far", False))
    write(Folder(tmp_path / "1"), failing)
    Folder(tmp_path / "2").write_failure("no such thing", 2, {})
    (tmp_path / "3").mkdir()
    found = [results.status_of(tmp_path / name) for name in "0123"]
    assert found == [(0, ""), (1, "failed: far"), (2, "no such thing"), (None, "not finished")]
    write(Folder(tmp_path / "2"))  # a job that failed may be run again in its place
    assert results.status_of(tmp_path / "2") == (0, "")


def test_what_a_killed_write_leaves_is_removed_by_the_next(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for process in (dead.pid, os.getpid()):
        (tmp_path / f".run.{platform.node()}.{process}.abcd").mkdir()
    Folder(tmp_path / "run")
    assert [path.name.split(".")[-2] for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_the_same_run_twice_at_once_gives_one_result(tmp_path):
    folders = [Folder(tmp_path / "run") for _ in range(2)]
    for folder in folders:
        folder.write(example(), "example", PROVENANCE | {"fingerprint": "ab"}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["run"] and folders[1].path == tmp_path / "run"
    assert Folder(tmp_path / "run").status_of("ab") == 0
    assert Folder(tmp_path / "run").status_of("cd") is None is Folder(tmp_path / "other").status_of("ab")


def test_a_folder_without_a_result_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="not a result of mfmc"):
        read(tmp_path)
    (tmp_path / "result.json").write_text('{"schema": 99}')
    with pytest.raises(InputError, match="schema 1"):
        read(tmp_path)


def test_the_main_table_has_its_name():
    with pytest.raises(ValueError, match="must be called 'table'"):
        Result(summary={}, tables={"other": []})


def test_the_report_leads_with_the_findings_and_shows_everything():
    text = report.render("mean_field", example(), plain(PROVENANCE), ["hit_ratio"])
    assert text.splitlines()[:3] == ["# Mean field", "", "- It works."]
    for part in (
        "1 of 1 checks passed",
        "![Hit ratio](figures/hit_ratio.png)",
        "a\\|b",
        "## Notes",
        "- overrides: `a=1`",
    ):
        assert part in text
    assert "9940 more rows in [table.csv](table.csv)" in report.render(
        "x", Result({}, tables={"table": [{"a": i} for i in range(10_000)]}), plain(PROVENANCE), []
    )


def test_a_wide_table_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [
        {"capacity": 10**n, "accounting": name, "limit": 1 / 3, "replay_estimate": 0.25, "replay_standard_error": e}
        | {f"another_number_{i}": i / 7 for i in range(12)}
        for n, e in ((2, 0.0012), (7, 4.3e-05))
        for name in ("whole", "practical")
    ]
    report.show("hit_ratio", Result({}, tables={"table": rows}), Path("out"), 1.0)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert any("10,000,000" in line and "0.250000 ± 0.000043" in line for line in lines)
    assert sum("10,000,000" in line and "practical" in line for line in lines) == 2  # both tables tell rows apart
    assert lines[-2].endswith("more columns in table.csv") and not lines[-2].startswith("0")


def test_figures_are_drawn_from_the_stored_result(tmp_path):
    rows = [
        {"capacity": c, "accounting": "whole", "characteristic_time": float(c), "hit_ratio": c / 100}
        for c in (10, 50)
    ]
    fresh = Result({"workload": {"whole": {"reuse_ceiling": 0.6}}}, tables={"table": rows})
    write(Folder(tmp_path / "run"), fresh)
    draw = plotting.drawings("mean_field")["hit_ratio"]
    plotting.save(draw, fresh, tmp_path / "fresh")
    plotting.save(draw, read(tmp_path / "run"), tmp_path / "again")
    for suffix in (".png", ".pdf"):
        drawn = (tmp_path / f"fresh{suffix}").read_bytes()
        assert drawn == (tmp_path / f"again{suffix}").read_bytes() and len(drawn) > 5_000


def test_a_study_without_figures_has_none(tmp_path):
    assert plotting.draw_all("no_such_study", example(), tmp_path / "figures") == []
    assert not (tmp_path / "figures").exists()


def test_series_differ_without_colour():
    looks = [plotting.look(i) for i in range(7)]
    assert len({(str(look["linestyle"]), look["marker"]) for look in looks}) == 7
    assert len({look["color"] for look in looks}) == 7


def test_progress_is_silent_where_nobody_watches(capsys):
    with progress.progress("work", 10) as advance:
        advance()
        advance(3)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_once_the_work_is_long(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.01)
    with progress.progress("work", 2) as advance:
        threading.Event().wait(0.3)
        advance(2)
    assert "work" in capsys.readouterr().err
