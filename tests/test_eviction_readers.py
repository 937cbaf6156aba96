"""Reading steps: CSV, rounds as JSONL and as DuckDB, and what is wrong with real files."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.eviction import (
    Steps,
    steps_from_arrays,
    steps_from_csv,
    steps_from_file,
    steps_from_rounds_jsonl,
    steps_from_trace,
)

HEADER = "trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens\n"


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_of_steps(tmp_path: Path) -> None:
    rows = "b,1,tool,9,2.5,,30,10,4\na,0,human,0,0,1.5,7,0,1\nb,0,human,0,,3,20,0,5\n"
    steps = steps_from_csv(_write(tmp_path / "steps.csv", HEADER + rows))
    assert steps.session.tolist() == [0, 0, 1]  # grouped, and in the order of the column step
    assert steps.total.tolist() == [20, 30, 7] and steps.fresh.tolist()[1] == 5
    assert steps.gap[1] == 2.5 and math.isnan(steps.gap[0]) and math.isnan(steps.generation[1])
    assert [steps.kinds[k] for k in steps.kind] == ["human", "tool", "human"]


def test_csv_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    rows = "a,0,human,0,,1,10,0,1\na,1,tool,1,2,1,oops,0,1\na,2,tool,1,2,1,30,10,1\n"
    rows += ",3,tool,1,2,1,30,10,1\na,4,tool,1,-2,1,30,40,1\na,5\n"
    steps = steps_from_csv(_write(tmp_path / "steps.csv", HEADER + rows))
    assert len(steps) == 5
    assert steps.coverage().covered == 0 and steps.coverage().without_tokens == 3
    assert steps.coverage().without_gap == 1  # the negative one
    assert steps.rejected == {
        "token counts unreadable (step kept, not counted)": 2,
        "row without a session (dropped)": 1,
        "prefix outside the prompt (cut to it)": 1,
        "gap negative or infinite (ignored)": 1,
    }


def test_csv_cut_off_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv.gz"
    text = HEADER + "".join(f"a,{i},tool,0,{i}.{i * 7919 % 997},1,{100 + i},{i},1\n" for i in range(3000))
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    steps = steps_from_csv(path)
    assert 100 < len(steps) < 3000
    assert steps.rejected["compressed file cut off (read up to there)"] == 1


def test_csv_errors_name_the_file_and_the_column(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"steps.csv: no column in_tokens, think_time_s; the header has trace"
    ):
        steps_from_csv(_write(tmp_path / "steps.csv", "trace,out_tokens\na,1\n"))
    with pytest.raises(InputError, match="no row"):
        steps_from_csv(_write(tmp_path / "steps.csv", HEADER))
    with pytest.raises(InputError, match="no such file"):
        steps_from_csv(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="header has nothing"):
        steps_from_csv(_write(tmp_path / "steps.csv", ""))


def test_csv_with_other_names(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.csv", "chat,prompt,answer,idle\nc,10,2,\nc,15,2,4\n")
    names = {"session": "chat", "total": "prompt", "output": "answer", "gap": "idle"}
    steps = steps_from_csv(path, names)
    assert steps.prefix is None and steps.fresh.tolist()[1] == 3 and steps.covered.tolist() == [False, True]


def test_arrays_of_unequal_length() -> None:
    with pytest.raises(InputError, match="column gap has 1 rows, expected 2"):
        steps_from_arrays(["a", "a"], total=[1, 2], output=[1, 2], gap=[1.0])
    with pytest.raises(InputError, match="empty"):
        steps_from_arrays([], total=[], output=[], gap=[])


# Rounds


def _event(kind: str, second: float | None, call: str | None = None) -> dict[str, Any]:
    return {"event_type": kind, "timestamp": None if second is None else _stamp(second), "tool_call_id": call}


def _stamp(second: float) -> str:
    return f"2026-06-01T05:{int(second) // 60:02d}:{second % 60:06.3f}Z"


def _tool(call: str, emitted: float, result: float | None) -> dict[str, Any]:
    return {
        "tool_call_id": call,
        "emitted_at": _stamp(emitted),
        "result_at": None if result is None else _stamp(result),
    }


def _rounds() -> list[dict[str, Any]]:
    """Two sessions that repeat their round ids, and repeat a round_index; one round out of order."""
    claude = {"provider": "claude", "session_id": "s", "round_id": "same"}
    codex = {"provider": "codex", "session_id": "s", "round_id": "same"}
    return [
        # human at 0 s; decodes 0 to 4 s; calls two tools, the slower takes 9.5 s
        claude
        | {"round_index": 0, "prefix_tokens": 0, "newly_append_tokens": 100, "output_tokens": 10}
        | {"timing_events": [_event("user_message", 0), _event("reasoning", 2), _event("tool_call", 4, "t1")]}
        | {"tools": [_tool("t1", 4, 6), _tool("t2", 4.25, 13.75)]},
        # out of order in the file: a human at 100 s, after the last activity at 20 s
        claude
        | {"round_index": 2, "prefix_tokens": 150, "newly_append_tokens": 50, "output_tokens": 5}
        | {"timing_events": [_event("user_message", 100), _event("text", 103.5)], "tools": []},
        # answers both tools, then a third result that is not in the lead
        claude
        | {"round_index": 1, "prefix_tokens": 110, "newly_append_tokens": 40, "output_tokens": 8}
        | {
            "timing_events": [
                _event("tool_result", 6, "t1"),
                _event("tool_result", 13.75, "t2"),
                _event("text", 15),
                _event("tool_result", 19, "t3"),
            ],
            "tools": [_tool("t3", 15, 20)],
        },
        # the same round_index again: ingest order decides; its own tool is not what it waited for
        claude
        | {"round_index": 2, "prefix_tokens": 200, "newly_append_tokens": 20, "output_tokens": 1}
        | {"timing_events": [_event("tool_result", 104, "own"), _event("text", 105)]}
        | {"tools": [_tool("own", 103, 104)]},
        # another provider with the same session id: not the same session
        codex
        | {"round_index": 0, "prefix_tokens": 5, "newly_append_tokens": 5, "output_tokens": 1}
        | {"timing_events": [_event("user_message", 0), _event("text", 1)]}
        | {"tools": [_tool("gone", 1, None), _tool("back", 2, 1)]},
        # its tools have no result, or one before the call: no gap
        codex
        | {"round_index": 1, "prefix_tokens": 5, "newly_append_tokens": 15, "output_tokens": 1}
        | {
            "timing_events": [
                _event("tool_result", 3, "gone"),
                _event("tool_result", 3, "back"),
                _event("tool_result", 3, "unheard"),
            ]
        }
        | {"tools": []},
        # begins before the last activity of its predecessor: no gap
        codex
        | {"round_index": 2, "prefix_tokens": 20, "newly_append_tokens": 1, "output_tokens": 1}
        | {"timing_events": [_event("user_message", 2), _event("text", None)], "tools": []},
        # tokens unknown, and then a successor of a step of unknown size
        codex
        | {"round_index": 3, "prefix_tokens": None, "newly_append_tokens": 1, "output_tokens": 1}
        | {"timing_events": [_event("user_message", 8), _event("text", 9)], "tools": []},
        codex
        | {"round_index": 4, "prefix_tokens": 30, "newly_append_tokens": 1, "output_tokens": 1}
        | {"timing_events": [_event("user_message", 10), _event("text", 11)], "tools": []},
        {"provider": "codex", "session_id": None, "round_index": 0, "timing_events": [], "tools": []},
    ]


def _check(steps: Steps) -> None:
    assert steps.session.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert steps.total.tolist() == [100, 150, 200, 220, 10, 20, 21, 0, 31]
    gap = [None, 9.5, 80.0, None, None, None, None, 6.0, 1.0]
    assert [None if math.isnan(g) else g for g in steps.gap.tolist()] == gap
    spans = [4.0, 1.25, 3.5, 1.0, 1.0, None, None, 1.0, 1.0]
    assert [None if math.isnan(g) else g for g in steps.generation.tolist()] == spans
    assert steps.fresh.tolist()[1:4] == [40, 42, 15]
    assert steps.coverage().covered == 2 and steps.coverage().without_tokens == 2
    assert steps.rejected["round without session_id or round_index (dropped)"] == 1
    assert steps.rejected["token counts unreadable (step kept, not counted)"] == 1
    assert steps.providers == ("claude", "codex") and steps.kinds == ("human", "tool")


def test_rounds_as_jsonl(tmp_path: Path) -> None:
    text = "\n".join(json.dumps(row) for row in _rounds()) + '\n\n{"provider": "cl'
    steps = steps_from_file(_write(tmp_path / "rounds.jsonl", text))
    _check(steps)
    assert steps.rejected["line that is not a JSON object (dropped)"] == 1


@pytest.mark.parametrize("stored", ["TIMESTAMP", "VARCHAR", "TIMESTAMPTZ"])
def test_rounds_as_duckdb(tmp_path: Path, stored: str) -> None:
    """Ids repeat, rows are stored in another order than they came in, and timestamps may be text."""
    _check(steps_from_file(_database(tmp_path / "trace.duckdb", stored)))


def test_duckdb_without_tools(tmp_path: Path) -> None:
    path = _database(tmp_path / "trace.duckdb", "VARCHAR")
    with _connect(path) as connection:
        connection.execute("DROP TABLE tool_calls")
    steps = steps_from_file(path)
    assert np.isnan(steps.gap[steps.kind == steps.kinds.index("tool")]).all()
    assert steps.rejected["table tool_calls missing (tool steps have no gap)"] == 1


def test_duckdb_errors(tmp_path: Path) -> None:
    path = _database(tmp_path / "trace.duckdb", "VARCHAR")
    with _connect(path) as connection:
        connection.execute("ALTER TABLE rounds DROP COLUMN prefix_tokens")
    with pytest.raises(InputError, match="table rounds has no column prefix_tokens"):
        steps_from_file(path)
    with _connect(path) as connection:
        connection.execute("DROP TABLE timing_events")
    with pytest.raises(InputError, match="no table timing_events"):
        steps_from_file(path)


def _connect(path: Path) -> Any:
    return pytest.importorskip("duckdb").connect(str(path))


def _database(path: Path, stored: str) -> Path:
    with _connect(path) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")  # must not move the times
        connection.execute(
            "CREATE TABLE rounds (round_pk BIGINT, ingest_seq BIGINT, provider VARCHAR, session_id VARCHAR,"
            " round_index BIGINT, round_id VARCHAR, prefix_tokens BIGINT, newly_append_tokens BIGINT,"
            " output_tokens BIGINT)"
        )
        connection.execute(
            "CREATE TABLE timing_events (round_pk BIGINT, event_index BIGINT, event_type VARCHAR,"
            f' "timestamp" {stored}, tool_call_id VARCHAR)'
        )
        connection.execute(
            "CREATE TABLE tool_calls (round_pk BIGINT, tool_index BIGINT, tool_call_id VARCHAR,"
            f" emitted_at {stored}, result_at {stored})"
        )
        for key, row in reversed(list(enumerate(_rounds()))):
            names = ("provider", "session_id", "round_index", "round_id", "prefix_tokens")
            names += ("newly_append_tokens", "output_tokens")
            values = [key, key, *(row.get(name) for name in names)]
            connection.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            for i, event in reversed(list(enumerate(row["timing_events"]))):
                values = [key, i + 1, event["event_type"], event["timestamp"], event["tool_call_id"]]
                connection.execute("INSERT INTO timing_events VALUES (?, ?, ?, ?, ?)", values)
            for i, tool in reversed(list(enumerate(row["tools"]))):
                connection.execute("INSERT INTO tool_calls VALUES (?, ?, ?, ?, ?)", [key, i, *tool.values()])
    return path


def test_steps_of_a_trace(shared: Path) -> None:
    """From the canonical turn table: gaps are times between submissions, answers included."""
    from mfmc.traces import read_trace

    path = shared / "traces" / "agentic_steps.csv.gz"
    steps, own = steps_from_trace(read_trace(path)), steps_from_csv(path)
    assert np.array_equal(steps.total, own.total) and np.array_equal(steps.output, own.output)
    assert np.array_equal(steps.first, own.first) and np.isnan(steps.gap[steps.first]).all()
    later = np.isfinite(own.gap) & ~own.first
    spent = own.gap + np.nan_to_num(np.append(0.0, own.generation[:-1]))
    assert np.median(np.abs(steps.gap - spent)[later]) < 1.0  # times are whole seconds there
    assert [steps.kinds[k] for k in steps.kind] == [own.kinds[k] for k in own.kind]
    with pytest.raises(InputError, match="no times"):
        steps_from_file(shared / "traces" / "sharegpt_turns.csv.gz")


def test_published_rounds(shared: Path) -> None:
    steps = steps_from_rounds_jsonl(shared / "traces" / "tracelab_rounds.jsonl.gz")
    assert len(steps) == 19 and steps.sessions == 2 and steps.coverage().covered == 17
    assert steps.gap[1] == 19.291 and steps.generation[0] == 11.496  # from the log, by hand
    assert steps.providers == ("claude", "codex")
