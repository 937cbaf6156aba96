"""Conversation sizes from a CSV: rows read = kept + rejected, whatever the file holds."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.config.workload import ColumnsSection
from mfmc.errors import InputError
from mfmc.traces import read_trace
from mfmc.traces.turns_csv import read_turns

HEADER = "conv,turn,prompt_tokens,response_tokens\n"


def table(path, text: str, **columns):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return read_turns(path, ColumnsSection(**columns))


@pytest.mark.parametrize("name", ["turns.csv", "turns.csv.gz"])
def test_turns_are_sorted_and_numbered(tmp_path, name):
    read = table(tmp_path / name, HEADER + "b,2,30,3\na,1,5,1\nb,1,10,2\na,2,7,0\n")
    assert read.names == ["b", "a"] and read.conversation.tolist() == [0, 0, 1, 1]
    assert read.turn.tolist() == [1, 2, 1, 2] and read.prompt_tokens.tolist() == [10, 30, 5, 7]
    assert read.notes()[0].endswith("4 rows read, 4 kept in 2 conversations, none rejected")


def test_every_rejected_row_is_counted_by_reason(tmp_path):
    rows = [
        "a,1,10,1",
        "a,2,5,1",
        "a,2,6,1",
        "a,3,x,1",
        "a,4,-1,1",
        "a,5,1.5,1",
        "a,6,nan,1",
        "a,7,,1",
        ",1,1,1",
    ]
    rows += ["a,8,0,0", "short,1", "one,1,4,4", "e,1,0,4", "e,2,4,4", "a,9,1e30,1", "a,10,3.0,1", ""]
    read = table(tmp_path / "t.csv", HEADER + "\n".join(rows))
    assert read.prompt_tokens.tolist() == [10, 5, 3]
    assert dict(read.rejected) == {
        "repeating a turn": 1,
        "with text for a number": 1,
        "with a negative number": 1,
        "with a number that is not whole": 2,
        "with a blank number": 1,
        "without a conversation": 1,
        "without a token": 1,
        "with too few columns": 1,
        "with a number above 2147483647": 1,
        "in conversations that begin with an empty prompt": 2,
        "in conversations of fewer than 2 turns": 1,
    }
    assert read.rows == 16 == len(read.turn) + sum(read.rejected.values())


def test_columns_have_configurable_names(tmp_path):
    text = "\ufeffid, n ,out,in\nx,0,1,2\nx,1,3,4\n"
    names = {"conversation": "id", "turn": "n", "prompt_tokens": "in", "response_tokens": "out"}
    read = table(tmp_path / "t.csv", text, **names)
    assert read.prompt_tokens.tolist() == [2, 4] and read.response_tokens.tolist() == [1, 3]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "empty"),
        (HEADER, "none of 0 rows"),
        (HEADER + "a,1,1,1\n", "none of 1 rows can be used .1 in conversations of fewer than 2 turns"),
        (
            "conv,turn,prompt,response_tokens\na,1,1,1\n",
            "no column 'prompt_tokens' .* did you mean columns.prompt_",
        ),
        ("a;b\n1;2\n", "no column 'conv' for conversation among a;b .set columns.conversation"),
        (HEADER + 'a,"1,1,1\n', "is not CSV"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        table(tmp_path / "t.csv", text)
    assert "\n" not in str(caught.value) and "t.csv" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8b\x08broken", b"\xff\xfe\x00a", gzip.compress(HEADER.encode())[:-9]],
    ids=["gzip", "utf-16", "cut short"],
)
def test_damaged_bytes_are_refused(tmp_path, data):
    (tmp_path / "t.csv.gz").write_bytes(data)
    with pytest.raises(InputError, match=r"t.csv.gz"):
        read_turns(tmp_path / "t.csv.gz", ColumnsSection())


def test_a_folder_or_a_missing_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "no.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_turns(path, ColumnsSection())


@settings(max_examples=150)
@given(data=st.data())
def test_mutated_files_never_break_the_reader(tmp_path_factory, data):
    """A valid file with a few bytes changed or cut: read with exact counts, or refused in one line."""
    good = (HEADER + "".join(f"c{i // 3},{i % 3},{10 + i},{i}\n" for i in range(12))).encode()
    mutant = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(mutant) - 1))
        piece = data.draw(
            st.sampled_from([b"", b'"', b",", b"\n", b"-", b"\xff", b"\x00", b"nan", b"9" * 25, b"\r"])
        )
        mutant[place : place + data.draw(st.integers(0, 3))] = piece
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(bytes(mutant))
    try:
        read = read_turns(path, ColumnsSection())
    except InputError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert read.rows == len(read.turn) + sum(read.rejected.values())
    assert (np.bincount(read.conversation) >= 2).all() and (read.prompt_tokens >= 0).all()


def test_the_sharegpt_file(shared):
    """The same turns as the reader of every format keeps, which needs more packages."""
    path = shared / "traces/sharegpt_turns.csv.gz"
    read = read_turns(path, ColumnsSection())
    table = read_trace(path).conversations(block_tokens=128, minimum_turns=2)
    for name in ("conversation", "prompt_tokens", "response_tokens"):
        np.testing.assert_array_equal(getattr(read, name), getattr(table, name))
    assert read.rows == 61_239 == len(read.turn) + sum(read.rejected.values())
    assert len(read.names) > 12_000
