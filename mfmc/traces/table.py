"""The canonical turn table: one row per turn, conversation by conversation, whatever file it came from."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mfmc.errors import InputError
from mfmc.traces.rejections import Rejections

if TYPE_CHECKING:
    from mfmc.lru.accesses import AccessStream

#: What a turn's prompt did with the content of the turn before (column `context`).
CONTEXTS = ("first", "appended", "shortened", "rewritten", "shrunk", "branch")
FIRST, APPENDED, SHORTENED, REWRITTEN, SHRUNK, BRANCH = range(6)
COLUMNS = (
    "conversation",
    "turn",
    "submitted_at",
    "history_tokens",
    "new_prompt_tokens",
    "response_tokens",
    "kind",
    "context",
    "source_row",
)
_METADATA, _DIGEST = b"mfmc.trace", b"mfmc.digest"
_SETTINGS = (
    "format",
    "clock",
    "origin",
    "hash_block_tokens",
    "hash_scope",
    "evidence",
    "treatments",
    "sensitivity",
)


class ConversationTable(NamedTuple):
    """Turns of conversations that only ever append: `RecordedConversations.from_tokens(*table)` resamples
    them.

    conversation int64 [n], 0, 1, .., rows in turn order; prompt_tokens, response_tokens int64 [n]: T_j =
    T_{j-1} + response_{j-1} + prompt_j is the length of the turn-j prompt; block_tokens: tokens of a block.
    """

    conversation: np.ndarray
    prompt_tokens: np.ndarray
    response_tokens: np.ndarray
    block_tokens: int


class Gaps(NamedTuple):
    """Inter-prompt times: from one turn's submission to the next one's, in seconds.

    seconds float64 [n]; censored bool [n]: the turn was its conversation's last in the file, and `seconds` is
    the time that the file went on after it (shared clocks only); conversation int64 [n]; turn int32 [n]: the
    gap follows this turn; appended bool [n]: the next prompt kept what this one held (False where censored);
    prompt_tokens int64 [n]: all tokens of this turn's prompt.
    """

    seconds: np.ndarray
    censored: np.ndarray
    conversation: np.ndarray
    turn: np.ndarray
    appended: np.ndarray
    prompt_tokens: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        """Gaps that ended inside the file, float64."""
        return self.seconds[~self.censored]


@dataclass(eq=False, repr=False)
class Trace:
    """Turns as a pyarrow table of `COLUMNS` (and perhaps block_hashes), sorted by conversation and turn.

    Units: seconds since the file's first second (`origin`: the Unix time of that moment, None where times are
    no dates), tokens, conversations 0, 1, .., turns 1, 2, .., source rows counted from 1 without header and
    blank lines. `clock` is "shared" (one time line), "per conversation" (each starts at its own 0) or "none"
    (NaN times). The whole prompt of a turn has history_tokens + new_prompt_tokens; the history is what the
    conversation held before.
    """

    table: Any
    format: str
    clock: str = "shared"
    origin: float | None = None
    hash_block_tokens: int | None = None
    hash_scope: str = "global"
    rejections: Rejections = field(default_factory=Rejections)
    evidence: list[str] = field(default_factory=list)
    treatments: dict[str, int] = field(default_factory=dict)
    sensitivity: list[dict[str, int]] = field(default_factory=list)

    @classmethod
    def from_columns(cls, columns: dict[str, np.ndarray], block_hashes: Any = None, **settings: Any) -> Trace:
        import pyarrow as pa

        arrays = {name: columns[name] for name in COLUMNS}
        if block_hashes is not None:
            arrays["block_hashes"] = block_hashes
        return cls(pa.table(arrays), **settings)

    def __repr__(self) -> str:
        size = f"{len(self):,} turns in {self.lengths.size:,} conversations"
        return f"Trace({self.format}: {size}, clock {self.clock})"

    def __len__(self) -> int:
        """Turns."""
        return self.table.num_rows

    def column(self, name: str) -> np.ndarray:
        """A column as a numpy array (no copy)."""
        return self.table[name].chunk(0).to_numpy() if len(self) else self.table[name].to_numpy()

    conversation = cached_property(lambda self: self.column("conversation"))
    turn = cached_property(lambda self: self.column("turn"))
    submitted_at = cached_property(lambda self: self.column("submitted_at"))
    # The table may hold tokens in 32 bits; sums and products of them need 64.
    history_tokens = cached_property(lambda self: self.column("history_tokens").astype(np.int64, copy=False))
    new_prompt_tokens = cached_property(
        lambda self: self.column("new_prompt_tokens").astype(np.int64, copy=False)
    )
    response_tokens = cached_property(
        lambda self: self.column("response_tokens").astype(np.int64, copy=False)
    )
    kind = cached_property(lambda self: self.column("kind"))
    context = cached_property(lambda self: self.column("context"))
    source_row = cached_property(lambda self: self.column("source_row"))

    @cached_property
    def input_tokens(self) -> np.ndarray:
        """T: all tokens of each turn's prompt."""
        return np.add(self.column("history_tokens"), self.column("new_prompt_tokens"), dtype=np.int64)

    @cached_property
    def starts(self) -> np.ndarray:
        """Index of each conversation's first turn."""
        return np.flatnonzero(self.turn == 1)

    @cached_property
    def lengths(self) -> np.ndarray:
        """M: turns of each conversation."""
        return np.diff(np.append(self.starts, len(self)))

    @cached_property
    def window(self) -> tuple[float, float]:
        """First and last submission (seconds); only a shared clock has one."""
        if self.clock != "shared":
            raise InputError(
                f"{self.format} has no common clock ({_CLOCK_REASONS[self.clock]}): no arrival process can"
                " be read from it; give the arrival rate"
            )
        return float(np.nanmin(self.submitted_at)), float(np.nanmax(self.submitted_at))

    # What the models use.

    @cached_property
    def segments(self) -> np.ndarray:
        """Conversation numbers as a prefix cache sees them: a prompt that shrank, was rewritten or branches
        begins one.

        int64 [n], not decreasing.
        """
        return np.cumsum((self.context == FIRST) | (self.context >= REWRITTEN)) - 1

    def conversations(self, block_tokens: int, minimum_turns: int = 1) -> ConversationTable:
        """Turns for resampling whole conversations: every prompt extends the one before.

        Of a response that the next prompt keeps only in part, that part counts. Conversations of fewer than
        `minimum_turns` turns are left out, and so are those that begin with a prompt of 0 tokens.
        """
        starts, sizes, usable = self._resampled(block_tokens, minimum_turns)
        total, kept = self.input_tokens, self.response_tokens.copy()
        ends = np.append(starts[1:], len(self)) - 1
        last_response = kept[ends]
        np.minimum(kept[:-1], total[1:] - total[:-1], out=kept[:-1])  # the next prompt keeps no more
        kept[ends] = last_response
        prompt = total.copy()
        prompt[1:] -= total[:-1] + kept[:-1]
        prompt[starts] = total[starts]
        number = np.repeat(np.arange(int(usable.sum())), sizes[usable])
        if not usable.all():
            keep = np.repeat(usable, sizes)
            prompt, kept = prompt[keep], kept[keep]
        return ConversationTable(number, prompt, kept, block_tokens)

    def prompts(self, block_tokens: int, minimum_turns: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(tokens of each whole prompt, int64 [turns]; turns of each conversation) of `conversations`."""
        _, sizes, usable = self._resampled(block_tokens, minimum_turns)
        total = self.input_tokens
        return (total if usable.all() else total[np.repeat(usable, sizes)]), sizes[usable]

    def owners(self, minimum_turns: int = 1) -> np.ndarray:
        """The file's conversation that each conversation of `conversations` (a segment of it) belongs to."""
        starts, _, usable = self._selected(minimum_turns)
        return self.conversation[starts[usable]]

    def _resampled(self, block_tokens: int, minimum_turns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if block_tokens < 1:
            raise InputError(f"block_tokens is {block_tokens}: expected at least 1 token a block")
        starts, sizes, usable = self._selected(minimum_turns)
        if not usable.any():
            raise InputError(
                f"no conversation of at least {minimum_turns} turns begins with a prompt: lower minimum_turns"
            )
        return starts, sizes, usable

    def _selected(self, minimum_turns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first turn, number of turns, whether resampling takes it) of every segment."""
        starts = np.flatnonzero((self.context == FIRST) | (self.context >= REWRITTEN))
        sizes = np.diff(np.append(starts, len(self)))
        opens = (self.column("history_tokens")[starts] > 0) | (self.column("new_prompt_tokens")[starts] > 0)
        return starts, sizes, (sizes >= minimum_turns) & opens

    def gaps(self) -> Gaps:
        """Inter-prompt times with the censored waits after last turns.

        Left out: gaps with an unknown or negative length (a turn number that contradicts its time). Without
        any clock the table is empty.
        """
        if self.clock == "none":
            empty, number = np.zeros(0), np.zeros(0, dtype=np.int64)
            return Gaps(empty, empty > 0, number, number.astype(np.int32), empty > 0, number)
        n, times, shared = len(self), self.submitted_at, self.clock == "shared"
        last, keeps, seconds = np.ones(n, dtype=bool), np.zeros(n, dtype=bool), np.full(n, np.nan)
        np.equal(self.turn[1:], 1, out=last[:-1])
        np.subtract(times[1:], times[:-1], out=seconds[:-1])
        if shared:
            np.subtract(self.window[1], times, out=seconds, where=last)
        keeps[:-1] = ((self.context[1:] == APPENDED) | (self.context[1:] == SHORTENED)) & ~last[:-1]
        use = seconds >= 0
        if not shared:
            use &= ~last
        found = Gaps(seconds, last, self.conversation, self.turn, keeps, self.input_tokens)
        return found if use.all() else Gaps(*(column[use] for column in found))

    def arrival_rate(self, minimum_turns: int = 1) -> float:
        """Conversations per second: those of `conversations(.., minimum_turns)`, from the first start to the
        last.
        """
        self.window  # noqa: B018  (refuses files without a common clock)
        starts, _, usable = self._selected(minimum_turns)
        times = self.submitted_at[starts[usable]]
        times = times[np.isfinite(times)]
        span = float(np.ptp(times)) if times.size else 0.0
        if span == 0:
            raise InputError(
                f"{self.format}: no two conversations start apart, so there is no rate: give arrival_rate"
            )
        return (times.size - 1) / span

    def accesses(self, block_tokens: int) -> AccessStream:
        """The file's own access stream, for an exact replay: whole prompts in tokens, conversations as
        `segments`.
        """
        from mfmc.lru.accesses import accesses_from_arrays

        self.window  # noqa: B018  (refuses files without a common clock)
        usable = np.isfinite(self.submitted_at) & (self.input_tokens > 0)
        return accesses_from_arrays(
            self.submitted_at[usable],
            self.segments[usable],
            tokens=self.input_tokens[usable],
            block_tokens=block_tokens,
        )

    def thinned(self, every: int) -> Trace:
        """Every `every`-th conversation, without block hashes; the clock and the counts stay."""
        if every <= 1:
            return self
        rows = np.flatnonzero(self.conversation % every == 0)
        columns = {name: self.column(name)[rows] for name in COLUMNS}
        columns["conversation"] = columns["conversation"] // every
        return Trace.from_columns(columns, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_SETTINGS, "rejections")}

    def placed(self, arrival_rate: float, seed: int = 0, rounds: int = 1) -> Trace:
        """A copy on one clock: every conversation begins at its own moment of a Poisson process, its gaps
        unchanged; all of them `rounds` times, one round after the other, each in an order of its own.
        """
        if self.clock != "per conversation":
            raise InputError(
                f"only conversations with clocks of their own can be placed; {self.format}: {self.clock}"
            )
        if not arrival_rate > 0:
            raise InputError(f"arrival_rate is {arrival_rate}: expected conversations per second, above 0")
        rng, count = np.random.default_rng(seed), self.lengths.size
        arrivals = np.cumsum(rng.exponential(1 / arrival_rate, (rounds, count))).reshape(rounds, count)
        offset = rng.permuted(arrivals, axis=1) - self.submitted_at[self.starts]
        columns = {name: np.tile(self.column(name), rounds) for name in COLUMNS}
        columns["submitted_at"] += np.repeat(offset.ravel(), np.tile(self.lengths, rounds))
        columns["conversation"] = np.repeat(np.arange(rounds * count), np.tile(self.lengths, rounds))
        settings = self._settings() | {
            "clock": "shared",
            "origin": None,
            "evidence": [
                *self.evidence,
                f"conversations placed at Poisson moments, {arrival_rate:g} a second"
                + (f", {rounds} times over" if rounds > 1 else ""),
            ],
        }
        return Trace.from_columns(columns, **settings)

    # Saying what it is.

    def describe(self) -> list[str]:
        """Lines for a report: rows, evidence, treatments."""
        lines = [
            self.rejections.describe(),
            f"{len(self):,} turns in {self.lengths.size:,} conversations, E[M] {self.lengths.mean():.3f}, "
            f"max M {self.lengths.max()}",
            *self.evidence,
        ]
        return lines + [f"{count:,} x {what}" for what, count in self.treatments.items() if count]

    def to_parquet(self, path: str | Path) -> None:
        """Write the table with everything that was found out about it (zstd)."""
        import pyarrow.parquet as pq

        settings = json.dumps(self._settings() | {"rejections": self.rejections.to_dict()}).encode()
        own = {_METADATA: settings, _DIGEST: str(self._digest(settings)).encode()}
        metadata = {**(self.table.schema.metadata or {}), **own}
        pq.write_table(self.table.replace_schema_metadata(metadata), Path(path), compression="zstd")

    @classmethod
    def from_parquet(cls, path: str | Path) -> Trace:
        """Read what `to_parquet` wrote. Raises InputError if somebody else changed it since."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(Path(path))
            metadata = table.schema.metadata or {}
            settings = json.loads(metadata[_METADATA])
            settings["rejections"] = Rejections.from_dict(settings["rejections"])
            trace = cls(table.replace_schema_metadata(None).combine_chunks(), **settings)
            if trace._digest(metadata[_METADATA]) != int(metadata[_DIGEST]):
                raise ValueError("its contents changed")
        except (OSError, KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
            reason = str(error).split("\n")[0]
            raise InputError(
                f"{path}: not a trace as this version of mfmc writes it ({type(error).__name__}: {reason}); read"
                " the original again, or name the format (generic reads any Parquet)"
            ) from error
        return trace

    def _digest(self, settings: bytes) -> int:
        """A check sum of everything that a file holds: an edited table would break what is computed from it."""
        total = zlib.crc32(settings)
        for name in self.table.column_names:
            column = self.table[name].combine_chunks()
            arrays = (column.value_lengths(), column.flatten()) if name == "block_hashes" else (column,)
            for values in (array.to_numpy(zero_copy_only=False) for array in arrays):
                total = zlib.crc32(np.ascontiguousarray(values).data, zlib.crc32(name.encode(), total))
        return total


_CLOCK_REASONS = {
    "per conversation": "times are relative to each conversation",
    "none": "it carries no times",
}


def is_trace_file(path: str | Path) -> bool:
    """Whether a Parquet file is one that `Trace.to_parquet` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return _METADATA in (pq.read_schema(Path(path)).metadata or {})
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
