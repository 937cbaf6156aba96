"""CSV, JSON lines and Parquet as SQL relations that `staging.stage` can check.

CSV takes duckdb's own typed scan where the file is clean. Where it is not, Python's slower reader rejects single
rows; and where quotes do not even close, every line stands for itself.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

from mfmc.cores import cores
from mfmc.errors import InputError
from mfmc.traces.rejections import Rejections
from mfmc.traces.source import BATCH_LINES, Source
from mfmc.traces.staging import COUNTS, TEXTS, Draft, stage


def connect() -> Any:
    """A connection to an in-memory duckdb, to be closed after use; temporary tables and views are its own."""
    connection = _engine(os.getpid()).cursor()
    connection.execute(f"SET GLOBAL threads = {cores()}")
    return connection


@cache
def _engine(process: int) -> Any:
    """One duckdb a process: starting it takes longer than reading a small file. A fork gets its own."""
    import duckdb

    engine = duckdb.connect(":memory:", config={"preserve_insertion_order": True})
    engine.execute("SET GLOBAL TimeZone = 'UTC'")
    return engine


def csv_header(source: Source) -> list[str]:
    """The column names of the first line that is not blank."""
    if b"\r" in source.head.strip() and b"\n" not in source.head:
        raise InputError(
            f"{source.path}: its lines end in CR alone; convert it first (tr '\\r' '\\n' < OLD > NEW)"
        )
    first = next((line for line in source.head.splitlines() if line.strip()), b"")
    try:
        return [name.strip() for name in next(csv.reader([first.decode()]))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{source.path}: the header line cannot be read as CSV ({error})") from error


def csv_sample(source: Source, column: str) -> list[str]:
    """The first values of one column that are not blank."""
    header = csv_header(source)
    lines = [line for line in source.head.decode(errors="replace").split("\n")[:201] if line.strip()][1:]
    rows = (row for row in map(_fields, lines) if len(row) == len(header))
    return [value for row in rows if (value := row[header.index(column)].strip())]


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def stage_csv(source: Source, columns: Mapping[str, str], format: str, **checks: Any) -> Draft:
    """Draft of a CSV file. `columns`: role -> name in the header; `checks` go to `stage`."""
    import duckdb

    header = csv_header(source)
    missing = [name for name in columns.values() if name not in header]
    if missing:
        raise InputError(
            f"{source.path}: format {format} needs the columns {', '.join(columns.values())}; the header"
            f" {', '.join(header)[:200]!r} lacks {', '.join(missing)}"
        )
    place = {role: header.index(name) for role, name in columns.items()}
    expressions = {role: f"c{index}" for role, index in place.items()}
    times = csv_sample(source, columns["submitted_at"]) if "submitted_at" in columns else []
    text_time = _are_dates(times)
    samples = [value for role in columns if role in TEXTS for value in csv_sample(source, columns[role])]
    whole_ids = bool(samples) and all(value.isdecimal() and str(int(value)) == value for value in samples)
    numeric = {
        expressions[role] for role in (*COUNTS, *([] if text_time else ["submitted_at"])) if role in columns
    }
    types = {f"c{i}": "DOUBLE" if f"c{i}" in numeric else "VARCHAR" for i in range(len(header))}
    with connect() as connection:
        try:
            return stage(
                connection,
                _csv_scan(source, types),
                expressions,
                format,
                None,
                text_time,
                whole_ids=whole_ids,
                **checks,
            )
        except (duckdb.Error, UnicodeDecodeError):
            pass  # some row is malformed: find out which
    quotes_close = _is_csv(source)
    with connect() as connection:
        rejections = Rejections()
        records = _csv_records if quotes_close else _csv_lines
        batches = _csv_batches(records(source, rejections), len(header), rejections)
        connection.register("lines", _reader(batches, len(header)))
        with _read_errors(source):
            return stage(connection, "lines", expressions, format, rejections, text_time, **checks)


def _are_dates(times: list[str]) -> bool:
    """Whether more times are written as dates than as numbers."""
    return sum(map(_is_date, times)) > sum(map(_is_number, times))


def _is_date(text: str) -> bool:
    return re.match(r"\d{4}[-/]\d", text) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def quoted_path(source: Source) -> str:
    """The path as an SQL string in which no character is a wildcard."""
    plain = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(source.path))
    return "'" + plain.replace("'", "''") + "'"


def _csv_scan(source: Source, types: Mapping[str, str]) -> str:
    names = ", ".join(f"'{name}': '{kind}'" for name, kind in types.items())
    line_break = "\\r\\n" if source.head.split(b"\n", 1)[0].endswith(b"\r") else "\\n"
    return (
        f"read_csv({quoted_path(source)}, delim=',', quote='\"', escape='\"', header=true, auto_detect=false,"
        f" null_padding=false, new_line='{line_break}', compression='{source.compression}',"
        f" columns={{{names}}})"
    )


def _is_csv(source: Source) -> bool:
    """Whether every line can be decoded and every quote closes, perhaps some lines later."""
    found = Rejections()
    try:
        for _ in _csv_records(source, found):
            pass
    except csv.Error:
        return False
    return not found.count


def _csv_records(source: Source, rejections: Rejections) -> Iterator[tuple[int, list[str]]]:
    """(number, fields) of the records of a file in which every quote closes; a field may span lines."""
    number = 0
    lines = (line + "\n" for _, lines in source.line_batches(rejections, skip_first=True) for line in lines)
    for number, row in enumerate(csv.reader(lines, strict=True), 1):
        yield number, row
    rejections.rows_read = number


def _csv_lines(source: Source, rejections: Rejections) -> Iterator[tuple[int, list[str]]]:
    """(number, fields) of the lines that are CSV on their own."""
    for numbers, lines in source.line_batches(rejections, skip_first=True):
        for number, line in zip(numbers, lines):
            try:
                yield number, next(csv.reader([line], strict=True))
            except (csv.Error, StopIteration):
                rejections.add("line is not CSV (quotes do not match, or a stray CR)", number)


def _csv_batches(
    records: Iterator[tuple[int, list[str]]], fields: int, rejections: Rejections
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows with the right number of fields, column by column."""
    while batch := list(islice(records, BATCH_LINES)):
        for number, row in batch:
            if len(row) != fields:
                rejections.add(f"line does not have the header's {fields} fields", number)
        kept = [(number, row) for number, row in batch if len(row) == fields]
        yield [number for number, _ in kept], [[row[i] for _, row in kept] for i in range(fields)]


