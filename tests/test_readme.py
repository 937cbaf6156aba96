"""Every command and every line of Python in the README runs; the two set-up lines are what CI does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mfmc.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = re.findall(r"^    mfmc\b(.*)$", README, flags=re.MULTILINE)
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

#: Only the size of a run is changed.
SMALL = {"validate": ["capacities=[100]"], "cache_budget": ["cache_budget.conversations=10"],
         "eviction_tradeoff": ["eviction.replications=2"], "replay": ["replay.conversations=5000"],
         "displacement": ["capacities=[100,1000]"], "characteristic_time": ["capacities=[100,1000]"],
         "hit_ratio": ["capacities=[100]"], "fit": ["fit.sample=3000"],
         "rare_events": ["capacities=[200]", "epsilons=[0.5]", "rare_events.samples=500"]}
#: Names of files in the README -> files in shared/traces.
FILES = {"turns.csv.gz": "sharegpt_turns.csv.gz", "agentic_steps.csv.gz": "agentic_steps.csv.gz",
         "trace.jsonl.gz": "mooncake_conversation.jsonl.gz"}


def arguments(line: str, traces: Path | None) -> list[str]:
    """The words of a command, with its file names replaced by those of real files."""
    words = shlex.split(line, comments=True)
    for i, word in enumerate(words):
        key, _, value = word.partition("=")
        if value in FILES:
            assert traces is not None
            words[i] = f"{key}={traces / FILES[value]}"
    return words


def is_sweep(line: str) -> bool:
    """Sweeps are run by test_sweeps.py and test_resume.py, smaller than the presets of the README."""
    return any(word == "-m" or word.startswith(("experiment=", "sweep=")) for word in shlex.split(line, comments=True))


@pytest.mark.parametrize("line", [line for line in COMMANDS if not is_sweep(line)])
def test_command_of_the_readme(line, tmp_path, monkeypatch, request, capsys):
    monkeypatch.chdir(tmp_path)
    traces = request.getfixturevalue("shared") / "traces" if any(name in line for name in FILES) else None
    words = arguments(line, traces)
    if "--help" in words:
        assert main(words) == 0
        return
    study = next((w.removeprefix("study=") for w in words if w.startswith("study=")), "validate")
    small = [] if any(w.startswith("capacities=") for w in words) else SMALL.get(study, [])
    assert main([*words, *small, "runtime.replications=40", "plots=false"]) == 0
    assert list((tmp_path / "outputs").rglob("result.json"))


def test_python_of_the_readme(capsys):
    """All blocks in order, in one namespace."""
    namespace: dict = {}
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["paths"].sup.size == 512


def test_set_up_lines_are_what_ci_does():
    run = (Path(__file__).parents[1] / ".ci" / "run").read_text()
    for line in ("-m venv", "-e '.[", "-m pytest"):
        assert line in README and line in run
