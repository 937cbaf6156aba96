"""What long campaigns of mutated files found in the readers, one example each."""

from __future__ import annotations

import json

import pytest
from small_traces import CSV_FILES, objects

from mfmc.errors import InputError
from mfmc.traces import FORMATS, read_trace
from mfmc.traces.readers.format import Options
from mfmc.traces.source import Source

pytest.importorskip("duckdb")


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
