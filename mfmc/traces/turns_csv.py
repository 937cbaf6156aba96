"""Conversation sizes from a CSV (plain or gzip): one row per turn, in tokens, no times.

The simplest real input: columns of conversation, turn, prompt tokens and response tokens, read with the
standard library alone. Rows that cannot be used are counted by reason, never dropped in silence.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

import numpy as np

from mfmc.errors import InputError

LARGEST_TURN_TOKENS = 2**31 - 1


class ColumnNames(Protocol):
    """Names of the four columns."""

    conversation: str
    turn: str
    prompt_tokens: str
    response_tokens: str


@dataclass
class TurnTable:
    """Kept turns, sorted by conversation (in order of first appearance) and turn.

    conversation: int64 [n], 0, 1, 2, ... ; turn: int64 [n]; prompt_tokens, response_tokens: int64 [n].
    names: the file's own conversation labels. rows = len(conversation) + sum(rejected.values()).
    """

    path: str
    conversation: np.ndarray
    turn: np.ndarray
    prompt_tokens: np.ndarray
    response_tokens: np.ndarray
    names: list[str]
    rows: int
    rejected: Counter[str] = field(default_factory=Counter)

    def notes(self) -> list[str]:
        """Lines for a report: rows read = kept + rejected, by reason."""
        kept = f"{len(self.conversation)} kept in {len(self.names)} conversations"
        line = f"{self.path}: {self.rows} rows read, {kept}"
        if not self.rejected:
            return [line + ", none rejected"]
        reasons = "; ".join(f"{count} {reason}" for reason, count in self.rejected.most_common())
        return [f"{line}, {sum(self.rejected.values())} rejected: {reasons}"]


def _text(path: Path) -> str:
    """The file's text, gunzipped if it begins like a gzip file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})") from error
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: a damaged gzip file ({error})") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text (byte {error.start}); expected a CSV or a gzipped CSV"
        ) from error


def _positions(path: Path, header: list[str], columns: ColumnNames) -> list[int]:
    """Where the four columns stand in the header."""
    header = [name.strip() for name in header]
    found = []
    for role in ("conversation", "turn", "prompt_tokens", "response_tokens"):
        name = getattr(columns, role)
        if name not in header:
            near = get_close_matches(name, header, 1) or get_close_matches(role, header, 1)
            hint = f"; did you mean columns.{role}={near[0]}?" if near else f" (set columns.{role})"
            raise InputError(f"{path}: no column '{name}' for {role} among {', '.join(header)}{hint}")
        found.append(header.index(name))
    return found


def _count(text: str) -> int:
    """A whole number >= 0 as written (7, 7.0, 7e0). Raises ValueError with the reason if it is none."""
    try:
        number = float(text)
    except ValueError:
        raise ValueError("with text for a number" if text.strip() else "with a blank number") from None
    if not number.is_integer():  # also NaN and infinities
        raise ValueError("with a number that is not whole")
    if number < 0:
        raise ValueError("with a negative number")
    if number > LARGEST_TURN_TOKENS:
        raise ValueError(f"with a number above {LARGEST_TURN_TOKENS}")
    return int(number)


def _without(table: np.ndarray, bad: np.ndarray, reason: str, rejected: Counter[str]) -> np.ndarray:
    """The rows that are not bad; the others are counted."""
    if bad.any():
        rejected[reason] += int(bad.sum())
    return table[~bad]


def read_turns(path: str | Path, columns: ColumnNames, minimum_turns: int = 2) -> TurnTable:
    """Read a turns CSV.

    A conversation's turns are put in the order of its turn column. Rejected are rows without a conversation,
    with a number that is no whole number >= 0, with a turn that the conversation already has, or without a
    token; then the turns of conversations that begin with an empty prompt or keep fewer than `minimum_turns`
    turns. Raises InputError if nothing remains.
    """
    path = Path(path)
    try:
        lines = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
        header = next(lines, None)
        if not header:
            raise InputError(f"{path}: empty; expected a header line and one row per turn")
        places = _positions(path, header, columns)
        rows = [row for row in lines if row]
    except csv.Error as error:
        raise InputError(f"{path}: line {lines.line_num} is not CSV ({error})") from error

    rejected: Counter[str] = Counter()
    label_of: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    kept: list[tuple[int, int, int, int]] = []
    for row in rows:
        if len(row) <= max(places):
            rejected["with too few columns"] += 1
            continue
        label = row[places[0]].strip()
        if not label:
            rejected["without a conversation"] += 1
            continue
        try:
            turn, prompt, response = (_count(row[place]) for place in places[1:])
        except ValueError as reason:
            rejected[str(reason)] += 1
            continue
        if prompt == 0 and response == 0:
            rejected["without a token"] += 1
            continue
        conversation = label_of.setdefault(label, len(label_of))
        if (conversation, turn) in seen:
            rejected["repeating a turn"] += 1
            continue
        seen.add((conversation, turn))
        kept.append((conversation, turn, prompt, response))

    table = np.array(kept, dtype=np.int64).reshape(-1, 4)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    first = np.unique(table[:, 0], return_index=True)[1]
    empty = np.isin(table[:, 0], table[first[table[first, 2] == 0], 0])
    table = _without(table, empty, "in conversations that begin with an empty prompt", rejected)
    short = np.bincount(table[:, 0], minlength=len(label_of))[table[:, 0]] < minimum_turns
    table = _without(table, short, f"in conversations of fewer than {minimum_turns} turns", rejected)
    if not len(table):
        raise InputError(
            f"{path}: none of {len(rows)} rows can be used"
            + (f" ({', '.join(f'{n} {why}' for why, n in rejected.most_common())})" if rejected else "")
        )
    labels = list(label_of)
    present, numbered = np.unique(table[:, 0], return_inverse=True)
    return TurnTable(
        path=str(path),
        conversation=numbered.astype(np.int64),
        turn=table[:, 1],
        prompt_tokens=table[:, 2],
        response_tokens=table[:, 3],
        names=[labels[i] for i in present],
        rows=len(rows),
        rejected=rejected,
    )
