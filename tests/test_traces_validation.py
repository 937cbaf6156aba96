"""The validation report on traces whose law is known: what holds is said to hold, what is broken is found."""

from __future__ import annotations

import numpy as np
import pytest

from mfmc.laws.recorded import RecordedConversations
from mfmc.traces import read_trace, validate_trace, validation
from mfmc.traces.assumptions import _hours_covered
from mfmc.traces.distributions import correlation, distribution, hill_index, mean_excess, quantiles

pytest.importorskip("duckdb")

CONVERSATIONS = 6_000


def write(path, rng, *, arrivals=None, gaps=None, sizes=None, lengths=None, forget=0.0):
    """A Parquet trace of append-only conversations: Poisson arrivals, exponential gaps, independent sizes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lengths = rng.geometric(0.3, CONVERSATIONS) if lengths is None else lengths
    count = lengths.size
    conversation = np.repeat(np.arange(count), lengths)
    first = np.diff(conversation, prepend=-1) != 0
    arrivals = np.cumsum(rng.exponential(2.0, count)) if arrivals is None else arrivals
    gaps = rng.exponential(60.0, conversation.size) if gaps is None else gaps(conversation, first)
    prompt = (
        rng.integers(100, 900, conversation.size) if sizes is None else sizes(conversation, first, lengths)
    )
    response = rng.integers(10, 300, conversation.size)
    prompt[first] += 1_000
    content = np.cumsum(prompt + response)
    total = content - response - (content - prompt - response)[first][conversation]
    if forget:
        fresh = (rng.random(total.size) < forget) & ~first
        total[fresh] = prompt[fresh]
    clock = np.cumsum(np.where(first, 0.0, gaps))
    time = clock + (arrivals - clock[first])[conversation]
    order = np.argsort(time, kind="stable")
    order = order[time[order] <= arrivals.max()]  # the file ends with the last arrival, whatever goes on
    columns = {"session": conversation, "time": time, "input_tokens": total, "output_tokens": response}
    pq.write_table(pa.table({name: values[order] for name, values in columns.items()}), path)
    return read_trace(path)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


def test_a_trace_of_the_model_passes(tmp_path, rng):
    trace = write(tmp_path / "t.parquet", rng)
    found = validate_trace(trace, block_tokens=64)
    tests = found["assumptions"]
    assert tests["append_only"]["append_only_share"] == 1.0
    assert tests["size_independence"]["ratio"] == pytest.approx(1, abs=0.05)
    assert all(row["poisson"] for row in tests["arrivals"]["dispersion"])
    for name in ("autocorrelation", "with_turn", "with_prompt_length"):
        entry = tests["gap_independence"][name]
        assert abs(entry["value"]) < 5 * entry["standard_error"]
    assert tests["gap_independence"]["coefficient_of_variation"] == pytest.approx(1, abs=0.05)
    words = " ".join(found["plain_words"])
    for sentence in (
        "none was rejected",
        "everything that the estimator needs is in the file",
        "only append in 100.0%",
        "Sizes hardly depend",
        "Successive gaps look independent",
        "vary as those of a Poisson process",
        "no heavier than exponential",
    ):
        assert sentence in words
    assert found["shape"]["arrival_rate"] == pytest.approx(0.5, rel=0.1)
    mean = found["distributions"]["gap_seconds"]["mean"]
    assert abs(mean - 60) < 5 * 60 / np.sqrt(found["distributions"]["gap_seconds"]["count"])


def test_constants_agree_with_the_recorded_law(tmp_path, rng):
    trace = write(tmp_path / "t.parquet", rng, forget=0.1)
    constants = validate_trace(trace, block_tokens=64)["constants"]
    law = RecordedConversations.from_tokens(*trace.conversations(64))
    assert constants["accessed_blocks"] == pytest.approx(law.content("whole"))
    assert constants["lifetime_blocks"] == pytest.approx(law.allocated("whole"))
    assert constants["mean_turns"] == pytest.approx(law.lengths.mean())


def test_broken_assumptions_are_found(tmp_path, rng):
    def checked(name, **laws):
        found = validate_trace(write(tmp_path / f"{name}.parquet", rng, **laws), block_tokens=64)
        return found["assumptions"], " ".join(found["plain_words"])

    bursts = np.repeat(np.cumsum(rng.exponential(20.0, CONVERSATIONS // 10)), 10)
    tests, words = checked("bursts", arrivals=bursts)
    assert "Arrivals are no Poisson process" in words and "share time stamps" in words
    batches = [row["dispersion"] for row in tests["arrivals"]["dispersion"] if row["bins"] > 1_000]
    assert batches == pytest.approx([10] * len(batches), rel=0.25) and batches

    ticks = 3 * np.floor(np.cumsum(rng.exponential(2.0, CONVERSATIONS)) / 3)
    tests, words = checked("ticks", arrivals=ticks)
    assert "share time stamps" in words and "10 steps of 3 s" in words
    assert "vary as those of a Poisson process" in words  # in bins of 1 s a clock's ticks look like bursts

    def regimes(conversation, first):
        scale = np.exp(rng.normal(0, 1.5, conversation[-1] + 1))
        return rng.exponential(60.0, conversation.size) * scale[conversation]

    tests, words = checked("regimes", gaps=regimes)
    assert (
        tests["gap_independence"]["autocorrelation"]["value"] > 0.4
        and "successive gaps are correlated" in words
    )

    def longer_is_smaller(conversation, first, lengths):
        return np.maximum(
            1, (rng.integers(1_000, 9_000, conversation.size) / lengths[conversation]).astype(int)
        )

    tests, words = checked("dependent", sizes=longer_is_smaller)
    assert tests["size_independence"]["ratio"] < 0.8 and "depend on each other" in words
    assert tests["size_independence"]["turns_with_later_blocks"]["value"] < -0.3

    tests, words = checked("forgetful", forget=0.3)
    assert tests["append_only"]["append_only_share"] == pytest.approx(
        0.72, abs=0.03
    )  # a rewrite that grows cannot be seen from lengths
    assert "begin" in words and "new conversations for the cache" in words

    pareto = np.minimum(1 + rng.pareto(1.2, CONVERSATIONS).astype(np.int64), 5_000)
    tests, words = checked("heavy", lengths=pareto)
    assert "heavy-looking tail" in words


def test_short_window_is_called_censored(tmp_path, rng):
    trace = write(tmp_path / "t.parquet", rng, gaps=lambda c, f: rng.exponential(4_000.0, c.size))
    gaps = trace.gaps()
    assert gaps.censored.sum() == trace.lengths.size and (gaps.seconds >= 0).all()
    # What is censored is the wait to the end of the file.
    last = np.append(trace.turn[1:] == 1, True)
    assert gaps.seconds[last] == pytest.approx(trace.window[1] - trace.submitted_at[last])
    assert any("may go on after it" in line for line in validate_trace(trace)["plain_words"])


def test_sampled_report_agrees_with_the_whole(tmp_path, rng, monkeypatch):
    trace = write(tmp_path / "t.parquet", rng)
    whole = validate_trace(trace)
    monkeypatch.setattr(validation, "SAMPLE_TURNS", 5_000)
    part = validate_trace(trace)
    assert part["shape"]["sample_every"] == round(len(trace) / 5_000)
    assert any("every 4th conversation" in line for line in part["plain_words"])
    for name in ("rows", "treatments"):
        assert part[name] == whole[name]
    assert part["distributions"]["turns"] == whole["distributions"]["turns"]
    assert part["assumptions"]["arrivals"] == whole["assumptions"]["arrivals"]
    exact, rough = (w["distributions"]["gap_seconds"] for w in (whole, part))
    assert abs(exact["mean"] - rough["mean"]) < 5 * rough["sd"] / np.sqrt(rough["count"])


def test_distribution_tables():
    values = np.array([3, 1, 2, 2, 10])
    table = distribution(values)
    assert (table["count"], table["mean"], table["min"], table["p50"], table["max"]) == (5, 3.6, 1, 2, 10)
    levels = np.linspace(0, 1, 37)
    numbers = np.random.default_rng(0).integers(0, 50, 999)
    np.testing.assert_array_equal(quantiles(numbers, levels), quantiles(numbers.astype(float), levels))
    assert distribution(np.zeros(0)) == {"count": 0}
    assert correlation(np.ones(9), np.arange(9.0))["value"] is None
    exponential = mean_excess(np.random.default_rng(1).exponential(5.0, 200_000))
    assert [row["mean_excess"] for row in exponential] == pytest.approx([5, 5, 5, 5], rel=0.2)
    assert hill_index(1 + np.random.default_rng(2).pareto(1.5, 200_000)) == pytest.approx(1.5, rel=0.12)


def test_hours_of_the_day_that_a_window_covers():
    covered = _hours_covered(3_600 * 22.5, 3_600 * (24 + 1))
    assert covered[[22, 23, 0, 1]].tolist() == [1_800, 3_600, 3_600, 0] and covered.sum() == 9_000
    assert (_hours_covered(0, 86_400.0 * 3) == 3 * 3_600).all()
