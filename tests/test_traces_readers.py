"""Every format from files that the test writes itself: what is read, what is refused, and in which words."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.traces import FORMATS, read_trace
from mfmc.traces.table import APPENDED, BRANCH, FIRST, REWRITTEN, SHORTENED, SHRUNK

duckdb = pytest.importorskip("duckdb")


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def balanced(trace):
    return trace.rejections.rows_kept + trace.rejections.count == trace.rejections.rows_read


MOONCAKE = [
    {"timestamp": 0, "input_length": 1100, "output_length": 100, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1000, "output_length": 9, "hash_ids": [0, 3]},
    {"timestamp": 9000, "input_length": 1700, "output_length": 80, "hash_ids": [0, 1, 4, 5]},
    {"timestamp": 9000, "input_length": 2300, "output_length": 7, "hash_ids": [0, 1, 4, 6, 7]},
    {"timestamp": 9500, "input_length": 1300, "output_length": 1, "hash_ids": [0, 1, 8]},
]


def test_mooncake_chains_and_branches(tmp_path):
    trace = read_trace(lines(tmp_path / "a.jsonl", MOONCAKE))
    assert trace.format == "mooncake" and trace.lengths.tolist() == [4, 1]
    # Rows 3 and 5 continue row 1; row 4 continues row 3, as block 4 is its last full one. Row 5 branches.
    assert trace.source_row.tolist() == [1, 3, 4, 5, 2]
    assert trace.context.tolist() == [FIRST, APPENDED, APPENDED, BRANCH, FIRST]
    assert trace.history_tokens.tolist() == [0, 1200, 1780, 1200, 0]
    assert trace.submitted_at.tolist() == [0, 9, 9, 9.5, 3]
    table = trace.conversations(512)
    assert table.conversation.tolist() == [0, 0, 0, 1, 2]
    assert table.prompt_tokens.tolist() == [1100, 500, 520, 1300, 1000]


def test_fan_out_limit_keeps_a_common_beginning_from_chaining(tmp_path):
    rows = [{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}]
    rows += [
        {"timestamp": i, "input_length": 700 + 2 * i, "output_length": 1, "hash_ids": [0, 1 + i]}
        for i in range(1, 40)
    ]
    path = lines(tmp_path / "a.jsonl", rows)
    assert read_trace(path).lengths.size == 40
    assert read_trace(path, fan_out_limit=100).lengths.size == 1
    assert [row["sessions"] for row in read_trace(path).sensitivity][-1] == 1


def test_qwen_bailian_parents(tmp_path):
    def row(chat, parent, t, prompt, response, first):
        hashes = [first + i for i in range(-(-prompt // 16))]
        return {
            "chat_id": chat,
            "parent_chat_id": parent,
            "timestamp": t,
            "input_length": prompt,
            "output_length": response,
            "type": "text",
            "turn": 1,
            "hash_ids": hashes,
        }

    rows = [
        row(10, -1, 0.5, 100, 10, 0),
        row(11, 10, 4.5, 150, 10, 0),
        row(12, 10, 5.0, 160, 10, 0),  # a branch
        row(13, 99, 6.0, 50, 10, 500),  # its parent is not in the file
        row(14, 14, 7.0, 60, 10, 700),  # its own parent
        row(11, 10, 8.0, 151, 10, 0),  # an id that is taken
        row(15, 13, 9.0, 90, 5, 900),  # shares nothing with its parent
    ]
    trace = read_trace(lines(tmp_path / "q.jsonl", rows))
    assert trace.format == "qwen_bailian" and balanced(trace) and trace.rejections.rows_read == 7
    assert list(trace.rejections.by_reason) == ["chat id that an earlier row has"]
    assert trace.lengths.tolist() == [3, 2, 1]
    assert trace.context.tolist() == [FIRST, APPENDED, BRANCH, FIRST, REWRITTEN, FIRST]
    assert trace.history_tokens.tolist() == [0, 110, 110, 0, 0, 0]
    assert trace.treatments["rows whose parent is not in the file: begin a conversation"] == 1
    assert trace.treatments["rows whose parent comes later: begin a conversation"] == 1


def test_burstgpt_blank_sessions_and_strings(tmp_path):
    path = tmp_path / "b.csv"
    path.write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,7,1.5,ChatGPT,100,20,120,Conversation log\n"
        "45,7,1.5,ChatGPT,130,0,130,Conversation log\n"
        "50,,1.5,GPT-4,10,5,15,API log\n"
        "50,,1.5,GPT-4,10,5,15,API log\n"
        "60,7,1.5,ChatGPT,-3,5,2,Conversation log\n"
        "61,7,1.5,ChatGPT,12.5,5,2,Conversation log\n"
        "\n"
        "62,7,1.5,ChatGPT\n"
    )
    trace = read_trace(path)
    assert trace.format == "burstgpt" and balanced(trace) and trace.rejections.rows_read == 7
    assert {r: e.first_rows for r, e in trace.rejections.by_reason.items()} == {
        "prompt length negative": [5],
        "prompt length not a whole number": [6],
        "line does not have the header's 8 fields": [7],
    }
    assert trace.lengths.tolist() == [2, 1, 1]  # equal rows without a session are two requests
    assert trace.treatments["rows with a blank session id: a conversation each"] == 2
    assert trace.treatments["responses of 0 tokens, kept"] == 1
    gaps = trace.gaps()
    assert gaps.observed.tolist() == [40] and gaps.censored.sum() == 3


def test_azure_and_vidur(tmp_path):
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\r\n"
        "2024-05-10 00:00:01.509930+00:00,2399,6\r\n"
        "yesterday,1,1\r\n"
    )
    trace = read_trace(azure)
    assert trace.format == "azure" and np.diff(trace.submitted_at)[0] == pytest.approx(1.5, abs=1e-5)
    assert trace.origin == 1715299200 and list(trace.rejections.by_reason) == ["time missing or unreadable"]
    vidur = tmp_path / "vidur.csv"
    vidur.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0.25,100,10\n0.5,7,3\n")
    assert read_trace(vidur).submitted_at.tolist() == [0.25, 0.5]


def test_agentic_steps_contexts(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text(
        "trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens\n"
        "a,0,human,0,0,1,1000,0,100\n"
        "a,1,tool,9,1,1,1150,960,40\n"  # appended
        "a,2,tool,20,1,,1170,1088,0\n"  # the response was kept in part
        "a,3,human,30,,1,1400,64,10\n"  # rewritten
        "a,4,human,40,1,1,500,448,10\n"  # shrunk
        "a,4,human,41,1,1,600,448,10\n"  # a second row for turn 4
    )
    trace = read_trace(path)
    assert trace.context.tolist() == [FIRST, APPENDED, SHORTENED, REWRITTEN, SHRUNK]
    assert trace.history_tokens.tolist() == [0, 1100, 1170, 64, 448]
    assert list(trace.rejections.by_reason) == ["turn that its conversation already has"]
    table = trace.conversations(64)
    assert table.conversation.tolist() == [0, 0, 0, 1, 2]
    assert table.prompt_tokens.tolist() == [1000, 50, 0, 1400, 500]
    assert table.response_tokens.tolist() == [100, 20, 0, 10, 10]  # of 40 tokens the next prompt kept 20


def test_kv_cache_tester_subagents(tmp_path):
    def request(t, prompt, response, **more):
        return {
            "t": t,
            "type": "n",
            "in": prompt,
            "out": response,
            "hash_ids": list(range(prompt // 64)),
        } | more

    session = {
        "id": "s1",
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": [
            request(0.0, 640, 10, input_types=["text"], api_time=1.0),
            {"type": "subagent", "t": 3.0, "requests": [request(3.0, 200, 5), request(8.0, 300, 5)]},
            request(9.0, 700, 0, input_types=["tool_result"], api_time=1.0),
            {"type": "n", "t": 10.0, "out": 4},
        ],
    }
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(session))
    (folder / "two.json.gz").write_bytes(gzip.compress(json.dumps(session | {"id": "s2"}).encode()))
    (folder / "three.json").write_text(json.dumps(session))
    trace = read_trace(folder)
    assert trace.format == "kv_cache_tester" and trace.lengths.tolist() == [2, 2, 2, 2]
    assert balanced(trace) and trace.rejections.rows_kept == len(trace) == 8
    assert trace.treatments["subagents with requests of their own: a conversation each"] == 2
    assert trace.rejections.by_reason["session id that an earlier session has"].count == 4
    assert trace.clock == "per conversation" and not trace.gaps().censored.any()
    assert read_trace(folder / "one.json").kind.tolist() == [1, 2, 0, 0]


def test_ragpulse_string_times_and_nested_hashes(tmp_path):
    def row(t, session, prompt, passages):
        hashes = {
            "sys_prompt": [1, 2],
            "passages_ids": passages,
            "history": [],
            "web_search": [],
            "user_input": [t],
        }
        return {
            "timestamp": str(t),
            "input_length": prompt,
            "output_length": 10,
            "hash_ids": hashes,
            "session_id": session,
        }

    rows = [row(10, "a", 100, [5]), row(50, "a", 200, [6, 7]), row(20, "b", 100, [5]), row(20, "", 90, [5])]
    path = lines(tmp_path / "r.jsonl", rows)
    path.write_text(path.read_text() + "\n")
    trace = read_trace(path)
    assert trace.format == "ragpulse" and trace.lengths.tolist() == [2, 1, 1]
    assert trace.context.tolist() == [FIRST, REWRITTEN, FIRST, FIRST]
    assert trace.treatments["rows out of time order: sorted"] == 1


ROUND = {"provider": "x", "round_id": "r", "output_tokens": 10, "first_input_event_type": "user_message"}


def tracelab_rows():
    def events(*moments):
        kinds = ("user_message", "text", "tool_call")
        return [
            {"event_type": k, "timestamp": f"2026-06-01T05:{m:02d}:00.5Z"} for k, m in zip(kinds, moments)
        ]

    base = {"session_id": "s", "newly_append_tokens": 50}
    return [
        ROUND
        | base
        | {"round_index": 1, "input_tokens_total": 150, "prefix_tokens": 100, "timing_events": events(3, 4)},
        ROUND
        | base
        | {"round_index": 0, "input_tokens_total": 50, "prefix_tokens": 0, "timing_events": events(1, 2)},
        ROUND
        | base
        | {"round_index": 1, "input_tokens_total": None, "prefix_tokens": 150, "timing_events": []},
    ]


def test_tracelab_lines_and_duckdb_agree(tmp_path):
    rows = tracelab_rows()
    trace = read_trace(lines(tmp_path / "t.jsonl", rows))
    assert trace.format == "tracelab" and trace.source_row.tolist() == [
        2,
        1,
        3,
    ]  # by round_index, then file order
    assert trace.input_tokens.tolist() == [50, 150, 200]
    assert trace.gaps().observed.tolist() == [120]  # the third round has no time
    database = tmp_path / "t.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE rounds (round_pk BIGINT, ingest_seq BIGINT, session_id VARCHAR, round_index BIGINT,"
            " input_tokens_total BIGINT, prefix_tokens BIGINT, newly_append_tokens BIGINT, output_tokens"
            " BIGINT,"
            " first_input_event_type VARCHAR)"
        )
        connection.execute(
            'CREATE TABLE timing_events (round_pk BIGINT, event_type VARCHAR, "timestamp" VARCHAR)'
        )
        for key, row in enumerate(rows):
            names = (
                "session_id",
                "round_index",
                "input_tokens_total",
                "prefix_tokens",
                "newly_append_tokens",
                "output_tokens",
                "first_input_event_type",
            )
            values = [key, key, *(row[name] for name in names)]
            connection.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            for event in row["timing_events"]:
                connection.execute("INSERT INTO timing_events VALUES (?, ?, ?)", [key, *event.values()])
    other = read_trace(database)
    for name in ("turn", "submitted_at", "history_tokens", "new_prompt_tokens", "kind", "source_row"):
        np.testing.assert_array_equal(other.column(name), trace.column(name))
    with duckdb.connect(str(tmp_path / "no.duckdb")) as connection:
        connection.execute("CREATE TABLE other (x INT)")
    with pytest.raises(InputError, match="no table 'rounds'"):
        read_trace(tmp_path / "no.duckdb")


def test_lmcache_agent_microseconds(tmp_path):
    start = 1_700_000_000_000_000
    rows = [
        {"timestamp": start + 9_000_000, "session_id": "a", "input": "x" * 80, "output": "y" * 8},
        {"timestamp": start, "session_id": "a", "input": "x" * 40, "output": "y" * 20},
        {"timestamp": start, "session_id": "b", "input": [{"role": "user", "content": "hi"}], "output": ""},
        {"timestamp": start, "session_id": "a", "prompt_tokens": 10, "completion_tokens": "5"},
        {"timestamp": "soon", "session_id": "a", "input": "x", "output": "y"},
    ]
    trace = read_trace(lines(tmp_path / "l.jsonl", rows), characters_per_token=4)
    assert trace.format == "lmcache_agent" and balanced(trace)
    assert sorted(trace.lengths.tolist()) == [1, 2]
    assert trace.gaps().observed.tolist() == [9.0]
    # Row 4 repeats row 2 in session, time and lengths.
    assert trace.rejections.by_reason["exact repetition of an earlier row"].first_rows == [4]
    assert any("4 to a token" in line for line in trace.evidence)


def test_sharegpt_json_joins_parts(tmp_path):
    def say(who, text):
        return {"from": who, "value": text}

    items = [
        {"id": "x_1", "conversations": [say("human", "e" * 12), say("gpt", "f" * 8)]},
        {"id": "x_0", "conversations": [say("human", "a" * 4), say("gpt", "b" * 8), say("human", "c" * 16)]},
        {"id": "y", "conversations": []},
        {"id": "z_0", "conversations": [say("gpt", "g" * 4), say("human", "")]},
        {"id": "w"},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps(items))
    trace = read_trace(path)
    assert trace.format == "sharegpt" and trace.lengths.tolist() == [3, 1] and balanced(trace)
    assert trace.new_prompt_tokens.tolist() == [1, 4, 3, 0]
    assert trace.response_tokens.tolist() == [2, 0, 2, 1]
    assert trace.history_tokens.tolist() == [0, 3, 7, 0]
    assert trace.treatments["turns of 0 tokens: left out"] == 1  # an empty prompt without an answer
    assert trace.treatments["split conversations (ids X_0, X_1, ..): joined"] == 1
    assert trace.treatments["conversations without a message"] == 1
    words = read_trace(path, tokenizer=lambda text: len(text))
    assert words.new_prompt_tokens.tolist() == [4, 16, 12, 0]
    # A file that breaks off keeps what came before.
    path.write_text(json.dumps(items)[:-70])
    cut = read_trace(path)
    assert cut.lengths.tolist() == [3] and cut.rejections.count == 1 and balanced_rows(cut)


def balanced_rows(trace):
    return trace.rejections.rows_kept + trace.rejections.count == trace.rejections.rows_read


def test_vllm_multi_turn(tmp_path):
    items = [
        {
            "id": "c",
            "messages": [
                {"role": "system", "content": "s" * 8},
                {"role": "user", "content": [{"type": "text", "text": "u" * 8}]},
                {"role": "assistant", "content": "a" * 4},
                {"role": "tool", "content": "t" * 4},
                {"role": "assistant", "content": "b" * 4},
            ],
        }
    ]
    path = tmp_path / "v.json"
    path.write_text(json.dumps(items))
    trace = read_trace(path)
    assert trace.format == "vllm_multi_turn" and trace.new_prompt_tokens.tolist() == [4, 1]
    assert trace.kind.tolist() == [1, 2]


def test_generic_columns_units_and_messages(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text("who,when,all,said\n7,1700000000000,10,1\n7,1700000005000,20,1\n8,1700000001000,5,2\n")
    columns = {
        "conversation": "who",
        "submitted_at": "when",
        "input_tokens": "all",
        "response_tokens": "said",
    }
    trace = read_trace(path, columns=columns)
    assert trace.gaps().observed.tolist() == [5.0] and trace.origin == 1_700_000_000
    assert any("counted in ms" in line for line in trace.evidence)
    assert read_trace(path, columns=columns, time_unit="us").gaps().observed[0] == pytest.approx(0.005)
    with pytest.raises(InputError, match=r"no column .whn'.*did you mean when"):
        read_trace(path, columns=columns | {"submitted_at": "whn"})
    with pytest.raises(InputError, match=r"columns\.input is no role.*did you mean input_tokens"):
        read_trace(path, columns={"input": "all"})
    with pytest.raises(InputError, match=r"no known format.*the first line is 'who,when"):
        read_trace(path)
    with pytest.raises(InputError, match="did you mean mooncake"):
        read_trace(path, format="moncake")
    with pytest.raises(InputError, match="time_unit"):
        read_trace(path, columns=columns, time_unit="min")


def test_generic_parquet_with_dates_and_text_ids(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "session_id": ["b", "a", None, "b"],
            "timestamp": pa.array([5_000, 0, 1_000, 9_000], pa.timestamp("ms")),
            "input_length": [5, 10, 7, 1],
            "output_length": [1.0, 2.0, 1.0, float("nan")],
        }
    )
    pq.write_table(table, tmp_path / "[odd] name?.parquet")
    trace = read_trace(tmp_path / "[odd] name?.parquet")
    assert trace.format == "generic" and trace.source_row.tolist() == [1, 2, 3]
    assert trace.submitted_at.tolist() == [5, 0, 1] and trace.rejections.count == 1


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_damaged_compression_keeps_what_came_before(tmp_path, compression):
    rows = [dict(MOONCAKE[1], timestamp=i, hash_ids=[i, 10_000 + 7 * i]) for i in range(5_000)]
    plain = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if compression == "gzip":
        data = gzip.compress(plain)
    else:
        data = pytest.importorskip("zstandard").compress(plain)
    whole = tmp_path / "whole"
    whole.write_bytes(data)
    assert len(read_trace(whole)) == 5_000
    cut = tmp_path / "cut"
    cut.write_bytes(data[: int(0.8 * len(data))])
    trace = read_trace(cut)
    assert 1_000 < len(trace) < 5_000 and balanced(trace)
    assert any("cut short" in line for line in trace.evidence)
    reasons = set(trace.rejections.by_reason)
    assert reasons <= {"line cut off where the file is damaged"}


def test_clean_and_line_by_line_csv_agree(tmp_path):
    """The fast scan and the slow one give the same table, row numbers included."""
    rows = [f"{i % 7},{i},{10 + i},{i % 3}" for i in range(500)]
    header = "conversation,submitted_at,input_tokens,response_tokens"
    clean, broken = tmp_path / "clean.csv", tmp_path / "broken.csv"
    clean.write_text("\n".join([header, *rows]) + "\n")
    broken.write_text("\n".join([header, *rows, "1,2", '3,"4,5,6']) + "\n")
    fast, slow = read_trace(clean), read_trace(broken)
    assert fast.rejections.count == 0 and slow.rejections.count == 2
    for name in fast.table.column_names:
        np.testing.assert_array_equal(fast.column(name), slow.column(name))


def test_files_that_are_none(tmp_path):
    def refuse(name, data, match, **options):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(InputError, match=match) as caught:
            read_trace(path, **options)
        assert "\n" not in str(caught.value)

    refuse("empty", b"", "the file is empty")
    refuse("blank", b"\n\n  \n", "nothing but blank lines")
    refuse("utf16", '{"timestamp": 1}'.encode("utf-16"), "UTF-16")
    refuse("binary", bytes(range(256)), "no known format|cannot be read")
    refuse("parquet", b"PAR1 broken", "not a readable Parquet")
    refuse("duck", b"\0" * 8 + b"DUCK" + b"\0" * 64, "not a readable TraceLab DuckDB file")
    refuse("header.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "no row can be used")
    refuse("keys.jsonl", b'{"a": 1}\n', "JSON with keys a")
    with pytest.raises(InputError, match="cannot be read"):
        read_trace(tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="a folder without JSON files"):
        read_trace(tmp_path / "folder")
    assert len(FORMATS) == 14


def test_parquet_with_a_number_that_is_none_keeps_whole_columns(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "odd.parquet"
    columns = {"session_id": [3, 8], "timestamp": [7, 5], "input_length": [2, 7], "output_length": [float("nan"), 3.0]}
    pq.write_table(pa.table(columns), path)
    trace = read_trace(path)
    assert trace.rejections.by_reason.keys() == {"response length not finite"}
    assert trace.column("response_tokens").dtype == trace.column("new_prompt_tokens").dtype == np.int32


def test_half_a_surrogate_pair_names_a_session(tmp_path):
    path = tmp_path / "agent.jsonl"
    row = '{"timestamp": 1000000000000000, "session_id": "\\ud83d", "input": "abcd", "output": "ef"}'
    path.write_text(row + "\n")
    assert len(read_trace(path, format="lmcache_agent", characters_per_token=1.0)) == 1
