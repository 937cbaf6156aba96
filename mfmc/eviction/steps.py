"""The table of steps that the time-out study works on, and what a step can reuse.

A *step* is one request of a session: a prompt of `total` tokens, of which the deployed cache served `prefix`,
answered by `output` tokens, after an idle *gap* since the step before it in the same session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import InputError


@dataclass(frozen=True)
class Coverage:
    """How many steps enter the sums, and why the others do not (a step is counted under its first reason)."""

    steps: int
    covered: int
    session_first: int  # no predecessor, so nothing is known about what is fresh
    without_tokens: int  # the prompt of the step or of its predecessor is empty or unknown
    without_gap: int  # no measurable idle gap before the step


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps grouped by session (each session one contiguous run), in order within a session. Build with
    `steps_from_*`.

    session: int64 [n], session number, nondecreasing. total, prefix, output: int64 [n], tokens; `prefix` is
    what the deployed cache served, None where the trace does not say. gap: float64 [n], seconds idle before
    the step, NaN where there is none. generation: float64 [n], seconds of active decoding, NaN where unknown.
    provider, kind: int64 [n], indices into `providers` and `kinds`. rejected: rows of the source that were
    not used, or only in part, by reason.
    """

    session: np.ndarray
    total: np.ndarray
    prefix: np.ndarray | None
    output: np.ndarray
    gap: np.ndarray
    generation: np.ndarray
    provider: np.ndarray
    kind: np.ndarray
    providers: tuple[str, ...]
    kinds: tuple[str, ...]
    rejected: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.session)

    @property
    def sessions(self) -> int:
        return int(self.first.sum())

    @cached_property
    def first(self) -> np.ndarray:
        """bool [n]: the step opens its session."""
        return np.concatenate([[True], self.session[1:] != self.session[:-1]])

    @cached_property
    def append(self) -> np.ndarray:
        """int64 [n]: tokens that the deployed cache did not serve (the whole prompt if that is unknown)."""
        return self.total if self.prefix is None else self.total - self.prefix

    @cached_property
    def fresh(self) -> np.ndarray:
        """int64 [n]: clip(max(0, L - L_prev) - output_prev, 0, append), tokens that no cache can have.

        The context grew by the predecessor's output and by new user or tool tokens; only the latter are
        fresh. A session's first step is fresh as far as it was not served.
        """
        growth = np.maximum(self.total - _previous(self.total, self.first), 0)
        fresh = np.clip(growth - _previous(self.output, self.first), 0, self.append)
        return np.where(self.first, self.append, fresh)

    @cached_property
    def cacheable(self) -> np.ndarray:
        """int64 [n]: L - fresh, tokens that a cache without eviction would serve."""
        return self.total - self.fresh

    @cached_property
    def held(self) -> np.ndarray:
        """int64 [n]: tokens whose keys and values exist when the step ends: its prompt and its output."""
        return self.total + self.output

    @cached_property
    def covered(self) -> np.ndarray:
        """bool [n]: the step has a predecessor, a measurable gap, and both prompts are known."""
        return ~self.first & self._has_tokens & np.isfinite(self.gap)

    @cached_property
    def _has_tokens(self) -> np.ndarray:
        return (self.total > 0) & (_previous(self.total, self.first) > 0)

    def coverage(self, chosen: np.ndarray | None = None) -> Coverage:
        """Count the steps of `chosen` (bool [n], all by default) by whether and why they are covered."""
        chosen = np.ones(len(self), bool) if chosen is None else chosen
        later = chosen & ~self.first
        return Coverage(
            steps=int(chosen.sum()),
            covered=int((chosen & self.covered).sum()),
            session_first=int((chosen & self.first).sum()),
            without_tokens=int((later & ~self._has_tokens).sum()),
            without_gap=int((later & self._has_tokens & ~np.isfinite(self.gap)).sum()),
        )


def steps_from_arrays(
    session: Sequence | np.ndarray,
    total: np.ndarray,
    output: np.ndarray,
    gap: np.ndarray,
    *,
    prefix: np.ndarray | None = None,
    generation: np.ndarray | None = None,
    provider: Sequence | np.ndarray | None = None,
    kind: Sequence | np.ndarray | None = None,
    order: Sequence[np.ndarray] = (),
    rejected: Mapping[str, int] | None = None,
) -> Steps:
    """Build the table from columns of length n, one entry per step.

    `session`, `provider` and `kind` hold labels of any kind. Sessions need not be contiguous: rows are
    grouped by session in order of first appearance and, within one, sorted by the keys of `order` (the first
    key leads), then by row. `prefix` above `total`, and negative gaps and spans, are impossible: they are cut
    or blanked, and counted in `rejected`. `gap` is NaN where there is none, `generation` where unknown; both
    in seconds.
    """
    count = len(session)
    if count == 0:
        raise InputError("the steps table is empty: expected at least one row")
    reasons = dict(rejected or {})
    codes, _ = _labels(session)
    rows = np.lexsort((*[np.asarray(key) for key in reversed(order)], codes))

    def column(name: str, values: np.ndarray | None, dtype: type) -> np.ndarray:
        values = np.full(count, np.nan) if values is None else np.asarray(values)
        if len(values) != count:
            raise InputError(f"column {name} has {len(values)} rows, expected {count} as in column session")
        return values.astype(dtype)[rows]

    def count_reason(reason: str, bad: np.ndarray) -> None:
        if bad.any():
            reasons[reason] = reasons.get(reason, 0) + int(bad.sum())

    tokens = column("total", total, np.int64)
    outputs = column("output", output, np.int64)
    if (tokens < 0).any() or (outputs < 0).any():
        raise InputError("total and output must be token counts of 0 or more (0 where unknown)")
    served = None
    if prefix is not None:
        served = column("prefix", prefix, np.int64)
        outside = (served > tokens) | (served < 0)
        count_reason("prefix outside the prompt (cut to it)", outside)
        served = np.clip(served, 0, tokens)
    seconds = {}
    for name, values in (("gap", gap), ("generation", generation)):
        seconds[name] = column(name, values, np.float64)
        impossible = np.isinf(seconds[name]) | (seconds[name] < 0)
        count_reason(f"{name} negative or infinite (ignored)", impossible)
        seconds[name][impossible] = np.nan
    provider_codes, providers = _labels(["all"] * count if provider is None else provider)
    kind_codes, kinds = _labels(["step"] * count if kind is None else kind)
    return Steps(
        session=codes[rows],
        total=tokens,
        prefix=served,
        output=outputs,
        gap=seconds["gap"],
        generation=seconds["generation"],
        provider=column("provider", provider_codes, np.int64),
        kind=column("kind", kind_codes, np.int64),
        providers=providers,
        kinds=kinds,
        rejected=reasons,
    )


def _previous(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The value of the step before, 0 for a session's first step."""
    return np.where(first, 0, np.concatenate([values[:1], values[:-1]]))


def _labels(values: Sequence | np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Number labels in order of first appearance."""
    array = (
        values
        if isinstance(values, np.ndarray) and values.dtype != object
        else np.array([str(v) for v in values])
    )
    names, where, codes = np.unique(array, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(where))
    return rank[codes], tuple(str(names[i]) for i in np.argsort(where))
