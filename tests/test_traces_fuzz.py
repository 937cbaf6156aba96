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

from mfmc.errors import InputError
from mfmc.traces import FORMATS, read_trace, validate_trace
from mfmc.traces.readers.format import Options
from mfmc.traces.source import Source

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


def objects(format):
    """A small well-formed file of every JSON format, as rows to mutate."""
    hashes = [[0, 1], [0, 1, 2, 3], [7], [0, 1, 2, 4, 5]]
    lengths = [(900, 20), (1700, 30), (100, 5), (2400, 7)]
    match format:
        case "mooncake":
            return [
                {"timestamp": 1000 * i, "input_length": a, "output_length": b, "hash_ids": h}
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "qwen_bailian":
            return [
                {
                    "chat_id": i,
                    "parent_chat_id": i - 1 if i else -1,
                    "timestamp": i / 2,
                    "input_length": a,
                    "output_length": b,
                    "type": "text",
                    "turn": i + 1,
                    "hash_ids": h,
                }
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "ragpulse":
            return [
                {
                    "timestamp": str(i),
                    "input_length": a,
                    "output_length": b,
                    "session_id": f"s{i % 2}",
                    "hash_ids": {
                        "sys_prompt": h,
                        "passages_ids": [],
                        "history": [1],
                        "web_search": [],
                        "user_input": [i],
                    },
                }
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "tracelab":
            return [
                {
                    "session_id": "s",
                    "round_index": i,
                    "round_id": "r",
                    "input_tokens_total": a,
                    "prefix_tokens": a // 2,
                    "newly_append_tokens": a - a // 2,
                    "output_tokens": b,
                    "first_input_event_type": "user_message",
                    "timing_events": [
                        {"event_type": "user_message", "timestamp": f"2026-06-01T05:40:2{i}.151Z"}
                    ],
                }
                for i, (a, b) in enumerate(lengths)
            ]
        case "lmcache_agent":
            return [
                {
                    "timestamp": 10**15 + 10**6 * i,
                    "session_id": f"s{i % 2}",
                    "input": "a" * a,
                    "output": "b" * b,
                }
                for i, (a, b) in enumerate(lengths)
            ]
        case "kv_cache_tester":
            return [
                {
                    "id": "t",
                    "block_size": 64,
                    "requests": [
                        {
                            "t": float(i),
                            "type": "n",
                            "in": a,
                            "out": b,
                            "hash_ids": h,
                            "input_types": ["text"],
                        }
                        for i, ((a, b), h) in enumerate(zip(lengths, hashes))
                    ]
                    + [{"type": "subagent", "requests": [{"t": 1.0, "in": 64, "out": 1, "hash_ids": [1]}]}],
                }
            ]
        case "sharegpt":
            talk = [{"from": "human", "value": "abcd"}, {"from": "gpt", "value": "efgh"}]
            return [{"id": f"x_{i}", "conversations": talk * i} for i in range(4)]
        case "vllm_multi_turn":
            talk = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": "efgh"}]
            return [{"id": f"x{i}", "messages": talk * i} for i in range(4)]


JSON_FORMATS = (
    "mooncake",
    "qwen_bailian",
    "ragpulse",
    "tracelab",
    "lmcache_agent",
    "kv_cache_tester",
    "sharegpt",
    "vllm_multi_turn",
)
CSV_FILES = {
    "burstgpt": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Type\n"
    "5,1,1,GPT,100,20,120,x\n9,1,1,GPT,130,3,133,x\n9,,1,GPT,10,5,15,x\n",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,100,10\n0.2,90,9\n0.3,80,8\n",
    "agentic_steps": "trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens\n"
    "a,0,human,0.0,0.0,7.3,1000,0,169\na,1,tool,19.0,12.0,9.1,1200,960,296\nb,0,human,0.0,0.0,1.0,50,0,1\n",
    "sharegpt_turns": "conv,turn,prompt_tokens,response_tokens\n0,0,34,244\n0,1,36,320\n1,0,0,5\n2,0,9,1\n",
    "generic": "session_id,timestamp,input_length,output_length\n1,1700000000,10,5\n"
    "1,1700000009,30,5\n2,1700000001,5,5\n",
}


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


# What longer campaigns found, one example each.


def read_text(path, text, **options):
    path.write_text(text)
    return read_trace(path, **options)


def test_offsets_of_time_zones_count(tmp_path):
    """duckdb casts a text with an offset to TIMESTAMP by forgetting the offset."""
    header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    trace = read_text(
        tmp_path / "a.csv", header + "2024-03-31 01:59:59+01:00,9,1\n2024-03-31 03:00:01+02:00,9,1\n"
    )
    assert trace.submitted_at.tolist() == [0, 2] and trace.origin == 1_711_846_799


def test_one_odd_time_does_not_decide_for_the_column(tmp_path):
    header = "session_id,timestamp,input_length,output_length\n"
    trace = read_text(tmp_path / "a.csv", header + "a,soon,9,1\na,\x0c5,9,1\na,7,9,1\na,8,9,1\n")
    assert trace.submitted_at.tolist() == [5, 7, 8] and trace.rejections.count == 1


def test_quoted_line_breaks_make_no_rows_of_their_own(tmp_path):
    header = "session_id,text,timestamp,input_length,output_length\n"
    rows = 'a,"one\nb,two,7,70,7\n",1,10,1\na,three,2,x,1\na,four,3,30,1\n'
    trace = read_text(tmp_path / "a.csv", header + rows)
    assert trace.input_tokens.tolist() == [10, 30] and trace.source_row.tolist() == [1, 3]
    assert trace.rejections.rows_read == 3
    with pytest.raises(InputError, match="CR alone"):
        read_text(tmp_path / "a.csv", (header + "a,b,1,1,1\n").replace("\n", "\r"))


@pytest.mark.parametrize("hashes", ["[0, 1.5]", "[true, 1]", "[1e-320, 1]", "[0, null]", "5", "[[1], 2]"])
@pytest.mark.parametrize("format", ["mooncake", "qwen_bailian", "ragpulse"])
def test_block_hashes_that_are_no_whole_numbers_are_not_rounded(tmp_path, format, hashes):
    text = [json.dumps(row) for row in objects(format)]
    whole = json.dumps(objects(format)[1]["hash_ids"])
    bad = hashes if format != "ragpulse" or hashes == "5" else f'{{"history": {hashes}, "user_input": ["3", 4]}}'
    text[1] = text[1].replace(whole, bad)
    trace = read_text(tmp_path / "a.jsonl", "\n".join(text), format=format)
    assert {reason: entry.first_rows for reason, entry in trace.rejections.by_reason.items()} == {
        "block hashes missing or not whole numbers": [2]
    }


def test_identifiers_in_every_number_type(tmp_path):
    """Beyond 63 bits, and whole numbers that became decimals because some were missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    times = [f"2024-01-01T00:00:0{i}Z" for i in range(3)]
    lengths = {"input_length": [5, 9, 14], "output_length": [1, 1, 1], "timestamp": times}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"session_id": pa.array([2**63 + 1, 2**63 + 1, 7], pa.uint64()), **lengths}), path)
    trace = read_trace(path)
    assert trace.lengths.tolist() == [2, 1] and trace.gaps().observed.tolist() == [1]
    del lengths["timestamp"]
    pq.write_table(pa.table({"chat_id": [10, 11, 12], "parent_chat_id": [None, 10.0, 11.0], **lengths}), path)
    assert read_trace(path).lengths.tolist() == [3]


def test_odd_types_of_parquet_columns_are_not_called_damage(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"kind": [True, False], "input_length": [5, 6], "output_length": [True, False]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="2 x response length missing or not a number"):
        read_trace(tmp_path / "a.parquet")


def test_a_trace_of_our_own_that_somebody_edited_is_refused(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    read_text(tmp_path / "a.csv", CSV_FILES["vidur"]).to_parquet(path)
    assert len(read_trace(path)) == 3
    pq.write_table(pq.read_table(path).slice(1), path)  # keeps the metadata
    with pytest.raises(InputError, match=r"its contents changed.*generic reads any Parquet"):
        read_trace(path)
    assert len(read_trace(path, format="generic")) == 2


def test_ids_of_dialogues(tmp_path):
    def talks(key, *names):
        who, text = ("from", "value") if key == "conversations" else ("role", "content")
        talk = [{who: "human", text: "abcd"}, {who: "gpt", text: "efgh"}]
        return json.dumps([{"id": name, key: talk} for name in names])

    path = tmp_path / "a.json"
    # vLLM's generator numbers its conversations; nothing there comes in parts.
    assert read_text(path, talks("messages", "CONV_ID_0", "CONV_ID_1")).lengths.tolist() == [1, 1]
    numbered = [f"identity_{i}" for i in range(20)]
    assert read_text(path, talks("conversations", *numbered, "x_0", "x_1")).lengths.size == 22
    some = [f"y{i}_0" for i in range(20)]
    assert read_text(path, talks("conversations", *some, "x_0", "x_1")).lengths.size == 21
    twice = read_text(path, talks("conversations", "x_0", "x_1", "x_0", "x_" + "9" * 5000))
    assert twice.lengths.tolist() == [2, 1] and twice.rejections.by_reason.keys() == {
        "message of a conversation whose id an earlier one has"
    }


def test_sessions_without_an_id_are_no_repetitions(tmp_path):
    session = json.dumps(objects("kv_cache_tester")[0] | {"id": ""}) + "\n"
    trace = read_text(tmp_path / "a.jsonl", session + "{\n" + session, format="kv_cache_tester")
    assert trace.lengths.tolist() == [4, 1, 4, 1]
    assert trace.rejections.by_reason["line is not JSON"].first_rows == [7]  # after four turns, a subagent's and it


def test_a_turn_without_a_token_is_none(tmp_path):
    trace = read_text(tmp_path / "a.csv", CSV_FILES["sharegpt_turns"] + "2,1,0,0\n2,2,0,3\n")
    assert len(trace) == 5 and trace.rejections.by_reason["turn of 0 tokens"].first_rows == [5]


@pytest.mark.parametrize("format", ["mooncake", "vidur"])
def test_a_file_that_fails_while_it_is_read(tmp_path, format):
    path = tmp_path / "a"
    path.write_text(CSV_FILES.get(format) or json.dumps(objects("mooncake")[0]))
    source = Source.open(path)
    assert FORMATS[format].detect(source)
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        FORMATS[format].read(source, Options())
