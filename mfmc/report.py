"""The report of a run, for people: Markdown on disk, a few lines on the terminal."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from mfmc.studies.result import Result

LONGEST_TABLE = 60
LONGEST_TERMINAL_TABLE = 24
LONGEST_LINE = 36  # of a text in a terminal table


def render(study: str, result: Result, provenance: dict[str, Any], figures: list[str]) -> str:
    """report.md: findings, checks, figures, tables, the study's own sections, provenance."""
    parts = [f"# {_title(study)}", "", *(f"- {finding}" for finding in result.headline)]
    if result.checks:
        parts += ["", "## Checks", "", f"{tally(result)}", ""]
        parts += table(
            [{"check": c.name, "": "passed" if c.passed else "FAILED", "figures": c.detail} for c in result.checks]
        )
    for title, text in result.sections.items():
        parts += ["", f"## {title}", "", text.strip()]
    if figures:
        parts += ["", "## Figures"]
        for name in figures:
            parts += ["", f"![{_title(name)}](figures/{name}.png)"]
    for name, rows in result.tables.items():
        parts += ["", f"## {_title(name)}", "", *table(rows[:LONGEST_TABLE])]
        if len(rows) > LONGEST_TABLE:
            parts += ["", f"{len(rows) - LONGEST_TABLE} more rows in [{name}.csv]({name}.csv)."]
    return "\n".join([*parts, "", "## Provenance", "", *_provenance(provenance)]) + "\n"


def render_sweep(
    experiment: str | None,
    purpose: str,
    result: Result,
    tables: dict[str, list[dict[str, Any]]],
    figures: list[str],
    note: str,
) -> str:
    """report.md of a collected sweep: what it is for, what came of which job, figures, rows."""
    jobs = result.tables["table"]
    failed = [row for row in jobs if row["outcome"] != "done"]
    parts = [f"# {_title(experiment or 'sweep')}", "", *([purpose, ""] if purpose else [])]
    parts += [*(f"- {finding}" for finding in result.headline), f"- {note}"]
    if failed:
        parts += ["", "## Jobs that are not done", "", *table(failed)]
    if figures:
        parts += ["", "## Figures"]
        for name in figures:
            parts += ["", f"![{_title(name)}](figures/{name}.png)"]
    listed = [{key: _linked(value, row) if key == "job" else value for key, value in row.items()} for row in jobs]
    parts += ["", "## Jobs", "", *table([{key: v for key, v in row.items() if key != "error"} for row in listed])]
    for name, rows in tables.items():
        stem = "sweep" if name == "table" else f"sweep_{name}"
        parts += ["", f"## {_title(stem)}", "", *table(rows[:LONGEST_TABLE])]
        if len(rows) > LONGEST_TABLE:
            parts += ["", f"{len(rows) - LONGEST_TABLE} more rows in [{stem}.csv]({stem}.csv)."]
    return "\n".join(parts) + "\n"


def _linked(job: int, row: dict[str, Any]) -> str:
    """The number of a job, leading to its report where there is one."""
    return f"[{job}]({job}/report.md)" if row["outcome"] in ("done", "with a failed check") else str(job)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as lines of a Markdown table."""
    if not rows:
        return ["(no rows)"]
    columns = _columns(rows)
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(c)) for c in columns] for row in rows)]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _cell(value: Any) -> str:
    """A value at reading precision; the CSV has every digit."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(item)}" for key, item in value.items())
    return str(value)


def _title(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def tally(result: Result) -> str:
    """How many checks passed, in words."""
    if not result.checks:
        return "done, nothing to check"
    passed = sum(check.passed for check in result.checks)
    return f"{passed} of {len(result.checks)} checks passed"


def _provenance(provenance: dict[str, Any]) -> list[str]:
    """Facts on how the run came about; the whole configuration is in .hydra/config.yaml."""
    facts = {name: value for name, value in provenance.items() if name != "config"}
    facts["overrides"] = "`" + " ".join(provenance["overrides"]) + "`" if provenance["overrides"] else "none"
    return [f"- {_title(name).lower()}: {_cell(value)}" for name, value in facts.items()]


def show(study: str, result: Result, folder: Path, seconds: float) -> None:
    """The findings, the main table, what failed, and where the rest is."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(study)}[/] in {seconds:.1f} s")
    for finding in result.headline:
        console.print(f"  {escape(finding)}")
    rows = [_with_errors(row) for row in result.tables.get("table", [])]
    parts = _parts(rows, console.width)
    for columns in parts:
        grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for column in columns:
            text = any(isinstance(row.get(column), str) and " ± " not in row[column] for row in rows)
            grid.add_column(_heading(column, rows), justify="left" if text else "right")
        for row in rows:
            grid.add_row(*(escape(_short(row.get(column))) for column in columns))
        console.print(grid)
    unseen = len(set(_columns(rows)).difference(*parts)) if parts else 0
    if unseen:
        console.print(f"{unseen} more columns in table.csv")
    if result.checks:
        console.print(tally(result), style="green" if result.passed else "bold red")
    for failed in (check for check in result.checks if not check.passed):
        console.print(f"  FAILED {escape(failed.name)}: {escape(failed.detail)}", style="red")
    console.print(f"results: {escape(str(folder))}")


def _with_errors(row: dict[str, Any]) -> dict[str, Any]:
    """``x_estimate`` and ``x_standard_error`` as one column ``x``."""
    shown: dict[str, Any] = {}
    for column, value in row.items():
        name = column.removesuffix("_estimate")
        error = row.get(f"{name}_standard_error")
        if column.endswith("_standard_error") and f"{column.removesuffix('_standard_error')}_estimate" in row:
            continue
        shown[name] = value
        if name != column and isinstance(value, float) and isinstance(error, float):
            digits = 1 - math.floor(math.log10(error)) if 0 < error < 10 else 0
            shown[name] = f"{value:.{digits}f} ± {error:.{digits}f}"
    return shown


def _parts(rows: list[dict[str, Any]], width: int) -> list[list[str]]:
    """Columns of the tables, one below the other, that show all rows within the width of the terminal.

    Each begins with the first columns that tell the rows apart. Two tables at most, of as many rows as one cares to
    look at; the CSV has the rest.
    """
    columns = _columns(rows)
    if not 0 < len(rows) <= LONGEST_TERMINAL_TABLE:
        return []
    apart = (n for n in (1, 2) if len({tuple(str(row.get(c)) for c in columns[:n]) for row in rows}) == len(rows))
    about = columns[: next(apart, 3)]

    def room(names: list[str]) -> int:
        return sum(2 + _width(name, rows) for name in names)

    parts = [list(about)]
    for name in columns[len(about) :]:
        if parts[-1] != about and room([*parts[-1], name]) > width:
            parts.append(list(about))
        parts[-1].append(name)
    return parts[:2]


def _heading(column: str, rows: list[dict[str, Any]]) -> str:
    """The name of a column, broken into lines no wider than the column has to be."""
    return textwrap.fill(column.replace("_", " "), _width(column, rows))


def _width(column: str, rows: list[dict[str, Any]]) -> int:
    """Letters that the words of its name and its values need; longer texts are wrapped."""
    values = (min(len(_short(row.get(column))), LONGEST_LINE) for row in rows)
    return max(*map(len, column.split("_")), *values)


def _short(value: Any) -> str:
    """A value at the precision of a glance: five digits, thousands set apart."""
    if isinstance(value, float) and (value == 0 or 1e-4 <= abs(value) < 1e12):
        digits = 4 - math.floor(math.log10(abs(value))) if value else 0
        return f"{value:,.{min(max(digits, 0), 5)}f}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else _cell(value)
