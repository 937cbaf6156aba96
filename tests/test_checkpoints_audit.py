"""The audit: agrees with honest evidence, shares no code with the store, notices every tampering."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mfmc.checkpoints.audit as audit_module
from mfmc.checkpoints.audit import audit_evidence
from mfmc.checkpoints.experiment import file_hash, run_experiment, write_evidence
from mfmc.errors import InputError


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    write_evidence(run_experiment(seeds=(7,)), folder)
    return folder


@pytest.fixture
def folder(honest, tmp_path):
    return Path(shutil.copytree(honest, tmp_path / "copy"))


def edit(folder: Path, change) -> None:
    results = json.loads((folder / "results.json").read_text())
    change(results)
    (folder / "results.json").write_text(json.dumps(results))


def edit_arrays(folder: Path, change) -> None:
    """Change arrays.npz, and its hash with it, so that only the contents can give it away."""
    with np.load(folder / "arrays.npz") as archive:
        arrays = dict(archive)
    change(arrays)
    np.savez(folder / "arrays.npz", **arrays)
    edit(folder, lambda results: results["files"].update({"arrays.npz": file_hash(folder / "arrays.npz")}))


def test_honest_evidence_passes(honest):
    found = audit_evidence(honest)
    assert found["passed"] and not found["failures"]
    assert found["requests"] == 108 and found["arrays"] == 216
    assert sum(row["evictions"] for row in found["totals"]) == 11 + 11 + 22 + 22


def test_audit_imports_nothing_of_the_experiment():
    tree = ast.parse(Path(audit_module.__file__).read_text())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [module for module in modules if module.startswith("mfmc")] == ["mfmc.errors"]


def test_writing_twice_gives_the_same_bytes(honest, tmp_path):
    write_evidence(run_experiment(seeds=(7,)), tmp_path)
    for name in ("results.json", "arrays.npz"):
        assert (tmp_path / name).read_bytes() == (honest / name).read_bytes()


def alternating(results, index=5, budget=8192):
    return next(r for r in results["requests"] if r["name"] == f"alternating_{budget}_7_{index:02d}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reused", 4),
        ("projected_rows", 71),
        ("copy_bytes", 6335),
        ("resident_bytes", 8192),
        ("admitted", [8]),
        ("skipped", [8]),
        ("evicted", []),
        ("index", 6),
    ],
)
def test_a_changed_log_entry_is_noticed(folder, name, value):
    edit(folder, lambda results: alternating(results).update({name: value}))
    found = audit_evidence(folder)
    assert not found["passed"]
    assert any(f"{name} is {value}" in line for line in found["failures"])


def test_evictions_in_another_order_are_noticed(folder):
    edit(folder, lambda results: alternating(results)["evicted"].reverse())
    assert any("evicted" in line for line in audit_evidence(folder)["failures"])


def test_changed_tokens_scope_and_totals_are_noticed(folder):
    edit(folder, lambda results: alternating(results, budget=32768)["tokens"].reverse())
    assert not audit_evidence(folder)["passed"]


def test_a_changed_table_is_noticed(folder):
    edit(folder, lambda results: results["table"][0].update(hits=12))
    assert audit_evidence(folder)["failures"] == [
        "the table in results.json is not the one that the log gives"
    ]


def test_a_wrong_array_is_noticed(folder):
    def spoil(arrays):
        arrays["hot_8192_7_03_reused"][0, 0] += 1e-11

    edit_arrays(folder, spoil)
    assert any("hot_8192_7_03: error" in line for line in audit_evidence(folder)["failures"])


def test_an_array_that_is_not_a_number_is_noticed(folder):
    def spoil(arrays):
        arrays["hot_8192_7_03_reused"][0, 0] = np.nan

    edit_arrays(folder, spoil)
    edit(folder, lambda results: results["requests"][0].update(max_abs_error=float("nan")))
    assert any("hot_8192_7_03: error nan" in line for line in audit_evidence(folder)["failures"])


def test_missing_extra_and_misshapen_arrays_are_noticed(folder):
    edit_arrays(folder, lambda arrays: arrays.pop("hot_8192_7_03_reused"))
    assert audit_evidence(folder)["failures"] == ["arrays.npz: 1 arrays missing, 0 not in the log"]
    edit_arrays(folder, lambda arrays: arrays.update(hot_8192_7_03_reused=np.zeros((1, 16))))
    assert any("arrays of shape (1, 16)" in line for line in audit_evidence(folder)["failures"])


def test_changed_files_are_noticed(folder):
    with (folder / "arrays.npz").open("ab") as file:
        file.write(b" ")
    edit(folder, lambda results: results["sources"].update({"store.py": "0" * 64}))
    assert audit_evidence(folder)["failures"][:2] == [
        "arrays.npz: changed since it was written",
        "store.py: changed since it was run",
    ]


def test_a_folder_without_evidence_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected results\.json and arrays\.npz of a cache-budget run"):
        audit_evidence(tmp_path)
