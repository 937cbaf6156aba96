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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.gaps import EmpiricalGaps
from mfmc.traces.table import Gaps

#: F is kept at so many of its points and joined by lines: an error of F of about 1/32768.
MOST_KNOTS = 1 << 15
#: Gaps from which the law of blocks' gaps is taken.
MOST_WEIGHTED = 1 << 20
#: Of a file that cuts gaps, S is not followed to where fewer turns than this were watched: one gap would
#: decide it. (In a small file, a tenth of them.)
FEWEST_AT_RISK = 20


class KaplanMeier(NamedTuple):
    """`law` of the gap given that a turn follows; `continues` = P(a turn is followed by another), corrected;
    `seen` the same without correction.
    """

    law: EmpiricalGaps
    continues: float
    seen: float

    @property
    def unseen(self) -> float:
        """What to multiply the reuse seen with, to count the turns that came after the file's end (1 or more)."""
        return max(self.continues / self.seen, 1.0)


def usable_gaps(gaps: Gaps) -> Gaps:
    """Without gaps before a prompt that shrank or rewrote the context, which reuses nothing; in whole
    microseconds, as equal gaps must not differ by the rounding of their times.
    """
    use = gaps.appended | gaps.censored
    gaps = gaps._replace(seconds=np.round(gaps.seconds, 6))
    return gaps if use.all() else Gaps(*(column[use] for column in gaps))


@dataclass(frozen=True, eq=False)
class SeenGaps:
    """Gaps of a file, counted at their distinct values, or at about MOST_KNOTS of them.

    values: float64 [n], increasing. ended: [n] gaps that ended in (values[i - 1], values[i]]. cut: [n] waits
    that the file's end cut below values[i]. waits: gaps and cut waits in all. mean: of the gaps, in seconds.
    All counts are of weights where gaps have weights.
    """

    values: np.ndarray
    ended: np.ndarray
    cut: np.ndarray
    waits: float
    mean: float

    @classmethod
    def of(cls, seconds: np.ndarray, censored: np.ndarray, weights: np.ndarray | None = None) -> SeenGaps:
        """From float64 [n], bool [n] and perhaps weights of mean 1. Raises InputError where no gap is above
        0.
        """
        ordered = np.sort(seconds[~censored])
        if not ordered.size or ordered[-1] <= 0:
            raise InputError(
                "the trace has no gap between two turns of a conversation that is above 0 s: give a gap law"
                " (gap_mean or gaps)"
            )
        values = _knots(ordered)
        if weights is None:
            ended = np.diff(np.searchsorted(ordered, values, side="right"), prepend=0)
            cut = np.searchsorted(np.sort(seconds[censored]), values, side="left")
            return cls(values, ended, cut, seconds.size, float(ordered.mean()))
        seen, size = ~censored, values.size
        ended = np.bincount(np.searchsorted(values, seconds[seen], side="left"), weights[seen], minlength=size)
        left = np.searchsorted(values, seconds[censored], side="right")
        cut = np.cumsum(np.bincount(left, weights[censored], minlength=size + 1))[:size]
        mean = float(seconds[seen] @ weights[seen] / weights[seen].sum())
        return cls(values, ended, cut, float(weights.sum()), mean)

    @property
    def count(self) -> float:
        """Gaps that ended."""
        return float(self.ended.sum())

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """The smallest values that at least the share `levels` of the gaps does not exceed."""
        return self.values[np.searchsorted(np.cumsum(self.ended), levels * self.count)]

    def empirical(self) -> EmpiricalGaps:
        """The raw F of (38), joined by lines (see `EmpiricalGaps`)."""
        return EmpiricalGaps.from_cdf(self.values, np.cumsum(self.ended) / self.count)

    def kaplan_meier(self) -> KaplanMeier:
        """F corrected for the waits that were cut."""
        values, ended = self.values, self.ended
        at_risk = self.waits - (np.cumsum(ended) - ended) - self.cut
        if self.cut[-1] > 0 or self.waits > self.count * (1 + 1e-9):
            fewest = min(FEWEST_AT_RISK, self.waits / 10)
            followed = max(int(np.searchsorted(-at_risk, -fewest, side="right")), 1)
            if values[followed - 1] == 0:  # zeros alone are no law
                followed = 2
            values, ended, at_risk = values[:followed], ended[:followed], at_risk[:followed]
        survival = np.cumprod(1 - np.minimum(ended / at_risk, 1))
        return KaplanMeier(
            EmpiricalGaps.from_cdf(values, 1 - survival), float(1 - survival[-1]), self.count / self.waits
        )


def size_weighted(gaps: Gaps, block_tokens: int) -> KaplanMeier | None:
    """F of a reusable block's gap: every gap counts with the full blocks of the prompt before it.

    E[sum_{j<M} reuse_j 1{W_j <= t}] / A_H, which is what displacement and hits see (the mean field of THEORY
    B3 without its assumption that gaps ignore sizes); corrected for cut waits as Kaplan and Meier's. Of
    very many gaps, from every k-th. None where no gap above 0 follows a full block.
    """
    every = max(1, gaps.seconds.size // MOST_WEIGHTED)
    seconds, censored = gaps.seconds[::every], gaps.censored[::every]
    weights = (gaps.prompt_tokens[::every] // block_tokens).astype(float)
    use = weights > 0
    if not np.any(use & ~censored & (seconds > 0)):
        return None
    seconds, censored, weights = seconds[use], censored[use], weights[use]
    return SeenGaps.of(seconds, censored, weights / weights.mean()).kaplan_meier()


def _knots(ordered: np.ndarray) -> np.ndarray:
    """The distinct values of sorted gaps, or MOST_KNOTS evenly spread in rank."""
    if ordered.size <= MOST_KNOTS:
        return np.unique(ordered)
    picked = np.unique(ordered[np.linspace(0, ordered.size - 1, MOST_KNOTS).astype(np.int64)])
    below = np.searchsorted(ordered, picked, side="left")
    # The value below each jump of F stays too, else the jump would be smeared over the values left out.
    jump = np.searchsorted(ordered, picked, side="right") - below > ordered.size / MOST_KNOTS
    return np.union1d(picked, ordered[below[jump & (below > 0)] - 1])


def empirical(seconds: np.ndarray) -> EmpiricalGaps:
    """The raw F of (38) of gaps, float64 [n]."""
    return SeenGaps.of(seconds, np.zeros(seconds.size, dtype=bool)).empirical()


def kaplan_meier(seconds: np.ndarray, censored: np.ndarray) -> KaplanMeier:
    """F from gaps of which some were cut by the end of the file; float64 [n] and bool [n]."""
    return SeenGaps.of(seconds, censored).kaplan_meier()


def condensed(law: EmpiricalGaps, most: int) -> EmpiricalGaps:
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
    return EmpiricalGaps.from_cdf(knots[keep], heights[keep])

