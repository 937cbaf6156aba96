"""The notebooks run from top to bottom without an error or a warning, and are saved with what they print and draw."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = ("capacity_planning", "convergence", "finite_size_hit_ratio", "how_loose_are_the_bounds")

LARGEST = 2**20  # bytes
SECONDS = 90  # of one notebook on two cores of its own

#: A path of one machine: a home, a temporary or a working folder, or a Windows drive.
_ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:home|tmp|root|Users|usr|opt|work|mnt|var|data)/|\b[A-Z]:\\\\")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def text_of(notebook) -> str:
    """All that a reader sees but the pictures."""
    shown = [cell.source for cell in notebook.cells]
    for output in outputs(notebook):
        parts = [output.get("text", "")] + list(output.get("traceback", []))
        parts += [value for kind, value in output.get("data", {}).items() if kind.startswith("text/")]
        shown += [part if isinstance(part, str) else "".join(part) for part in parts]
    return "\n".join(shown)


def complaints(notebook) -> list[str]:
    """Errors, and whatever was written to standard error."""
    return [
        str(output.get("text", output.get("evalue")))
        for output in outputs(notebook)
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


def test_the_four_notebooks_are_there() -> None:
    assert tuple(path.stem for path in NOTEBOOKS) == NAMES


@each_notebook
def test_is_saved_as_a_reader_should_find_it(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "not run from top to bottom"
    pictures = [output for output in outputs(notebook) if "image/png" in output.get("data", {})]
    assert len(pictures) >= 4, "saved without its figures"
    assert not complaints(notebook)
    assert not _ABSOLUTE.search(text_of(notebook))


@each_notebook
def test_cells_are_short_and_explained(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == kinds[-1] == "markdown"
    longest = max(len(cell.source.splitlines()) for cell in notebook.cells if cell.cell_type == "code")
    assert longest <= 15, "logic of this length belongs in the package"


@each_notebook
def test_runs_without_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = nbclient.NotebookClient(
        notebook, timeout=20 * SECONDS, startup_timeout=600, kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()  # raises at the first error
    assert not complaints(notebook)


def test_an_absolute_path_would_be_seen() -> None:
    for seen in ("/home/me/x.csv", "open('/tmp/a')", "C:\\\\data"):
        assert _ABSOLUTE.search(seen), seen
    for fine in ("outputs/validate", "https://host/home/x", "D_N/N", "blocks/var"):
        assert not _ABSOLUTE.search(fine), fine
