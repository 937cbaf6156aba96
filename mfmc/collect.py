"""A sweep in one table and one report, finished or not.

sweep.csv, sweep.parquet    the main tables of all jobs, one below the other; job and swept settings come first
sweep_<name>.csv            the same of every further table
report.md, figures/         what came of which job, and the figures of the experiment
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mfmc import plotting, report
from mfmc.config.sweeps import planned_jobs, purpose
from mfmc.errors import InputError
from mfmc.results import RESULT, read_table, status_of, write_table
from mfmc.studies.result import Result, check

Row = dict[str, Any]

_WORDS = {0: "done", 1: "with a failed check", 2: "refused", 3: "broke", None: "not finished"}


@dataclass(frozen=True)
class Job:
    """One job of a sweep: exit status (None: it has not finished) and what went wrong, if anything."""

    number: int
    folder: Path
    swept: dict[str, str]
    status: int | None
    error: str


@dataclass(frozen=True)
class Collected:
    """A sweep as far as it has come. `tables` has the rows of every job, headed by job and swept settings."""

    sweep: Path
    experiment: str | None
    jobs: list[Job]
    tables: dict[str, list[Row]]

    def counts(self) -> str:
        """How many jobs did what, in words."""
        statuses = [job.status for job in self.jobs]
        counts = ", ".join(f"{statuses.count(s)} {word}" for s, word in _WORDS.items() if s in statuses)
        return f"{len(self.jobs)} jobs: {counts}"

    def result(self) -> Result:
        """The sweep as a result: its jobs are the main table, and a job without a result is a failed check."""
        rows = [
            {"job": job.number, **job.swept, "outcome": _WORDS[job.status], "error": job.error or None}
            for job in self.jobs
        ]
        bad = [job for job in self.jobs if job.status != 0]
        detail = "; ".join(f"job {job.number}: {job.error}" for job in bad)
        return Result(
            summary={"sweep": str(self.sweep), "experiment": self.experiment, "jobs": rows},
            headline=[f"{self.counts()}; {len(self.tables.get('table', []))} rows in sweep.csv"],
            tables={"table": rows},
            checks=[check("every job is done", not bad, detail or f"{len(rows)} jobs")],
        )

    def write(self) -> None:
        """Write all files into the folder of the sweep; those of an earlier collection are replaced one by one."""
        for name, rows in self.tables.items():
            stem = "sweep" if name == "table" else f"sweep_{name}"
            _replace(self.sweep / f"{stem}.csv", lambda path, rows=rows: write_table(path, rows))
        note = self._write_parquet()
        about = purpose(self.experiment) if self.experiment else ""
        text = report.render_sweep(self.experiment, about, self.result(), self.tables, self._draw(), note)
        _replace(self.sweep / "report.md", lambda path: path.write_text(text, encoding="utf-8"))

    def _write_parquet(self) -> str:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            return "sweep.parquet is not written: pyarrow is not installed (pip install 'mfmc[traces]')"
        rows = self.tables.get("table", [])
        columns = list(dict.fromkeys(key for row in rows for key in row))
        table = pyarrow.table({column: _uniform([row.get(column) for row in rows]) for column in columns})
        _replace(self.sweep / "sweep.parquet", lambda path: pyarrow.parquet.write_table(table, path))
        return "sweep.parquet holds the rows of sweep.csv"

    def _draw(self) -> list[str]:
        from mfmc.plotting_sweeps import drawings

        drawn = []
        for name, draw in drawings(self.experiment, self.tables).items():
            (self.sweep / "figures").mkdir(exist_ok=True)
            plotting.save(draw, self.tables, self.sweep / "figures" / name)
            drawn.append(name)
        return drawn


def collect(sweep: str | os.PathLike) -> Collected:
    """Read a sweep as far as it has come. Raises InputError where `sweep` is no folder of a multirun."""
    sweep = Path(sweep)
    if not sweep.is_dir():
        raise InputError(f"sweep={sweep}: no such folder")
    planned = planned_jobs(sweep)
    swept = [key for key in _keys(planned) if len({job.get(key) for job in planned}) > 1]
    jobs: list[Job] = []
    tables: dict[str, list[dict]] = {}
    for number, overrides in enumerate(planned):
        folder = sweep / str(number)
        chosen = {key: overrides[key] for key in swept if key in overrides}
        jobs.append(Job(number, folder, chosen, *status_of(folder)))
        if (folder / RESULT).is_file():
            for path in sorted(folder.glob("*.csv"), key=lambda path: (path.stem != "table", path.stem)):
                rows = [{"job": number, **_parsed(chosen), **row} for row in read_table(path)]
                tables.setdefault(path.stem, []).extend(rows)
    experiment = planned[0].get("experiment") if planned else None
    return Collected(sweep, experiment, jobs, tables)


def _keys(rows: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _parsed(swept: dict[str, str]) -> Row:
    """Swept settings as numbers where they are numbers."""
    return {key: _number(text) for key, text in swept.items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _uniform(column: list[Any]) -> list[Any]:
    """A column of one type: text where types are mixed."""
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {int, float} or len(kinds) <= 1:
        return [float(v) if kinds == {int, float} and v is not None else v for v in column]
    return [None if value is None else str(value) for value in column]


def _replace(path: Path, write: Any) -> None:
    """Write under a temporary name first: a reader, or a second launch, never sees half of a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
