"""A sweep that is killed and continued, or that sees other devices, ends bit-identical to an undisturbed one."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from mfmc import fingerprint
from mfmc.chunks import Chunks
from mfmc.cli import UNFINISHED, main
from mfmc.config.compose import configured
from mfmc.lru import estimates
from mfmc.replication import Replicator
from mfmc.studies import mean_field
from mfmc.studies.context import Context
from mfmc.studies.hit_ratio import hit_ratio_rows

SWEEP = [
    "study=displacement", "workload=single_shot", "capacities=[100]", "accountings=[whole]", "runtime.replications=60",
    "runtime.chunk=4", "runtime.threads=1", "times=[1.0]", "epsilons=[0.1]", "plots=false", "-m", "runtime.seed=1,2",
]  # fmt: skip
FAST = ["study=mean_field", "plots=false", "capacities=[100,1000]"]


def numbers(root: Path) -> dict[str, bytes]:
    paths = [*root.rglob("*.csv"), *root.rglob("*.npz")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if UNFINISHED not in path.parts}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """A cache of compiled programs for the processes of this file."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, programs) -> dict[str, bytes]:
    """What the sweep computes in this process, on the two devices that it has."""
    assert jax.device_count() == 2
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(programs))
        assert main([*SWEEP, f"output={folder}"]) == 0
    return numbers(folder)


#: The command line, killed (-9) so many seconds after so many more chunks have come to disk.
KILLED = """
import os, signal, sys, threading
from mfmc.chunks import Chunks
from mfmc.cli import main

chunks, seconds, *argv = sys.argv[1:]
left, write = [int(chunks)], Chunks.write

def counted(*arguments):
    write(*arguments)
    left[0] -= 1
    if left[0] == 0:
        threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL)).start()

Chunks.write = counted
sys.exit(main(argv))
"""


def started(here: Path, programs: Path, devices: int, program: Sequence[str] = ("-m", "mfmc")) -> subprocess.Popen:
    """The sweep in a process of its own that sees so many devices."""
    flags = re.sub(r"(device_count=)\d+", rf"\g<1>{devices}", os.environ["XLA_FLAGS"])
    environment = os.environ | {"XLA_FLAGS": flags, "XDG_CACHE_HOME": str(programs)}
    command = [sys.executable, *program, *SWEEP, f"output={here / str(devices)}"]
    return subprocess.Popen(command, cwd=here, env=environment, stdout=subprocess.DEVNULL)


def test_one_two_and_eight_devices_compute_the_same_bits(here, programs, undisturbed):
    processes = {devices: started(here, programs, devices) for devices in (1, 8)}
    for devices, process in processes.items():
        assert process.wait() == 0 and numbers(here / str(devices)) == undisturbed != {}
        for path in (here / str(devices)).rglob("result.json"):
            assert json.loads(path.read_text())["provenance"]["device"]["count"] == devices


def test_a_sweep_killed_at_random_moments_ends_like_an_undisturbed_one(here, programs, undisturbed):
    """kill -9 three times, each a random moment after a few more chunks have come to disk."""
    chance = random.Random(5)
    for kill in (1, 2, 3):
        program = ["-c", KILLED, str(chance.randint(1, 4)), str(chance.uniform(0, 0.01))]
        ended = started(here, programs, 1, program).wait()
        kept = len(list((here / "1" / UNFINISHED).rglob("*.npz")))
        finished = len(list((here / "1").rglob("result.json")))
        print(f"kill {kill}: status {ended}, {kept} chunks on disk, {finished} of 2 jobs finished")
        assert ended == -signal.SIGKILL or kill == 3  # the third may come too late
    assert started(here, programs, 1).wait() == 0
    assert numbers(here / "1") == undisturbed != {}
    assert not list((here / "1").glob("multirun/*/.*"))


def test_a_finished_job_is_skipped_and_a_changed_one_is_not(here, monkeypatch, capsys):
    command = [*FAST, "-m", "runtime.seed=1", "hydra.sweep.dir=sweep"]
    seen, run = [], mean_field.run
    monkeypatch.setattr(mean_field, "run", lambda config, context: (seen.append(1), run(config, context))[1])
    assert main(command) == 0 and len(seen) == 1
    assert main([*command, "runtime.threads=1"]) == 0 and len(seen) == 1  # does not matter
    assert "was done before" in capsys.readouterr().out
    assert main([*command, "horizon=2"]) == 0 and len(seen) == 2  # matters
    assert main([*command, "horizon=2", "runtime.resume=false"]) == 0 and len(seen) == 3
    monkeypatch.setattr(fingerprint, "_code", lambda: "edited")
    assert main([*command, "horizon=2"]) == 0 and len(seen) == 4  # other code may compute other numbers


def test_a_failed_job_is_run_again(here, monkeypatch):
    command, run = [*FAST, "-m", "runtime.seed=1"], mean_field.run
    monkeypatch.setattr(mean_field, "run", lambda *_: 1 / 0)
    assert main(command) == 3
    monkeypatch.setattr(mean_field, "run", run)
    assert main(command) == 0


# --- chunks -------------------------------------------------------------------------------------------------


def double(arguments, replications, sizes):
    return (arguments["scale"] * replications, replications % 2), np.zeros(len(replications), bool)


def run(chunks: Chunks | None, scale: float = 2.0, simulate=double, **options):
    return Replicator(chunk=3, chunks=chunks, **options).run(
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


def test_a_finished_replay_is_kept(tmp_path, monkeypatch):
    """The run is interrupted in its second replay; continued, it computes that one alone, and the same numbers."""
    settings = configured([*FAST[:1], "workload=single_shot", "runtime.replications=10"])
    paths = {n: {"whole": SimpleNamespace(reuse_given_path=np.ones(2))} for n in (100, 200)}
    replay, seen = estimates.replayed_hit_ratio, []

    def interrupted(key, workload, capacities, *arguments, **options):
        seen.append(capacities[0])
        if seen == [100, 200]:
            raise KeyboardInterrupt
        return replay(key, workload, capacities, *arguments, **options)

    monkeypatch.setattr(estimates, "replayed_hit_ratio", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hit_ratio_rows(settings, Context(settings, chunks=Chunks(tmp_path)), paths)
    continued = hit_ratio_rows(settings, Context(settings, chunks=Chunks(tmp_path)), paths)
    assert seen == [100, 200, 200] and continued == hit_ratio_rows(settings, Context(settings), paths)
