"""The public trace files: published counts, and every trap that shared/traces/README.md lists."""

from __future__ import annotations

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.laws.recorded import RecordedConversations
from mfmc.traces import Trace, read_trace, validate_trace
from mfmc.traces.table import BRANCH, REWRITTEN, SHRUNK


@pytest.fixture(scope="module")
def traces(shared):
    folder = shared / "traces"
    if not folder.is_dir():
        pytest.skip(f"{folder} with the public trace files is missing")
    return folder


def balanced(trace: Trace) -> bool:
    rows = trace.rejections
    return rows.rows_kept + rows.count == rows.rows_read and rows.rows_kept == len(trace)


@pytest.fixture(scope="module")
def mooncake(traces):
    return read_trace(traces / "mooncake_conversation.jsonl.gz")


def test_mooncake_sessions_follow_from_block_hashes(mooncake):
    assert balanced(mooncake) and mooncake.rejections.rows_read == 12_031
    assert mooncake.rejections.count == 1  # the one exact duplicate
    assert mooncake.lengths.size == 8_376  # 8,377 with the duplicate as a session of its own
    assert mooncake.lengths.mean() == pytest.approx(1.44, abs=0.005)
    assert mooncake.treatments["parents that branch (two or more continuations)"] == 111
    assert mooncake.window == (0.0, pytest.approx(3_537, abs=1))  # milliseconds became seconds
    assert np.unique(mooncake.submitted_at).size == 1_180
    assert mooncake.hash_block_tokens == 512


def test_mooncake_sensitivity_shows_both_failures(mooncake):
    sessions = {row["fan_out_limit"]: row for row in mooncake.sensitivity}
    assert sessions[1]["sessions"] > 12_000  # nearly all singletons
    assert sessions[1_000_000_000]["largest_session"] > sessions[16]["largest_session"]
    assert sessions[1_000_000_000]["sessions"] < 2_000
    assert all(8_300 < sessions[limit]["sessions"] < 8_500 for limit in (4, 8, 16, 32, 64, 128))


def test_mooncake_reuse_carries_its_definition(mooncake):
    found = validate_trace(mooncake, block_tokens=512)
    assert [row["width_seconds"] for row in found["assumptions"]["arrivals"]["dispersion"]] == [60]  # 3 s a batch
    shares = found["endless_cache"]
    expected = {
        "of_blocks": 0.366,
        "of_tokens": 0.374,
        "of_full_blocks": 0.382,
        "of_tokens_mean_over_requests": 0.409,
        "of_tokens_in_the_second_half": 0.398,
    }
    assert {name: round(share, 3) for name, share in shares.items()} == expected


def test_ragpulse_is_not_append_only(traces):
    trace = read_trace(traces / "ragpulse.jsonl.gz")
    assert balanced(trace) and len(trace) == 7_106 and trace.lengths.size == 3_990
    assert any("1 blank lines" in line for line in trace.evidence)
    assert trace.treatments["rows out of time order: sorted"] == 1
    found = validate_trace(trace)
    assert found["assumptions"]["append_only"]["nondecreasing_share"] == pytest.approx(0.76, abs=0.005)
    gaps = found["distributions"]["gap_seconds"]
    assert gaps["p50"] == 40 and gaps["mean"] == pytest.approx(1_912, abs=1)
    assert found["assumptions"]["gap_independence"]["zero"] > 0
    assert "no reuse can be estimated" in found["plain_words"][1]  # retrieval rewrites the prompt


def test_agentic_steps(traces):
    trace = read_trace(traces / "agentic_steps.csv.gz")
    assert balanced(trace) and len(trace) == 24_869 and trace.lengths.size == 355
    assert trace.clock == "per conversation"
    context = np.bincount(trace.context, minlength=6)
    assert context[SHRUNK] == 226 and context[REWRITTEN] == 443 and context[BRANCH] == 0
    assert trace.treatments["responses of 0 tokens, kept"] == 10
    assert np.bincount(trace.kind).tolist() == [0, 3_459, 21_410]
    for refused in (trace.arrival_rate, lambda: trace.accesses(128)):
        with pytest.raises(InputError, match=r"no common clock.*give the arrival rate"):
            refused()
    placed = trace.placed(arrival_rate=0.1, seed=1)
    assert placed.arrival_rate() > 0 and np.allclose(
        placed.gaps().observed.sum(), trace.gaps().observed.sum()
    )
    assert len(placed.accesses(128)) == len(trace)


