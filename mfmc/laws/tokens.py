"""Workloads in tokens: laws of prompt and response lengths, and the conversations that they make.

T_1 = prompt_1 and T_j = T_{j-1} + response_{j-1} + prompt_j. In blocks of k tokens the paper's increment is
Z_j = ceil((tail_{j-1} + response_{j-1} + prompt_j) / k), tail_{j-1} = T_{j-1} mod k being the tokens of the unfilled
last block (Appendix E, Figure 2), and R_j its running sum; the token-exact accounting follows T_j itself (THEORY B3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from mfmc.errors import InputError
from mfmc.laws.conversations import ConversationLaw, _practical_jumps, _whole_jumps, convolve, turn_pmf
from mfmc.laws.pmf import checked_probabilities, pmf_from_one
from mfmc.laws.spectrum import HistoryTable, JumpMeasure
from mfmc.laws.turns import TurnLaw


def _check(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise InputError(f"tokens.{name}={value!r}: expected {expected}")


class TokenLaw:
    """A law on {1, 2, .., maximum} tokens."""

    def pmf(self) -> np.ndarray:
        """P(X = x) at index x."""
        raise NotImplementedError


@dataclass(frozen=True)
class ConstantTokens(TokenLaw):
    """Always `count` tokens."""

    count: int

    def __post_init__(self) -> None:
        _check(isinstance(self.count, int) and self.count >= 1, "count", self.count, "a whole number of at least 1")

    def pmf(self) -> np.ndarray:
        pmf = np.zeros(self.count + 1)
        pmf[-1] = 1
        return pmf


@dataclass(frozen=True)
class GeometricTokens(TokenLaw):
    """Geometric on {1, 2, ..}, cut at `maximum` and renormalised; `mean` is that before the cut."""

    mean: float
    maximum: int = 8192

    def __post_init__(self) -> None:
        _check(self.mean >= 1, "mean", self.mean, "at least 1")
        _check(self.maximum >= 1, "maximum", self.maximum, "a whole number of at least 1")

    def pmf(self) -> np.ndarray:
        pmf = np.zeros(self.maximum + 1)
        pmf[1:] = (1 - 1 / self.mean) ** np.arange(self.maximum) / self.mean
        return pmf / pmf.sum()


@dataclass(frozen=True)
class LognormalTokens(TokenLaw):
    """ceil of a lognormal of log-sd `sigma` and the given mean, cut at `maximum` and renormalised."""

    mean: float
    sigma: float
    maximum: int = 8192

    def __post_init__(self) -> None:
        _check(self.mean >= 1, "mean", self.mean, "at least 1")
        _check(self.sigma > 0, "sigma", self.sigma, "a positive number")
        _check(self.maximum >= 1, "maximum", self.maximum, "a whole number of at least 1")

    def pmf(self) -> np.ndarray:
        scale = math.log(self.mean) - self.sigma**2 / 2
        cdf = ndtr((np.log(np.arange(1, self.maximum + 1)) - scale) / self.sigma)
        pmf = np.diff(np.concatenate(([0.0, 0.0], cdf)))
        return pmf / pmf.sum()


@dataclass(frozen=True)
class EmpiricalTokens(TokenLaw):
    """P(X = 1), P(X = 2), .. as given, renormalised."""

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", checked_probabilities("tokens.probabilities", self.probabilities))

    def pmf(self) -> np.ndarray:
        return pmf_from_one(self.probabilities)


@dataclass(frozen=True)
class TokenBlocks:
    """Independent prompts and responses, in blocks of `block_tokens`; takes the place of a block law."""

    prompt: TokenLaw
    response: TokenLaw
    block_tokens: int

    def __post_init__(self) -> None:
        _check(isinstance(self.block_tokens, int) and self.block_tokens >= 1, "block_tokens", self.block_tokens,
               "a whole number of at least 1")

    def increment_pmf(self) -> np.ndarray:
        """The pmf of response + prompt: what every turn after the first adds, in tokens."""
        return convolve(self.response.pmf(), self.prompt.pmf())


@dataclass(frozen=True)
class TokenConversations(ConversationLaw):
    """M from a turn law, independent of the tokens of the turns."""

    turns: TurnLaw
    blocks: TokenBlocks

    accountings = ("whole", "practical", "token")
    independent = True

    def turn_pmf(self) -> np.ndarray:
        return turn_pmf(self.turns)

    def histories(self, accounting: str) -> HistoryTable:
        if accounting == "practical":
            return super().histories(accounting)
        return _token_histories(self, accounting)

    def allocated(self, accounting: str) -> float:
        if accounting != "token":
            return super().allocated(accounting)
        # new_j = content_j - reuse_{j-1}, summed over j <= M.
        return self.content("token") - self.histories("token").reuse.moment(1)

    def content(self, accounting: str) -> float:
        if accounting != "token":
            return super().content(accounting)
        survival = _survival(self.turn_pmf())
        return sum(
            survival[n] * float(pmf @ -(-np.arange(pmf.size) // self.blocks.block_tokens))
            for n, pmf in enumerate(_prompt_pmfs(self), start=1)
        )

    def jumps(self, accounting: str) -> JumpMeasure:
        if accounting == "token":
            return _token_jumps(self)
        table = self.histories("whole")
        return _whole_jumps(table) if accounting == "whole" else _practical_jumps(table)

    def mgf_abscissa(self) -> tuple[float, str]:
        """Lengths in tokens are bounded, so only an unbounded M can set a limit; Z <= U/k + 1 bounds it below."""
        radius = self.turns.generating_radius()
        if math.isinf(radius):
            return math.inf, "bounded number of turns and of tokens"
        pmf, k = self.blocks.increment_pmf(), self.blocks.block_tokens
        blocks = np.arange(pmf.size) / k + 1
        low, high = 0.0, math.log(radius)
        for _ in range(80):
            middle = (low + high) / 2
            if np.log(np.sum(pmf * np.exp(middle * blocks))) < math.log(radius):
                low = middle
            else:
                high = middle
        return low, "at least this (Z <= (response + prompt)/k + 1); unbounded number of turns"


def _survival(turn_pmf: np.ndarray) -> np.ndarray:
    """S_n = P(M >= n) at index n."""
    return np.cumsum(turn_pmf[::-1])[::-1]


@lru_cache(maxsize=8)
def _prompt_pmfs(law: TokenConversations) -> list[np.ndarray]:
    """The laws of T_1, T_2, .. in tokens."""
    pmf, step = law.blocks.prompt.pmf(), law.blocks.increment_pmf()
    out = [pmf]
    for _ in range(2, law.turn_pmf().size):
        pmf = convolve(pmf, step)
        out.append(pmf)
    return out


def _skip_tail(pmf: np.ndarray, k: int) -> np.ndarray:
    """Law of V = k R + tail from that of a position U with R = ceil(U / k): the unfilled tail is allocated anew."""
    position = np.arange(pmf.size)
    moved = -(-position // k) * k + position % k
    return np.bincount(moved, weights=pmf)


def _allocated_pmfs(law: TokenConversations) -> list[np.ndarray]:
    """The laws of the positions U_n with R_n = ceil(U_n / k), whole content: U_{n+1} = V(U_n) + response + prompt."""
    pmf, step = law.blocks.prompt.pmf(), law.blocks.increment_pmf()
    out = [pmf]
    for _ in range(2, law.turn_pmf().size):
        pmf = convolve(_skip_tail(pmf, law.blocks.block_tokens), step)
        out.append(pmf)
    return out


@lru_cache(maxsize=16)
def _token_histories(law: TokenConversations, accounting: str) -> HistoryTable:
    k, turn_pmf = law.blocks.block_tokens, law.turn_pmf()
    survival = _survival(turn_pmf)
    if accounting == "whole":
        sizes = [np.bincount(-(-np.arange(p.size) // k), weights=p) for p in _allocated_pmfs(law)]
    else:
        sizes = [np.bincount(np.arange(p.size) // k, weights=p) for p in _prompt_pmfs(law)]
    ends = np.zeros((turn_pmf.size, max(s.size for s in sizes)))
    continues = np.zeros_like(ends)
    for n, size in enumerate(sizes, start=1):
        ends[n, : size.size] = turn_pmf[n] * size
        continues[n, : size.size] = (survival[n] - turn_pmf[n]) * size
    return HistoryTable.from_dense(ends, continues)


@lru_cache(maxsize=8)
def _token_jumps(law: TokenConversations) -> JumpMeasure:
    """THEORY B3: mass new_1+..+new_n for arrivals, reuse_l + new_{l+1}+..+new_n for those waiting after turn l."""
    k, turn_pmf = law.blocks.block_tokens, law.turn_pmf()
    turns = turn_pmf.size - 1
    going_on = _survival(turn_pmf) - turn_pmf  # P(M > n)
    step = law.blocks.increment_pmf()
    found: dict[tuple[int, int], np.ndarray] = {}

    def add(order: int, pmf: np.ndarray, weight: float) -> None:
        if weight:
            mass = weight * np.bincount(-(-np.arange(pmf.size) // k), weights=pmf)
            key = (order, mass.size)
            found[key] = found[key] + mass if key in found else mass

    for n, pmf in enumerate(_allocated_pmfs(law), start=1):
        add(n - 1, pmf, turn_pmf[n] + going_on[n])
        add(n, pmf, -going_on[n])
    for waited, start in enumerate(_prompt_pmfs(law)[:-1], start=1):
        # reuse_l + new_{l+1} = ceil((T_l + U) / k): the tail of turn l is not counted twice.
        pmf = convolve(start, step)
        for n in range(waited + 1, turns + 1):
            s = n - waited
            add(s - 1, pmf, turn_pmf[n] + going_on[n])
            add(s, pmf, -turn_pmf[n] - 2 * going_on[n])
            add(s + 1, pmf, going_on[n])
            if n < turns:
                pmf = convolve(_skip_tail(pmf, k), step)
    dense = np.zeros((turns + 1, max(size for _, size in found)))
    for (order, size), mass in found.items():
        if order <= turns:  # the orders beyond carry weight 0: nobody goes on after the last turn
            dense[order, :size] += mass
    return JumpMeasure.from_dense(dense)
