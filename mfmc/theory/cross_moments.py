"""How the sizes of one conversation at two of its turns go together: E[R_m R_n], which the covariance of D_N
needs.
"""

from __future__ import annotations

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.conversations import BlockConversations, ConversationLaw
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import TokenConversations, _allocated_pmfs


def lagged_moments(law: ConversationLaw) -> tuple[np.ndarray, np.ndarray]:
    """sum_m E[R_m R_{m+k} 1{M = m+k}] and sum_m E[R_m R_{m+k} 1{M > m+k}] at index k >= 1; float64 [turns]
    each.
    """
    if isinstance(law, RecordedConversations):
        return _recorded_moments(law)
    if isinstance(law, BlockConversations):
        return _block_moments(law)
    if isinstance(law, TokenConversations):
        return _token_moments(law)
    raise InputError(f"conversations={law!r}: no joint moments of R_m and R_n are known for this law")


def _recorded_moments(law: RecordedConversations) -> tuple[np.ndarray, np.ndarray]:
    nodes, turn = law.nodes(), law.turn
    size = np.array([float(nodes.rows[row][0][0, 0]) for row in nodes.entry_row])
    final = turn == law.row_length
    ends, continues = np.zeros(law.lengths.max()), np.zeros(law.lengths.max())
    for lag in range(1, ends.size):
        later = np.flatnonzero(turn > lag)
        product = size[later] * size[later - lag] / law.lengths.size
        ends[lag] = product[final[later]].sum()
        continues[lag] = product[~final[later]].sum()
    return ends, continues


def _block_moments(law: BlockConversations) -> tuple[np.ndarray, np.ndarray]:
    """Given M the increments are independent: E[R_m R_n] = E[R_m^2] + E[R_m] (E[R_n] - E[R_m])."""
    pmf = law.turn_pmf()
    ends, continues = np.zeros(pmf.size - 1), np.zeros(pmf.size - 1)
    for length, histories in law.classes():
        mean = np.array([p @ np.arange(p.size) for p in histories])
        square = np.array([p @ np.arange(p.size) ** 2.0 for p in histories])
        product = square[:, None] + mean[:, None] * (mean[None, :] - mean[:, None])
        _add_lags(ends, continues, pmf[length] * product, length)
    return ends, continues


def _token_moments(law: TokenConversations) -> tuple[np.ndarray, np.ndarray]:
    """Given R_m only the tokens in the unfilled block matter for what is added later: a chain on 0..k-1."""
    pmf, k = law.turn_pmf(), law.blocks.block_tokens
    step = law.blocks.increment_pmf()
    tail, added = np.arange(k)[:, None], np.arange(step.size)[None, :]
    blocks = -(-(tail + added) // k) @ step  # E[Z | tail]
    moves = np.zeros((k, k))
    np.add.at(moves, (np.broadcast_to(tail, (k, step.size)), (tail + added) % k), step)
    growth = [np.zeros(k)]  # E[R_{m+lag} - R_m | tail of turn m] at index lag
    for _ in range(1, pmf.size):
        growth.append(blocks + moves @ growth[-1])
    positions = _allocated_pmfs(law)
    turns = pmf.size - 1
    product = np.zeros((turns, turns))
    for m, position in enumerate(positions):
        place = np.arange(position.size)
        size = -(-place // k)
        by_tail = np.bincount(place % k, weights=position * size, minlength=k)  # E[R_m; tail]
        square = position @ size**2.0
        for n in range(m + 1, turns):
            product[m, n] = square + by_tail @ growth[n - m]
    ends, continues = np.zeros(turns), np.zeros(turns)
    for length in np.flatnonzero(pmf):
        _add_lags(ends, continues, pmf[length] * product[:length, :length], int(length))
    return ends, continues


def _add_lags(ends: np.ndarray, continues: np.ndarray, product: np.ndarray, length: int) -> None:
    """Add E[R_m R_n; M = length] (at [m - 1, n - 1]) to the sums over m of equal n - m."""
    for lag in range(1, length):
        diagonal = np.diagonal(product, lag)
        ends[lag] += diagonal[-1]
        continues[lag] += diagonal[:-1].sum()
