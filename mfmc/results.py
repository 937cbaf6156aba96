"""Results on disk: one folder a run, written under a temporary name and renamed: no half of it ever shows.

result.json             {"schema": 1, "study", "summary", "provenance"}; what is not finite is null
table.csv, <name>.csv   the tables
arrays.npz              the arrays
report.md, figures/     for people; figures as png and pdf
.hydra/                 the configuration
failure.json            instead of all this: why a job of a multirun has no result
"""

from __future__ import annotations

import csv
import dataclasses
import glob
import json
import math
import os
import platform
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from mfmc.errors import InputError
from mfmc.studies.result import Check, Result

SCHEMA = 1
RESULT = "result.json"
FAILURE = "failure.json"


def plain(value: Any) -> Any:
    """`value` in terms of JSON: numpy and dataclasses unpacked, NaN and infinities as null."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    raise TypeError(
        f"a {type(value).__name__} cannot be written to JSON: give plain numbers, lists and dicts"
    )


class Folder:
    """The folder of one run.

    A result that lies there when the run begins is replaced by the new one, in one rename. One that appears
    in the meantime belongs to another launch: it stays, and ours takes the next free name (`path` then
    changes), unless the two are the same run.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self._remove_leftovers()
        self._earlier = self._marks()
        if not self._earlier and self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(
                f"{self.path}: holds files that are no result of mfmc; name a new or an empty folder"
            )

    def _marks(self) -> set[tuple[str, int, int]]:
        """Identity of the result that lies in the folder now."""
        found = set()
        for name in (RESULT, FAILURE):
            try:
                status = (self.path / name).stat()
            except OSError:
                continue
            found.add((name, status.st_ino, status.st_mtime_ns))
        return found

    def status_of(self, fingerprint: str) -> int | None:
        """Exit status of the result that lies here, if it has this fingerprint (see `mfmc.fingerprint`)."""
        if not (self.path / RESULT).is_file():
            return None
        known = read_document(self.path)["provenance"].get("fingerprint")
        return status_of(self.path)[0] if known == fingerprint else None

    def write(self, result: Result, study: str, provenance: dict[str, Any], extra: dict[str, str]) -> None:
        """Publish a result; `extra` are further text files by name. `config.plots` asks for figures."""
        from mfmc import plotting, report

        with_figures = bool(provenance["config"].get("plots"))
        temporary = self._temporary()
        try:
            document = {
                "schema": SCHEMA,
                "study": study,
                "summary": summary_of(result),
                "provenance": provenance,
            }
            _write_text(temporary / RESULT, json.dumps(plain(document), indent=1, allow_nan=False) + "\n")
            np.savez_compressed(temporary / "arrays.npz", **result.arrays)  # type: ignore[arg-type]
            for name, rows in result.tables.items():
                write_table(temporary / f"{name}.csv", rows)
            for name, write in result.folders.items():
                (temporary / name).mkdir()
                write(temporary / name)
            figures = plotting.draw_all(study, result, temporary / "figures") if with_figures else []
            _write_text(temporary / "report.md", report.render(study, result, plain(provenance), figures))
            for name, text in {**extra, **result.files}.items():
                _write_text(temporary / name, text)
            self._publish(temporary, provenance.get("fingerprint"))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def write_failure(self, message: str, status: int, extra: dict[str, str]) -> None:
        """Publish why there is no result."""
        temporary = self._temporary()
        try:
            _write_text(
                temporary / FAILURE, json.dumps({"schema": SCHEMA, "error": message, "status": status}) + "\n"
            )
            for name, text in extra.items():
                _write_text(temporary / name, text)
            self._publish(temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def discard(self) -> None:
        """Remove the folder if it is empty, and its parent if that is then empty too."""
        for folder in (self.path, self.path.parent):
            try:
                folder.rmdir()
            except OSError:
                return

    def _temporary(self) -> Path:
        name = f".{self.path.name}.{platform.node()}.{os.getpid()}.{secrets.token_hex(4)}"
        folder = self.path.parent / name
        folder.mkdir(parents=True)
        return folder

    def _remove_leftovers(self) -> None:
        """Temporary folders of this one whose process, on this machine, is no more."""
        for folder in self.path.parent.glob(f".{glob.escape(self.path.name)}.{platform.node()}.*.*"):
            if not _runs(int(folder.name.split(".")[-2])):
                shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, temporary: Path, fingerprint: str | None = None) -> None:
        wanted, number = self.path, 1
        while True:
            try:
                os.rename(temporary, self.path)  # also onto an empty folder
                return
            except OSError:
                if not self.path.exists():
                    raise
            if self._earlier and self._marks() == self._earlier:
                aside = self._temporary()
                os.rename(self.path, aside / "old")
                os.rename(temporary, self.path)
                shutil.rmtree(aside, ignore_errors=True)
                return
            if fingerprint is not None and self.status_of(fingerprint) is not None:
                return  # another launch of the same run was faster; its result is bit for bit ours
            number += 1
            self.path = wanted.with_name(f"{wanted.name}-{number}")


def summary_of(result: Result) -> dict[str, Any]:
    """The summary as written: with the checks."""
    checks = {"checks": [plain(check) for check in result.checks]} if result.checks else {}
    return {**result.summary, **checks}


def status_of(folder: Path) -> tuple[int | None, str]:
    """Exit status of the run in a folder (None: not finished) and its error: 0 or 1 where there is a result."""
    if (folder / RESULT).is_file():
        checks = read_document(folder)["summary"].get("checks", [])
        failed = [check["name"] for check in checks if not check["passed"]]
        return int(bool(failed)), f"failed: {'; '.join(failed)}" if failed else ""
    if (folder / FAILURE).is_file():
        failure = json.loads((folder / FAILURE).read_text(encoding="utf-8"))
        return failure["status"], failure["error"]
    return None, "not finished"


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows as CSV; None is blank, nested values are JSON, NaN and inf are spelt out."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return repr(float(value))
    return value if isinstance(value, str) else json.dumps(plain(value))


def read_table(path: str | os.PathLike) -> list[dict[str, Any]]:
    """Rows of a CSV written by `write_table`, with numbers and truth values restored."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [{key: _parsed(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _parsed(cell: str) -> Any:
    if cell in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[cell]
    for kind in (json.loads,) if cell[0] in "[{" else (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def read_document(folder: str | os.PathLike) -> dict[str, Any]:
    """result.json of a folder. Raises InputError if there is none, or one of another schema."""
    path = Path(folder) / RESULT
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a result of mfmc ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a result of schema {SCHEMA}")
    return document


def read(folder: str | os.PathLike) -> Result:
    """The Result in a folder (without headline and sections, which only the report keeps)."""
    folder = Path(folder)
    document = read_document(folder)
    summary = document["summary"]
    with np.load(folder / "arrays.npz") as arrays:
        return Result(
            summary={key: value for key, value in summary.items() if key != "checks"},
            tables={path.stem: read_table(path) for path in sorted(folder.glob("*.csv"))},
            arrays=dict(arrays),
            checks=[Check(**row) for row in summary.get("checks", [])],
        )


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
