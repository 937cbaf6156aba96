"""A run that is killed continues with the same command and ends bit-identical to an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mfmc.chunks import Chunks
from mfmc.cli import UNFINISHED, main
from mfmc.replication import Replicator
from mfmc.studies import mean_field

SWEEP = [
    "study=displacement", "workload=scm", "capacities=[100]", "accountings=[whole]", "runtime.replications=60",
    "runtime.chunk=4", "runtime.threads=1", "plots=false", "-m", "runtime.seed=1,2",
]  # fmt: skip
FAST = ["study=mean_field", "plots=false", "capacities=[100,1000]"]


def numbers(root: Path) -> dict[str, bytes]:
    paths = [*root.rglob("*.csv"), *root.rglob("*.npz")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if UNFINISHED not in path.parts}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sweep_killed_at_random_moments_ends_like_an_undisturbed_one(here):
    """kill -9 three times, each once a few more chunks are on disk and a random moment has passed."""
    random.seed(5)
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    unfinished = here / "outputs" / UNFINISHED
    kills = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-m", "mfmc", *SWEEP], cwd=here, env=environment, stdout=subprocess.DEVNULL
        )
        before, more = len(list(unfinished.rglob("*.npz"))), random.randint(1, 4)
        while kills < 3 and process.poll() is None and len(list(unfinished.rglob("*.npz"))) < before + more:
            time.sleep(0.002)
        if kills == 3 or process.poll() is not None:
            break
        time.sleep(random.uniform(0, 0.01))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert process.wait() == 0 and kills >= 2
    command = [sys.executable, "-m", "mfmc", *SWEEP, "output=undisturbed"]
    assert subprocess.run(command, cwd=here, env=environment, stdout=subprocess.DEVNULL).returncode == 0
    assert numbers(here / "outputs") == numbers(here / "undisturbed") != {}
    assert not list((here / "outputs").glob("multirun/*/.*"))


def test_a_finished_job_is_skipped_and_a_changed_one_is_not(here, monkeypatch, capsys):
    command = [*FAST, "-m", "runtime.seed=1,2", "hydra.sweep.dir=sweep"]
    seen, run = [], mean_field.run
    monkeypatch.setattr(mean_field, "run", lambda config, context: (seen.append(1), run(config, context))[1])
    assert main(command) == 0 and len(seen) == 2
    assert main(command) == 0 and len(seen) == 2 and capsys.readouterr().out.count("was done before") == 2
    assert main([*command, "runtime.threads=1"]) == 0 and len(seen) == 2  # does not matter
    assert main([*command, "horizon=2"]) == 0 and len(seen) == 4  # matters
    assert main([*command, "horizon=2", "runtime.resume=false"]) == 0 and len(seen) == 6


def test_a_failed_job_is_run_again(here, monkeypatch):
    command, run = [*FAST, "-m", "runtime.seed=1,2"], mean_field.run
    monkeypatch.setattr(mean_field, "run", lambda *_: 1 / 0)
    assert main(command) == 3
    monkeypatch.setattr(mean_field, "run", run)
    assert main(command) == 0


# --- chunks -------------------------------------------------------------------------------------------------


def double(arguments, replications, sizes):
    return (arguments["scale"] * replications, replications % 2), np.zeros(len(replications), bool)


def run(chunks: Chunks | None, scale: float = 2.0, simulate=double, **options):
    return Replicator(chunk=3, threads=1, chunks=chunks, **options).run(
        simulate, {"scale": np.float64(scale)}, 1, 8, bytes_each=1, grow=lambda sizes: sizes
    )


def test_chunks_are_taken_from_disk_only_for_the_same_arguments(tmp_path):
    chunks = Chunks(tmp_path / "chunks")
    fresh = run(chunks)
    assert len(list(chunks.folder.rglob("*.npz"))) == 3
    np.testing.assert_array_equal(run(None)[0], fresh[0])
    (kept,) = chunks.folder.iterdir()
    Chunks(kept).write(np.arange(3), (np.full(3, 7.0), np.zeros(3, int)))  # tells where a result comes from
    assert run(chunks)[0][:4].tolist() == [7, 7, 7, 6] and run(chunks, scale=3.0)[0][:4].tolist() == [0, 3, 6, 9]
    chunks.clear()
    assert not (tmp_path / "chunks").exists() and run(chunks)[0][1] == 2


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-30] + b"\0" * 30])
def test_a_damaged_chunk_is_computed_again(tmp_path, damage):
    chunks = Chunks(tmp_path / "chunks")
    fresh = run(chunks)
    for path in chunks.folder.rglob("*.npz"):
        path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(run(chunks)[0], fresh[0])


def test_out_of_memory_halves_the_chunk_says_so_and_goes_on(tmp_path):
    def hungry(arguments, replications, sizes):
        if len(replications) > 1:
            raise MemoryError
        return double(arguments, replications, sizes)

    said = []
    np.testing.assert_array_equal(run(None, simulate=hungry, notice=said.append)[0], run(None)[0])
    assert len(said) == 1 and "chunks of 1 replications" in said[0]


def test_memory_that_does_not_suffice_for_one_is_an_error():
    def starving(arguments, replications, sizes):
        raise MemoryError

    with pytest.raises(MemoryError):
        run(None, simulate=starving, notice=lambda line: None)
