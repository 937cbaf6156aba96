"""Block increments of a trace as a law: the kind by likelihood, the means by what the estimator reads.

Long conversations have shorter turns (THEORY B1), so a law of sizes that ignores M misses the reusable
blocks. The law's `length_power` is therefore set so that A_H is the trace's, and `later` so that E[B] is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

from mfmc.accounting import prompt_totals, sequences
from mfmc.estimator.moments import ConversationSums
from mfmc.traces.table import ConversationTable

MOST_POWER = 3.0
SAMPLE = 100_000


@dataclass(frozen=True)
class BlockFit:
    """`settings`: the `blocks` section of a workload; first, later: E[Z_1] and E[Z_j | M = 2] in blocks;
    lifetime, reusable: E[B] and A_H under it with the turn law; log_likelihood, in natural logarithms, and ks:
    largest distance between the cdf of all increments and the fitted one, of at most `SAMPLE` of them.
    """

    settings: dict[str, Any]
    first: float
    later: float
    lifetime: float
    reusable: float
    log_likelihood: float
    ks: float

    @property
    def words(self) -> str:
        """One line."""
        return (
            f"{self.settings['kind']}, mean {self.first:.4g} blocks in the first turn and"
            f" {self.later:.4g} in later ones of"
            f" conversations of two turns, times (M/2)^{self.settings['length_power']:.3g}"
        )

    def summary(self, sums: ConversationSums) -> dict[str, Any]:
        """The fit beside the trace."""
        whole = sums.moments("whole")
        return {
            "settings": self.settings,
            "lifetime_blocks": self.lifetime,
            "lifetime_blocks_of_trace": whole.allocated,
            "reusable_blocks": self.reusable,
            "reusable_blocks_of_trace": whole.reusable,
            "ks": self.ks,
            "log_likelihood": self.log_likelihood,
        }


@dataclass(frozen=True)
class _Means:
    """E[Z_j | M = m] = base + max(later (m/2)^power, least), j >= 2, over a pmf of M (index m)."""

    pmf: np.ndarray
    first: float
    base: float
    least: float

    def later_mean(self, later: float, power: float, turns: np.ndarray) -> np.ndarray:
        return self.base + np.maximum(later * (np.maximum(turns, 1) / 2) ** power, self.least)

    def lifetime(self, later: float, power: float) -> float:
        """E[B]."""
        m = np.arange(self.pmf.size)
        return float(self.first + self.pmf @ (np.maximum(m - 1, 0) * self.later_mean(later, power, m)))

    def reusable(self, later: float, power: float) -> float:
        """A_H = E[sum_{j<M} R_j]."""
        m = np.arange(self.pmf.size)
        before = np.maximum(m - 1, 0) * np.maximum(m - 2, 0) / 2
        mean = self.later_mean(later, power, m)
        return float(self.pmf @ (np.maximum(m - 1, 0) * self.first + before * mean))

    def later_for(self, lifetime: float, power: float) -> float:
        """`later` with that E[B]; the least where even that is too much."""
        low, high = 1e-9, 1.0
        if self.lifetime(low, power) >= lifetime:
            return max(self.least, low)
        while self.lifetime(high, power) < lifetime:
            high *= 2
        return brentq(lambda later: self.lifetime(later, power) - lifetime, low, high)


def fit_blocks(table: ConversationTable, sums: ConversationSums, turn_pmf: np.ndarray) -> list[BlockFit]:
    """Poisson, geometric and lognormal increments with the trace's E[Z_1], E[B] and A_H, for a turn law of this
    pmf; the likeliest first.
    """
    starts = np.flatnonzero(np.diff(table.conversation, prepend=-1))
    lengths = np.diff(np.append(starts, table.conversation.size))
    turn = np.arange(table.conversation.size) - np.repeat(starts, lengths) + 1
    total = prompt_totals(table.prompt_tokens, table.response_tokens, turn=turn)
    new = sequences("whole", tokens=total, block_tokens=table.block_tokens, turn=turn).new
    increment, turns = np.maximum(new, 1), np.repeat(lengths, lengths)
    first = max(float(increment[starts].mean()), 1.0)
    target = sums.moments("whole")
    every = slice(None, None, max(1, increment.size // SAMPLE))
    fits = []
    for kind in ("poisson", "geometric", "lognormal"):
        base, least = (1.0, 0.0) if kind == "poisson" else (0.0, 1.0)
        means = _Means(turn_pmf, first, base, least)
        power = _power(means, target.allocated, target.reusable)
        later = means.later_for(target.allocated, power)
        mean = np.where(turn == 1, first, means.later_mean(later, power, turns))[every]
        settings: dict[str, Any] = {"kind": kind, "first": first, "later": max(later, least)}
        if kind == "poisson":
            settings |= {"first": first - 1, "first_minimum": 1, "later_minimum": 1}
            cdf = partial(_poisson_cdf, mean)
        elif kind == "geometric":
            cdf = partial(_geometric_cdf, mean)
        else:
            sigma = _sigma(increment[every], mean)
            settings |= {"sigma": sigma, "maximum": int(increment.max())}
            cdf = partial(_lognormal_cdf, mean, sigma)
        fits.append(BlockFit(
            settings | {"length_power": power}, first, float(means.later_mean(later, power, np.array(2.0))),
            means.lifetime(later, power), means.reusable(later, power),
            _log_likelihood(increment[every], cdf), _distance(increment[every], cdf),
        ))  # fmt: skip
    return sorted(fits, key=lambda fit: -fit.log_likelihood)


def _poisson_cdf(mean: np.ndarray, z: np.ndarray) -> np.ndarray:
    """P(Z <= z) of 1 + Poisson, by increment; the same for the other two."""
    return stats.poisson.cdf(z - 1, mean - 1)


def _geometric_cdf(mean: np.ndarray, z: np.ndarray) -> np.ndarray:
    return 1 - (1 - 1 / mean) ** z


def _lognormal_cdf(mean: np.ndarray, sigma: float, z: np.ndarray) -> np.ndarray:
    # Rounding up adds half a block on average.
    scale = np.log(np.maximum(mean - 0.5, 0.1)) - sigma**2 / 2
    return stats.norm.cdf((np.log(np.maximum(z, 1e-300)) - scale) / sigma)


def _sigma(increment: np.ndarray, mean: np.ndarray) -> float:
    def loss(log_sigma: float) -> float:
        return -_log_likelihood(increment, partial(_lognormal_cdf, mean, float(np.exp(log_sigma))))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 1.5), method="bounded").x))


def _log_likelihood(increment: np.ndarray, cdf: Callable) -> float:
    return float(np.log(np.maximum(cdf(increment) - cdf(increment - 1), 1e-300)).sum())


def _distance(increment: np.ndarray, cdf: Callable) -> float:
    """KS distance over the quantiles of the increments; the fitted cdf is the mean over their turns."""
    points = np.unique(np.quantile(increment, np.linspace(0, 1, 101), method="inverted_cdf"))
    return max(abs(float(cdf(z).mean() - (increment <= z).mean())) for z in points)


def _power(means: _Means, lifetime: float, reusable: float) -> float:
    """The length power that gives A_H together with E[B]; the nearest allowed one where none does."""
    if means.pmf.size <= 3:  # no conversation of three turns: nothing depends on it
        return 0.0

    def excess(power: float) -> float:
        return means.reusable(means.later_for(lifetime, power), power) - reusable

    if excess(-MOST_POWER) >= 0:
        return -MOST_POWER
    if excess(MOST_POWER) <= 0:
        return MOST_POWER
    return float(brentq(excess, -MOST_POWER, MOST_POWER, xtol=1e-6))
