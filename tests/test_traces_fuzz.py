"""Every reader under mutation: whatever happens to a file, the counts add up or one clear line says what is
wrong.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_traces import CSV_FILES, JSON_FORMATS, objects

from mfmc.errors import InputError
from mfmc.traces import read_trace, validate_trace

pytest.importorskip("duckdb")

ODD_VALUES = (
    None,
    "",
    " ",
    "abc",
    "NaN",
    "-1",
    -1,
    0,
    1.5,
    1e400,
    -1e400,
    float("nan"),
    2**63,
    10**30,
    1e18,
    True,
    False,
    [],
    [1],
    [None],
    ["a"],
    {},
    {"a": 1},
    "\u0000",
    "\ud83d",
    "é" * 3,
    "1e3",
    "0x10",
    "12 ",
    '"',
    "a,b",
    "1\n2",
)


def mutate_values(rows, chance: random.Random):
    """Swap types, drop, add and repeat fields and rows, anywhere in nested rows."""
    for _ in range(chance.randint(1, 4)):
        place = rows
        while True:
            if isinstance(place, list) and place and chance.random() < 0.9:
                key = chance.randrange(len(place))
            elif isinstance(place, dict) and place:
                key = chance.choice(list(place))
            else:
                break
            if isinstance(place[key], (list, dict)) and chance.random() < 0.7:
                place = place[key]
                continue
            action = chance.random()
            if action < 0.6:
                place[key] = copy.deepcopy(chance.choice(ODD_VALUES))
            elif action < 0.75:
                del place[key]
            elif isinstance(place, list):
                place.insert(key, copy.deepcopy(place[key]))
            else:
                place["extra"] = copy.deepcopy(chance.choice(ODD_VALUES))
            break
    return rows


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Cut, repeat, overwrite and insert."""
    for _ in range(chance.randint(0, 3)):
        if not data:
            break
        a, b = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        action = chance.randrange(6)
        if action == 0:
            data = data[:a]
        elif action == 1:
            data = data[:a] + data[b:]
        elif action == 2:
            data = data[:b] + data[a:b] + data[b:]
        elif action == 3:
            data = data[:a] + bytes(chance.randrange(256) for _ in range(chance.randint(1, 4))) + data[a:]
        elif action == 4:
            data = (
                data[:a]
                + chance.choice([b"\n", b"\r\n", b'"', b",", b"{", b"}", b"[", b"\0", b"\xff"])
                + data[a + 1 :]
            )
        else:
            data = data.replace(b"\n", b"\r\n") if chance.random() < 0.5 else data + b"\n\n"
    return data


def json_bytes(rows, format, chance: random.Random) -> bytes:
    if format == "kv_cache_tester" and len(rows) == 1:
        return json.dumps(rows[0]).encode("utf-8", "surrogatepass")
    if format in ("sharegpt", "vllm_multi_turn") and chance.random() < 0.7:
        return json.dumps(rows).encode("utf-8", "surrogatepass")
    text = [json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows]
    if text and chance.random() < 0.2:  # a key twice
        row = chance.randrange(len(text))
        text[row] = text[row].replace("{", '{"timestamp": 5, "input_length": "x", ', 1)
    return "".join(line + "\n" for line in text).encode("utf-8", "surrogatepass")


def csv_bytes(text: str, chance: random.Random) -> bytes:
    rows = list(csv.reader(io.StringIO(text)))
    body = mutate_values(rows[1:], chance) if chance.random() < 0.7 else rows[1:]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows[0])
    for row in body:
        writer.writerow(row if isinstance(row, list) else [row])
    return out.getvalue().replace("\r\n", "\n").encode("utf-8", "surrogatepass")


def check(path, format):
    """InputError in one line, or a trace whose counts add up and which everything else accepts."""
    for named in (None, format):
        try:
            trace = read_trace(path, format=named)
        except InputError as error:
            assert str(error) and "\n" not in str(error)
            continue
        rows = trace.rejections
        assert rows.rows_read == rows.rows_kept + rows.count and rows.rows_kept >= 0
        if trace.format not in ("sharegpt", "vllm_multi_turn"):  # there a row is a message
            assert rows.rows_kept == len(trace)
            assert np.unique(trace.source_row).size == len(trace) and trace.source_row.max() <= rows.rows_read
        assert all(len(entry.first_rows) == min(entry.count, 5) for entry in rows.by_reason.values())
        assert np.array_equal(
            np.flatnonzero(trace.turn == 1), np.flatnonzero(np.diff(trace.conversation, prepend=-1))
        )
        assert (trace.history_tokens >= 0).all() and (trace.new_prompt_tokens >= 0).all()
        assert (trace.response_tokens >= 0).all() and (trace.gaps().seconds >= 0).all()
        try:
            assert (trace.conversations(128).prompt_tokens >= 0).all()
            validate_trace(trace)
            trace.arrival_rate()
        except InputError as error:
            assert "\n" not in str(error)


FUZZ = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("format", JSON_FORMATS)
@FUZZ
@given(seed=st.integers(0, 2**32))
def test_json_readers_survive(format, seed, tmp_path_factory):
    chance = random.Random(seed)
    rows = mutate_values(objects(format), chance) if chance.random() < 0.8 else objects(format)
    data = mutate_bytes(json_bytes(rows, format, chance), chance)
    path = tmp_path_factory.getbasetemp() / f"{format}.json"
    path.write_bytes(mutate_bytes(gzip.compress(data), chance) if chance.random() < 0.15 else data)
    check(path, format)


@pytest.mark.parametrize("format", CSV_FILES)
@FUZZ
@given(seed=st.integers(0, 2**32))
def test_csv_readers_survive(format, seed, tmp_path_factory):
    chance = random.Random(seed)
    data = csv_bytes(CSV_FILES[format], chance)
    if chance.random() < 0.6:
        data = mutate_bytes(data, chance)
    path = tmp_path_factory.getbasetemp() / f"{format}.csv"
    path.write_bytes(gzip.compress(data) if chance.random() < 0.1 else data)
    check(path, format)


@FUZZ
@given(seed=st.integers(0, 2**32))
def test_binary_readers_survive(seed, tmp_path_factory):
    """Parquet of odd types and values, and damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chance = random.Random(seed)
    columns = {
        "session_id": ["a", "a", "b", None],
        "timestamp": [1.0, 2.0, 3.0, 4.0],
        "input_length": [5, 9, 7, 3],
    }
    columns["output_length"] = [1, 2, 3, 4]
    for name in columns:
        if chance.random() < 0.4:
            odd = chance.choice(
                [
                    [1, None, -1, 2**40],
                    [0.5, float("nan"), float("inf"), 2.0],
                    ["x", "7", "", None],
                    [True] * 4,
                    [b"\xff", b"1", None, b""],
                    [[1], [], None, [2]],
                    [{"a": 1}] * 4,
                    [None] * 4,
                ]
            )
            columns[name] = odd
    path = tmp_path_factory.getbasetemp() / "odd.parquet"
    pq.write_table(pa.table(columns), path)
    if chance.random() < 0.4:
        path.write_bytes(b"PAR1" + mutate_bytes(path.read_bytes()[4:], chance))
    check(path, "generic")