def test_kv_cache_tester_folder_equals_its_files(traces):
    folder = read_trace(traces / "kv_cache_tester")
    assert balanced(folder) and folder.lengths.size == 24 and len(folder) == 503
    assert folder.treatments["requests without api_time, kept"] == 65
    files = [read_trace(path) for path in sorted((traces / "kv_cache_tester").glob("*.gz"))]
    assert np.array_equal(np.concatenate([f.input_tokens for f in files]), folder.input_tokens)
    assert np.array_equal(np.concatenate([f.history_tokens for f in files]), folder.history_tokens)
    # The derived CSV gives the same sessions, with shared prefixes that were computed elsewhere.
    steps = read_trace(traces / "agentic_steps.csv.gz")
    assert set(np.unique(folder.input_tokens)) <= set(np.unique(steps.input_tokens))


def test_tracelab_rounds(traces):
    trace = read_trace(traces / "tracelab_rounds.jsonl.gz")
    assert balanced(trace) and len(trace) == 19 and trace.lengths.tolist() == [10, 9]
    assert trace.origin is not None and trace.clock == "shared"
    assert set(trace.kind) == {1, 2}
    assert any("92.129%" in line for line in trace.evidence)
    assert trace.treatments["turns whose number contradicts their time: no gap is taken"] == 0


def test_azure_is_arrivals_only(traces):
    trace = read_trace(traces / "azure_conversation_2023.csv.gz")
    assert balanced(trace) and len(trace) == 19_366 and trace.lengths.max() == 1
    assert any("arrivals and lengths only" in line for line in trace.evidence)
    assert trace.submitted_at[1] - trace.submitted_at[0] == pytest.approx(4.314579, abs=2e-6)
    assert trace.arrival_rate() == pytest.approx(5.530, abs=0.001)
    found = validate_trace(trace)
    assert "no reuse can be estimated" in found["plain_words"][1]
    assert any("no Poisson" in line for line in found["plain_words"])


def test_sharegpt_turns(traces):
    trace = read_trace(traces / "sharegpt_turns.csv.gz")
    assert balanced(trace) and trace.rejections.rows_read == 61_239 and trace.lengths.size == 17_392
    assert trace.rejections.by_reason["turn of 0 tokens"].count == trace.rejections.count == 1
    assert trace.lengths.max() == 63 and trace.clock == "none" and trace.gaps().seconds.size == 0
    assert trace.treatments["conversations that begin with a response: left out of resampling"] == 47
    table = trace.conversations(128, minimum_turns=2)
    # Facts of this file: two or more turns, beginning with a human message.
    assert table.conversation[-1] + 1 == 12_925 and table.conversation.size / 12_925 == pytest.approx(
        4.387, abs=5e-4
    )
    law = RecordedConversations.from_tokens(*table)
    assert law.lengths.size == 12_925 and law.lengths.max() == 63
    content = np.cumsum(table.prompt_tokens + table.response_tokens)
    first = np.flatnonzero(np.diff(table.conversation, prepend=-1))
    before = (content - table.prompt_tokens - table.response_tokens)[first]
    blocks = -(-(content - before[table.conversation]) // 128)  # each response counted in its own turn
    assert blocks.sum() / 12_925 == pytest.approx(34.97, abs=0.01)  # A_R


def test_every_file_is_described_and_round_trips(traces, tmp_path):
    names = [p for p in sorted(traces.iterdir()) if p.suffix == ".gz"] + [traces / "kv_cache_tester"]
    for name in names:
        trace = read_trace(name)
        assert trace.evidence[0].startswith(f"format {trace.format}: ")
        trace.to_parquet(tmp_path / "trace.parquet")
        again = read_trace(tmp_path / "trace.parquet")
        assert again.table.column_names == trace.table.column_names
        for column in again.table.column_names[:9]:
            np.testing.assert_array_equal(again.column(column), trace.column(column))
        assert again.describe() == trace.describe() and again.sensitivity == trace.sensitivity
        assert (again.clock, again.origin, again.hash_scope) == (trace.clock, trace.origin, trace.hash_scope)
