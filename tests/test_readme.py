"""Every command and every line of Python in the README runs and gives the number beside it; what docstrings cite of
THEORY.md is there; the two set-up lines are what CI does."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from mfmc.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
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


def run(block: str, namespace: dict) -> None:
    """Run one block; where a line's comment begins with a number, its value (the first of several) rounds to that."""
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        code = compile(ast.Module([statement], []), "README.md", "exec")
        if not isinstance(statement, ast.Expr):
            exec(code, namespace)
            continue
        value = eval(compile(ast.Expression(statement.value), "README.md", "eval"), namespace)
        said = re.search(r"# (-?\d+(?:\.(\d+))?)", lines[statement.end_lineno - 1])
        if said:
            assert abs(np.ravel(value)[0] - float(said[1])) <= 0.51 * 10.0 ** -len(said[2] or ""), said.string


def test_python_of_the_readme(request):
    """All blocks in order, in one namespace; those that read a file where it is there."""
    namespace: dict = {}
    for block in PYTHON:
        for name, real in FILES.items():
            if name in block:
                block = block.replace(name, str(request.getfixturevalue("shared") / "traces" / real))
        run(block, namespace)
    assert namespace["estimate"].low < namespace["estimate"].hit_ratio < namespace["estimate"].high


def test_a_wrong_number_in_the_readme_is_seen():
    run("1 / 3  # 0.333, a third", {})
    with pytest.raises(AssertionError):
        run("1 / 3  # 0.334", {})


def test_what_is_cited_of_the_theory_is_there():
    sections = set(re.findall(r"^#+ (A|B\d+)\. ", (ROOT / "THEORY.md").read_text(), flags=re.MULTILINE))
    cited = set()
    for path in [*ROOT.glob("mfmc/**/*.py"), *ROOT.glob("conf/**/*.yaml"), *ROOT.glob("tests/*.py")]:
        for first in re.findall(r"THEORY\s+(A\b|B\d+(?:(?:, | and |-)B\d+)*)", path.read_text()):
            cited |= set(re.findall(r"A|B\d+", first))
    assert len(cited) > 5 and cited <= sections, cited - sections


def test_set_up_lines_are_what_ci_does():
    run = (Path(__file__).parents[1] / ".ci" / "run").read_text()
    for line in ("-m venv", "-e '.[", "-m pytest"):
        assert line in README and line in run
