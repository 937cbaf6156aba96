"""`study=doctor` finds this machine fit, and says what to do where one is not."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from mfmc.cli import main
from mfmc.config.compose import configured
from mfmc.laws import alias
from mfmc.results import read_document
from mfmc.studies import doctor


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


@pytest.fixture
def settings(here):
    return configured(["study=doctor"])


def test_a_fit_machine(here, capsys):
    assert main(["study=doctor", "hydra.run.dir=found"]) == 0
    findings = {row["subject"]: row for row in read_document("found")["summary"]["findings"]}
    assert len(findings) == len(doctor.EXAMINATIONS)
    for subject in ("python", "jax", "precision", "jitted products (jax#39103)", "Poisson counts"):
        assert findings[subject]["state"] == "ok", findings[subject]
    assert "device against CPU" in capsys.readouterr().out


def test_every_finding_that_is_not_ok_says_what_to_do(settings, here, monkeypatch):
    settings.runtime.memory_gib = 1e6
    (here / "outputs/.unfinished").mkdir(parents=True)
    monkeypatch.setattr(jax, "__version__", "0.10.2")
    found = [doctor._memory(settings), doctor._output(settings), doctor._jax(settings), doctor._compiled(settings)]
    assert [f.state for f in found] == ["warning", "warning", "wrong", "warning"]
    assert all(f.cure for f in found)
    with jax.enable_x64(False):
        assert doctor._precision(settings).state == "warning"


def test_counts_of_a_wrong_variance_are_caught(settings, monkeypatch):
    """The mutant has the variance of jax.random.poisson at large rates, 2.5% too large."""
    honest = alias.poisson

    def mutant(table, u):
        counts = np.asarray(honest(table, u), dtype=float)
        return counts.mean() + 1.0124 * (counts - counts.mean())

    monkeypatch.setattr(alias, "poisson", mutant)
    assert doctor._poisson_variance(settings).state == "wrong"


def test_what_is_wrong_is_status_1(here, monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.11.0")
    assert main(["study=doctor"]) == 1
