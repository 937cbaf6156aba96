"""Imports run one way, and optional packages are imported only where they belong."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mfmc"

# Lowest first; a module may import from its own layer and from those below. The longest matching name counts.
LAYERS = (
    ("errors", "words", "accounting", "statistics", "buckets", "chunks", "cores", "replication", "config.ranges"),
    ("laws",),
    ("workload",),
    ("marks", "conversations", "theory"),
    ("displacement", "lru"),
    ("traces",),
    ("",),  # estimator, planning, fitting, eviction, checkpoints, ...: whatever stands on the engines
    ("config.workload", "config.schema", "config.trace", "config.model", "config.convert", "config.known"),
    ("studies",),
    ("results", "report", "plotting", "provenance", "progress", "fingerprint", "studies.doctor"),
    ("config", "cli", "__main__", "collect", "studies.collect"),
)

# package -> modules (and what lies below them) that may import it
OPTIONAL = {
    "hydra": ("cli", "config"),
    "omegaconf": ("cli", "config"),
    "yaml": ("config", "models"),
    "matplotlib": ("plotting",),
    "rich": ("progress", "report"),
    "numba": ("lru.compiled",),
    "optax": ("fitting", "studies.fit"),
    "duckdb": ("traces", "eviction", "estimator", "studies"),
    "pyarrow": ("collect", "traces", "eviction", "estimator", "studies"),
    "zstandard": ("traces", "eviction"),
}


def modules() -> dict[str, ast.Module]:
    """Name below mfmc -> syntax tree; packages by their own name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


def imports(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """Absolute names of what a module imports; `from mfmc.x import y` is mfmc.x.y where that is a module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["mfmc", *name.split(".")]
                if not (PACKAGE / name.replace(".", "/")).is_dir():
                    package.pop()
                base = ".".join(part for part in (*package[: len(package) - node.level + 1], base) if part)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full.removeprefix("mfmc.") in known else base)
    return found


def below(name: str, stem: str) -> bool:
    """Whether a module is `stem`, lies in it, or is one of its files (plotting_x of plotting)."""
    return not stem or name == stem or name.startswith((f"{stem}.", f"{stem}_"))


def layer(name: str) -> int:
    """Position in LAYERS."""
    places = {stem: i for i, stems in enumerate(LAYERS) for stem in stems if below(name, stem)}
    return places[max(places, key=len)]


MODULES = modules()
IMPORTS = {name: imports(name, tree, set(MODULES)) for name, tree in MODULES.items()}


def test_imports_run_one_way():
    wrong = [
        f"{name} imports {target}"
        for name, targets in IMPORTS.items()
        if name  # mfmc/__init__.py re-exports: see below
        for target in targets
        if target.startswith("mfmc.") and layer(target.removeprefix("mfmc.")) > layer(name)
    ]
    assert not wrong


def test_the_library_does_not_export_the_application():
    exported = {target.removeprefix("mfmc.") for target in IMPORTS[""] if target.startswith("mfmc.")}
    assert not {name for name in exported if layer(name) > layer("estimator")}


@pytest.mark.parametrize("package", OPTIONAL)
def test_optional_packages_are_imported_where_they_belong(package):
    users = {name for name, targets in IMPORTS.items() if any(t.split(".")[0] == package for t in targets)}
    assert not {name for name in users if not any(below(name, stem) for stem in OPTIONAL[package])}


def test_a_wrong_arrow_is_seen():
    tree = ast.parse("def f():\n    from mfmc import cli\n    from ..studies import result\n")
    assert imports("theory.x", tree, {"cli", "studies.result"}) == {"mfmc.cli", "mfmc.studies.result"}
    assert layer("cli") > layer("studies.mean_field") > layer("planning") > layer("theory.x") > layer("laws")
    assert layer("plotting_mean_field") > layer("studies.context") and layer("config.compose") > layer(
        "results"
    )


def test_import_mfmc_needs_only_jax_numpy_scipy():
    block = "\n".join(
        [
            "import sys",
            *(f"sys.modules[{name!r}] = None" for name in (*OPTIONAL, "hydra.utils")),
            "import mfmc",
        ]
    )
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_the_application_configures_jax():
    users = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "jax.config.update"
    }
    assert users <= {"config.machine"}


def test_biased_and_slow_samplers_are_not_used():
    """jax.random.poisson casts its rate to float32 and jax.random.gamma is slow: tables and numpy serve."""
    pattern = re.compile(r"\b(random|jr|jrandom)\.(poisson|gamma)$")
    used = {
        f"{name}: {ast.unparse(node.func)}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and pattern.search(ast.unparse(node.func))
        and "jax" in ast.unparse(node.func)
    }
    assert not used
