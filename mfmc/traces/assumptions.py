"""The model's assumptions held against a trace, one function each; all return plain numbers.

"Conversation" here is what a prefix cache sees (`Trace.segments`): one that only ever appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mfmc.traces.distributions import correlation, hill_index, mean_excess, quantiles
from mfmc.traces.order import first_rows
from mfmc.traces.staging import KIND_NAMES
from mfmc.traces.table import APPENDED, CONTEXTS, FIRST, SHORTENED, Gaps, Trace

TURN_ROWS = 10  # turns (or lengths) with a row of their own in a table; later ones share the last row
WIDTHS = (1.0, 10.0, 60.0, 600.0, 3600.0)  # seconds, bins of the arrival counts
FEWEST_BINS = 20
DISTINCT_TIMES = 0.9  # of the arrivals; with fewer, times are rounded or batched
TICKS = 10  # steps of a rounded clock in a bin; in shorter ones the rounding itself looks like bursts
DAY = 86_400.0


@dataclass(frozen=True)
class Histories:
    """Block histories R_j of the cache's conversations (THEORY A): int64 [turns], and where each begins."""

    history: np.ndarray
    increment: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, trace: Trace, block_tokens: int) -> Histories:
        """Whole contents by Appendix E: Z_j = ceil(T_j/k) - floor(T_{j-1}/k)."""
        segments, total = trace.segments, trace.input_tokens
        first = first_rows(segments)
        starts = np.flatnonzero(first)
        lengths = np.diff(np.append(starts, len(trace)))
        increment = -(-total // block_tokens)
        increment[1:] -= np.where(first[1:], 0, total[:-1] // block_tokens)
        history = np.cumsum(increment)
        history -= np.repeat(history[starts] - increment[starts], lengths)
        return cls(history, increment, starts, lengths)

    @property
    def lifetime(self) -> np.ndarray:
        """B = R_M of every conversation."""
        return self.history[self.starts + self.lengths - 1]

    def constants(self) -> dict[str, float]:
        """The constants of the paper's Section 2 in blocks, whole content and (`_hash`) one unhashable tail a
        turn.
        """
        count, size = self.lengths.size, self.lengths.astype(np.float64)
        lifetime = self.lifetime
        accessed = float(self.history.sum()) / count
        reusable = accessed - float(lifetime.mean())
        return {
            "mean_turns": float(size.mean()),
            "variance_turns": float(size.var()),
            "maximum_turns": int(self.lengths.max()),
            "lifetime_blocks": float(lifetime.mean()),
            "accessed_blocks": accessed,
            "reusable_blocks": reusable,
            "hashable_blocks": reusable - float(size.mean() - 1),
            "reuse_ceiling": reusable / accessed if accessed else 0.0,
        }


def append_only(trace: Trace) -> dict[str, Any]:
    """Whether each prompt extends the one before: shares of the pairs of consecutive turns."""
    counts = np.bincount(trace.context, minlength=len(CONTEXTS))
    pairs = int(counts.sum() - counts[FIRST])
    if pairs == 0:
        return {"pairs": 0, "append_only_share": None, "nondecreasing_share": None}
    inside = trace.turn[1:] > 1
    grows = np.diff(trace.input_tokens)[inside] >= 0
    shares = {name: float(counts[code] / pairs) for code, name in enumerate(CONTEXTS) if code != FIRST}
    kept = float((counts[APPENDED] + counts[SHORTENED]) / pairs)
    return {
        "pairs": pairs,
        "append_only_share": kept,
        "nondecreasing_share": float(grows.mean()),
        "by_context": shares,
    }


def size_independence(histories: Histories) -> dict[str, Any]:
    """M against sizes (Assumption B.2): correlations, a table by M, and A_H beside what independence would
    give.
    """
    lengths, starts, increment = histories.lengths, histories.starts, histories.increment
    first = increment[starts]
    several = lengths > 1
    total = histories.lifetime
    later = (total - first)[several] / (lengths[several] - 1)
    reusable = histories.constants()["reusable_blocks"]
    size = lengths.astype(np.float64)
    mean_later = float((total - first).sum() / max((lengths - 1).sum(), 1))
    independent = float(first.mean() * (size - 1).mean() + mean_later * ((size - 1) * (size - 2) / 2).mean())
    capped = np.minimum(lengths, TURN_ROWS)
    count = np.bincount(capped, minlength=TURN_ROWS + 1)
    first_sum = np.bincount(capped, weights=first, minlength=TURN_ROWS + 1)
    later_sum = np.bincount(capped, weights=total - first, minlength=TURN_ROWS + 1)
    turns = np.bincount(capped, weights=lengths - 1, minlength=TURN_ROWS + 1)
    table = [
        {
            "turns": f"{m}+" if m == TURN_ROWS else str(m),
            "conversations": int(count[m]),
            "first_blocks": float(first_sum[m] / count[m]),
            "later_blocks": float(later_sum[m] / turns[m]) if turns[m] else None,
        }
        for m in range(1, TURN_ROWS + 1)
        if count[m]
    ]
    return {
        "turns_with_first_blocks": correlation(size, first.astype(np.float64)),
        "turns_with_later_blocks": correlation(size[several], later),
        "reusable_blocks": reusable,
        "reusable_blocks_if_independent": independent,
        "ratio": reusable / independent if independent > 0 else None,
        "by_turns": table,
    }


def gap_independence(trace: Trace, gaps: Gaps) -> dict[str, Any]:
    """Gaps (Assumption B.4): autocorrelation within conversations, dependence on turn, length and kind."""
    seen = ~gaps.censored
    if not seen.any():
        return {"count": 0}
    seconds, turn, conversation = gaps.seconds[seen], gaps.turn[seen], gaps.conversation[seen]
    logs = np.log(np.maximum(seconds, 1e-9))
    positive = seconds > 0
    successive = (
        (conversation[1:] == conversation[:-1]) & (turn[1:] == turn[:-1] + 1) & positive[1:] & positive[:-1]
    )
    row = trace.starts[conversation] + turn - 1  # the turn that the gap follows
    kind = trace.kind[row + 1]
    mean, sd = float(seconds.mean()), float(seconds.std())
    return {
        "count": int(seconds.size),
        "zero": int((~positive).sum()),
        "mean": mean,
        "coefficient_of_variation": sd / mean if mean > 0 else None,
        "autocorrelation": correlation(logs[:-1][successive], logs[1:][successive]),
        "with_turn": correlation(np.log(turn[positive]), logs[positive]),
        "with_prompt_length": correlation(
            np.log(np.maximum(trace.input_tokens[row][positive], 1)), logs[positive]
        ),
        "by_turn": _gap_rows(
            "turn", np.minimum(turn, TURN_ROWS), seconds, lambda t: f"{t}+" if t == TURN_ROWS else str(t)
        ),
        "by_kind": _gap_rows("kind", kind, seconds, lambda code: KIND_NAMES[code]),
    }


def _gap_rows(name: str, group: np.ndarray, seconds: np.ndarray, label: Any) -> list[dict[str, Any]]:
    rows = []
    for value in np.flatnonzero(np.bincount(group)):
        chosen = seconds[group == value]
        median = float(np.partition(chosen, (chosen.size - 1) // 2)[(chosen.size - 1) // 2])
        rows.append(
            {name: label(value), "gaps": int(chosen.size), "mean": float(chosen.mean()), "median": median}
        )
    return rows


def arrivals(trace: Trace) -> dict[str, Any]:
    """First turns against a Poisson process: dispersion of counts (1 for Poisson) at several widths, time of
    day.
    """
    if trace.clock != "shared":
        return {"count": 0}
    times = trace.submitted_at[trace.starts]
    times = times[np.isfinite(times)]
    if np.any(times[1:] < times[:-1]):
        times = np.sort(times)
    if times.size < 2:
        return {"count": int(times.size)}
    # From the first arrival to the last: the file may go on after it with later turns only.
    begin, end = float(times[0]), float(times[-1])
    span = end - begin
    steps = np.diff(times)
    steps = steps[steps > 0]
    tick = _tick(steps) if steps.size + 1 < DISTINCT_TIMES * times.size else None
    found: dict[str, Any] = {
        "count": int(times.size),
        "span_seconds": span,
        "rate": (times.size - 1) / span if span > 0 else None,
        "distinct_times": int(steps.size + 1),
        "tick_seconds": tick,
    }
    rows = []
    for width in WIDTHS:
        bins = int(span // width)
        if bins < FEWEST_BINS or times.size < bins / 10 or width < TICKS * (tick or 0):
            continue
        counts = np.diff(np.searchsorted(times, begin + width * np.arange(bins + 1)))
        if counts.mean() > 0:
            band = 5 * np.sqrt(2 / (bins - 1))
            dispersion = float(counts.var(ddof=1) / counts.mean())
            rows.append(
                {
                    "width_seconds": width,
                    "bins": bins,
                    "mean": float(counts.mean()),
                    "dispersion": dispersion,
                    "poisson": bool(abs(dispersion - 1) <= band),
                }
            )
    found["dispersion"] = rows
    if span >= DAY / 4:
        offset = 0.0 if trace.origin is None else trace.origin % DAY
        hour = ((times + offset) / 3600).astype(np.int64) % 24
        exposure = _hours_covered(begin + offset, end + offset)
        counts = np.bincount(hour, minlength=24)
        found["by_hour"] = [
            {"hour": h, "arrivals": int(counts[h]), "rate": float(counts[h] / exposure[h])}
            for h in range(24)
            if exposure[h] > 60
        ]
        found["hours_are_utc"] = trace.origin is not None
    return found


def _tick(steps: np.ndarray) -> float | None:
    """The step of a clock that counts in steps: most waits between distinct times are one; None if they vary."""
    if not steps.size:
        return None
    short, usual = np.quantile(steps, (0.1, 0.5))
    return float(usual) if short > usual / 2 else None


def _hours_covered(begin: float, end: float) -> np.ndarray:
    """Seconds of each hour of the day inside [begin, end]."""
    days, rest = divmod(end - begin, DAY)
    edges = (np.floor(begin / 3600) + np.arange(27)) * 3600
    covered = np.clip(np.minimum(edges[1:], begin + rest) - np.maximum(edges[:-1], begin), 0, None)
    hour = (edges[:-1] // 3600 % 24).astype(np.int64)
    return days * 3600 + np.bincount(hour, weights=covered, minlength=24)


def tails(histories: Histories, gaps: Gaps) -> dict[str, Any]:
    """Light tails of the lifetime size B (Assumption B.3), and the tail of the gaps."""
    lifetime = histories.lifetime
    excess = mean_excess(lifetime)
    found: dict[str, Any] = {
        "lifetime_mean_excess": excess,
        "lifetime_tail_index": hill_index(lifetime),
        "turns_mean_excess": mean_excess(histories.lengths),
    }
    if len(excess) >= 2:
        found["lifetime_excess_growth"] = excess[-1]["mean_excess"] / excess[-2]["mean_excess"]
    observed = gaps.observed
    if observed.size:
        found["gap_tail_index"] = hill_index(observed)
    return found


def censoring(window: tuple[float, float] | None, trace: Trace, gaps: Gaps) -> dict[str, Any]:
    """Conversations that the file may have cut: it ends sooner after them than most gaps are long."""
    observed = gaps.observed
    if window is None or not observed.size:
        return {"usual_gap_seconds": None, "open_at_end_share": None, "near_start_share": None}
    usual = float(quantiles(observed, np.array([0.9]))[0])
    begin, end = window
    waits = gaps.seconds[gaps.censored]
    begins = trace.submitted_at[trace.starts]
    return {
        "usual_gap_seconds": usual,
        "window_seconds": end - begin,
        "open_at_end_share": float((waits < usual).mean()) if waits.size else 0.0,
        "near_start_share": float((begins < begin + usual).mean()),
        "longest_gap_over_window": float(observed.max() / (end - begin)) if end > begin else None,
    }