def _reader(batches: Iterator[tuple[list[int], list[list[str]]]], fields: int) -> Any:
    """An arrow stream of row numbers and text columns c0, c1, .."""
    import pyarrow as pa

    schema = pa.schema([("row", pa.int64()), *((f"c{i}", pa.string()) for i in range(fields))])
    stream = (pa.record_batch([numbers, *columns], schema=schema) for numbers, columns in batches)
    return pa.RecordBatchReader.from_batches(schema, stream)


def stage_jsonl(
    source: Source, structure: str, expressions: Mapping[str, str], format: str, **checks: Any
) -> Draft:
    """Draft of a file of one JSON object a line.

    `structure`: what to take of each object, as duckdb's `from_json` wants it (numbers as "VARCHAR", so that
    "12" and 12 both pass and true does not). `expressions`: role -> SQL over the fields of `o`.
    """
    import pyarrow as pa

    rejections = Rejections()
    schema = pa.schema([("row", pa.int64()), ("line", pa.string())])
    batches = (
        pa.record_batch([rows, lines], schema=schema) for rows, lines in source.line_batches(rejections)
    )
    with connect() as connection:
        connection.register("lines", pa.RecordBatchReader.from_batches(schema, batches))
        relation = f"""(
            SELECT "row", COALESCE(TRY(json_type(line)) = 'OBJECT', false) AS is_object,
                   TRY(from_json(line, '{structure}')) AS o
            FROM lines)"""
        with _read_errors(source):
            return stage(connection, relation, expressions, format, rejections, **checks)


@contextmanager
def _read_errors(source: Source) -> Iterator[None]:
    """A file that fails while duckdb draws its lines from us."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise InputError(f"{source.path}: cannot be read to its end ({str(error).splitlines()[0]})") from error


def parquet_columns(source: Source) -> dict[str, str]:
    """Column name -> duckdb type of a Parquet file."""
    import duckdb

    with connect() as connection:
        try:
            relation = connection.sql(f"SELECT * FROM read_parquet({quoted_path(source)}) LIMIT 0")
        except duckdb.Error as error:
            raise InputError(
                f"{source.path}: not a readable Parquet file ({str(error).splitlines()[0]})"
            ) from error
        return dict(zip(relation.columns, map(str, relation.types)))


def stage_parquet(source: Source, columns: Mapping[str, str], format: str, **checks: Any) -> Draft:
    """Draft of a Parquet file. `columns`: role -> name in the file."""
    import duckdb

    expressions = {role: '"' + name.replace('"', '""') + '"' for role, name in columns.items()}
    relation = f"read_parquet({quoted_path(source)})"
    with connect() as connection:
        try:
            text_time = False
            if (time := expressions.get("submitted_at")) is not None:
                first = f"SELECT CAST({time} AS VARCHAR) FROM {relation} WHERE {time} IS NOT NULL LIMIT 200"
                text_time = _are_dates([text for (text,) in connection.sql(first).fetchall()])
            return stage(connection, relation, expressions, format, None, text_time, **checks)
        except duckdb.Error as error:
            raise InputError(
                f"{source.path}: the Parquet data is damaged ({str(error).splitlines()[0]})"
            ) from error
