"""Laws of the gap read from a trace: the raw empirical F of (38), and Kaplan-Meier's for cut observation.

A file ends while conversations are still open. Long gaps are cut more often than short ones, so the gaps seen
are too short on average: the raw F is biased up. After every turn either the next one was seen, or the file
ended `c` seconds later without it. Kaplan and Meier's product S(t) estimates P(no next turn within t), which
levels off at the probability that a turn is the last; given that another turn follows, the gap has

    F(t) = (1 - S(t)) / (1 - S(t_last)),

a cure model (Maller and Zhou 1992), with t_last the longest gap seen among at least `FEWEST_AT_RISK` turns
watched for so long. It needs a file much longer than the gaps, as S must have levelled off by then.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from mfmc.errors import InputError
from mfmc.laws.gaps import EmpiricalGaps
from mfmc.traces.table import Gaps, Trace

#: F is kept at so many of its points and joined by lines: an error of F below 1/32768.
MOST_KNOTS = 1 << 15
#: Points of F that are kept where the exact law integrates between each two of them.
SIMULATION_KNOTS = 256
#: Of a file that cuts gaps, S is not followed to where fewer turns than this were watched: one gap would
#: decide it.
FEWEST_AT_RISK = 20


class KaplanMeier(NamedTuple):
    """`law` of the gap given that a turn follows; `continues` = P(a turn is followed by another), corrected;
    `seen` the same without correction.
    """

    law: EmpiricalGaps
    continues: float
    seen: float


def usable_gaps(gaps: Gaps) -> tuple[np.ndarray, np.ndarray]:
    """(seconds, censored): without gaps before a prompt that shrank or rewrote the context, which reuses
    nothing; in whole microseconds, as equal gaps must not differ by the rounding of their times.
    """
    use = gaps.appended | gaps.censored
    seconds = np.round(gaps.seconds, 6)
    return (seconds, gaps.censored) if use.all() else (seconds[use], gaps.censored[use])


def empirical(seconds: np.ndarray) -> EmpiricalGaps:
    """The raw F of (38), joined by lines (see `EmpiricalGaps`)."""
    _require_gaps(seconds)
    return condensed(EmpiricalGaps(seconds))


def kaplan_meier(seconds: np.ndarray, censored: np.ndarray) -> KaplanMeier:
    """F from gaps of which some were cut by the end of the file; float64 [n] and bool [n]."""
    seen = seconds[~censored]
    _require_gaps(seen)
    values, events = np.unique(seen, return_counts=True)
    cut = np.sort(seconds[censored])
    ended_before = np.concatenate([[0], np.cumsum(events)[:-1]])
    at_risk = seconds.size - ended_before - np.searchsorted(cut, values, side="left")
    if cut.size:
        followed = max(int(np.searchsorted(-at_risk, -FEWEST_AT_RISK, side="right")), 1)
        values, events, at_risk = values[:followed], events[:followed], at_risk[:followed]
        _require_gaps(values)
    survival = np.cumprod(1 - events / at_risk)
    continues = float(1 - survival[-1])
    law = from_cdf(values, (1 - survival) / continues)
    return KaplanMeier(condensed(law), continues, seen.size / seconds.size)


def trace_gaps(trace: Trace, most: int = SIMULATION_KNOTS) -> EmpiricalGaps:
    """The gaps of a trace as a law to simulate from: Kaplan and Meier's where the file's end cuts some, else
    the raw one, at `most` points of F.
    """
    seconds, censored = usable_gaps(trace.gaps())
    law = kaplan_meier(seconds, censored).law if censored.any() else empirical(seconds)
    return condensed(law, most)


def from_cdf(times: np.ndarray, heights: np.ndarray) -> EmpiricalGaps:
    """The law whose F joins (0, 0) and the points (times, heights) by lines; increasing, the last height
    1.
    """
    positive = times > 0
    knots = np.concatenate([[0.0], times[positive]])
    values = np.concatenate([[0.0], heights[positive]])
    # The constructor counts samples of equal weight; knots and heights are the law's leaves.
    return jax.tree.unflatten(jax.tree.structure(EmpiricalGaps([1.0])), (knots, values / values[-1]))


def condensed(law: EmpiricalGaps, most: int = MOST_KNOTS) -> EmpiricalGaps:
    """The same law at no more than about `most` of its knots, evenly spread in probability."""
    knots, heights = law.piecewise()
    if knots.size <= most:
        return law
    level = np.floor(heights * (most - 2))
    keep = np.append(level[1:] != level[:-1], True)
    keep[0] = True
    # The knot below each jump of F stays too, else a jump would be smeared over the knots left out.
    jump = np.flatnonzero(np.diff(heights) > 1 / most)
    keep[jump] = keep[jump + 1] = True
    return from_cdf(knots[keep], heights[keep])


def _require_gaps(seconds: np.ndarray) -> None:
    if not seconds.size or seconds.max() <= 0:
        raise InputError(
            "the trace has no gap between two turns of a conversation that is above 0 s: give a gap law"
            " (gap_mean or gaps)"
        )
