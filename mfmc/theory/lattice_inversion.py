"""Probabilities of a compound Poisson law on a lattice, by Fourier inversion on the real axis.

For X on the whole numbers, an even period L and theta_k = (2k + 1) pi / L, odd multiples make a square wave:

    P(X <= y) = 1/2 - (1/L) sum_{k < L/2} Im( E[e^{i theta_k X}] e^{-i theta_k (y + 1/2)} ) / sin(theta_k / 2)

up to P(X > y + L) + P(X <= y - L). The characteristic function of a law of standard deviation sd is below
1e-17 past theta = 9/sd, and L is about 17 sd, so some 25 nodes do, whatever the size of X. Where the law is
far from normal (few conversations, heavy tails, blocks that almost lie on a coarser lattice) more nodes
survive. They are found by branch and bound: with S(theta) = -log |E[e^{i theta X}]| = sum_r m(r) |e^{i theta
r} - 1|^2 / 2, the triangle inequality in L2(m) gives

    sqrt(S(theta + eps)) >= sqrt(S(theta)) - sqrt(S(eps)).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.fft import fft, next_fast_len

from mfmc.laws.renewal import follows_kinks
from mfmc.theory.chernoff import TailTable
from mfmc.theory.displacement_law import DisplacementLaw

#: Nodes where S exceeds this are left out: e^-35 = 6e-16, and fewer than ten such terms could add up.
_NEGLIGIBLE = 35.0

#: -log of the probability that may lie beyond one period.
ALIASED = 34.0

#: Arrays of this many elements are formed at once.
_CHUNK = 4_000_000

#: Terms of a Taylor series about the middle of a panel: 0.5^14 / 14! = 7e-16.
_TERMS = 14

#: Times between which the jump measure is interpolated where it has more rows than that; see `_rows`.
SAMPLES = 24
_COSINES = np.cos(np.pi * (np.arange(SAMPLES) + 0.5) / SAMPLES)
_SIGNS = (-1.0) ** np.arange(SAMPLES) * np.sqrt(1 - _COSINES**2)

#: Length up to which an FFT costs next to nothing.
_SHORT = 2**18

#: Expected jumps up to which the rounding of an FFT is harmless, 1e-16 times as much.
_FEW_JUMPS = 1000.0


class LatticeInversion:
    """sum_i weights[i] P(D_N(t) / span + offsets[i] <= y), for t in [first, last] and y in [low, high].

    `tails` bounds the law of D_N(t) / span + Q, Q drawn from the weights. Jumps above the `largest` of the
    law are counted as never fitting in. Absolute error about 1e-14 times the total weight: at every t where
    `everywhere` is true, else at `sample_times` alone.
    """

    def __init__(
        self,
        law: DisplacementLaw,
        tails: TailTable,
        offsets: np.ndarray,
        weights: np.ndarray,
        levels: tuple[int, int],
        times: tuple[float, float],
    ):
        self._law, self._span, self._mass = law, law.span, float(weights.sum())
        narrow, wide = law.integrals([times[0]]), law.integrals([times[1]])
        reach = max(tails.highest(wide, ALIASED) - levels[0], levels[1] - tails.lowest(narrow, ALIASED))
        period = 2 * next_fast_len(math.ceil(max(reach, 2.0) / 2) + 1)
        points = law.support // self._span
        nodes = candidate_nodes(points, law.intensity(narrow)[0], period)
        jumps = float(law.intensity(wide).sum())
        rows, self._shares, self.everywhere = _rows(law, *times)
        centred = centred_sums(points, rows, nodes, period, jumps)
        alive = -(self._shares(np.array(times[:1]), narrow) @ centred.real)[0] < _NEGLIGIBLE
        nodes, centred = nodes[alive], centred[:, alive]
        self._decay, self._turn = np.ascontiguousarray(centred.real), np.ascontiguousarray(centred.imag)
        self._theta = angles(nodes, period)
        tag = centred_sums(offsets, weights[None, :], nodes, period, 1.0)[0]
        tag = self._mass + tag + 1j * self._theta * float(weights @ offsets)
        self._amplitude = np.abs(tag) / (period * np.sin(self._theta / 2))
        self._phase = np.angle(tag) - self._theta / 2

    def __call__(self, times: np.ndarray, level: int | np.ndarray) -> np.ndarray:
        """float64 [n] for `times` float64 [n], and levels of one value or float64 [n]."""
        integrals = self._law.integrals(times)
        shares = self._shares(times, integrals)
        # The mean is centred on the level before it meets theta: both may be 1e12 and differ by a few sd.
        shift = self._law.mean(times) / self._span - level
        total = np.empty(times.size)
        chunk = max(1, _CHUNK // max(1, self._theta.size))
        for start in range(0, times.size, chunk):
            part = slice(start, start + chunk)
            angle = shares[part] @ self._turn + np.multiply.outer(shift[part], self._theta) + self._phase
            total[part] = (np.exp(shares[part] @ self._decay) * np.sin(angle)) @ self._amplitude
        inside = np.clip(self._mass / 2 - total, 0.0, self._mass)
        return inside * np.exp(-self._law.killing(integrals))


def sample_times(first: float, last: float) -> np.ndarray:
    """Chebyshev points of [first, last]: float64 [SAMPLES]."""
    return (first + last + (last - first) * _COSINES) / 2


def sample_shares(first: float, last: float, times: np.ndarray) -> np.ndarray:
    """Weights [times, SAMPLES] that take values at `sample_times` to those of the polynomial through them."""
    distance = np.subtract.outer((2 * times - first - last) / (last - first), _COSINES)
    terms = _SIGNS / np.where(distance == 0, 1e-300, distance)
    return terms / terms.sum(axis=1, keepdims=True)


def roughness(values: np.ndarray) -> float:
    """About what the polynomial through values at `sample_times` is off by: its highest Chebyshev coefficients."""
    highest = np.cos(np.multiply.outer(np.arange(SAMPLES - 4, SAMPLES), np.arccos(_COSINES)))
    return 4 / SAMPLES * float(np.abs(highest @ values).max())


def _rows(law: DisplacementLaw, first: float, last: float) -> tuple[np.ndarray, Callable, bool]:
    """Rows [k, n], the function (times, integrals) -> shares [times, k] with m_t = shares @ rows, and whether it is
    exact at all times.

    The rows are the coefficients of the G_k; where those are many (one per turn), m_t at a few times instead,
    between which it is interpolated, provided that this gives all G_k to 1e-13, or that the G_k have more kinks
    than their own solution follows.
    """
    direct = law.coefficients, lambda times, integrals: integrals.T, True
    if law.coefficients.shape[0] <= SAMPLES or first == last:
        return direct
    samples = law.integrals(sample_times(first, last))
    between = np.linspace(first, last, 2 * SAMPLES + 1)
    truth = law.integrals(between)
    error = np.abs(sample_shares(first, last, between) @ samples.T - truth.T).max()
    everywhere = bool(error <= 1e-13 * truth.max())
    if not everywhere and follows_kinks(law.workload.gaps, last):
        return direct
    return samples.T @ law.coefficients, lambda times, _: sample_shares(first, last, times), everywhere


def angles(nodes: np.ndarray, period: int) -> np.ndarray:
    """theta_k of the given nodes k."""
    return (2 * nodes + 1) * (math.pi / period)


def centred_sums(
    points: np.ndarray, rows: np.ndarray, nodes: np.ndarray, period: int, jumps: float
) -> np.ndarray:
    """sum_r rows[k, r] (e^{i theta r} - 1 - i theta r) at the given nodes: complex [K, nodes].

    By FFT where many nodes are asked for, as happens where few conversations make up D_N(t): it errs by 1e-16
    times the expected number of `jumps`.
    """
    theta, work = angles(nodes, period), nodes.size * points.size
    if work > rows.shape[0] * period and (jumps < _FEW_JUMPS or work > 20 * _CHUNK):
        whole = _half_shifted_fft(points, rows, period)[:, nodes]
        return whole - rows.sum(axis=1)[:, None] - 1j * np.multiply.outer(rows @ points.astype(float), theta)
    # Nodes about 0 first: the relative accuracy of their sums hangs on the scale set by the largest of them.
    gaps = np.flatnonzero(np.diff(nodes) > 1)
    main = nodes.size if gaps.size == 0 else int(gaps[0]) + 1
    parts = [_local_sums(points, rows, part) for part in (theta[:main], theta[main:]) if part.size]
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows.shape[0], 0), dtype=complex)


def _local_sums(points: np.ndarray, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """`centred_sums` by Taylor series about centres 1 / max(theta) apart: not nodes times points of work.

    About 0, where most jumps are and e^{iz} - 1 - iz cancels, the series starts at z^2. Further out
    cancellation costs 1e-16 times the expected number of jumps above 1 / max(theta); few, or the node would
    have been negligible.
    """
    top = theta.max()
    near = int(np.searchsorted(points, 1 / top))
    scaled, turns = points[:near] * top, 1j * theta / top
    power, term, out = scaled.copy(), turns.copy(), np.zeros((rows.shape[0], theta.size), dtype=complex)
    for j in range(2, 20):
        power, term = power * scaled, term * turns / j
        out += np.multiply.outer(rows[:, :near] @ power, term)
    if near == points.size:
        return out
    far, heavy = points[near:], rows[:, near:]
    panel, index = np.unique((far * top).astype(np.int64), return_inverse=True)
    if panel.size * _TERMS > far.size:
        panel, index, terms = far, np.arange(far.size), 1
        centre, offset = far.astype(float), np.zeros(far.size)
    else:
        centre = (panel + 0.5) / top
        offset, terms = (far - centre[index]) * top, _TERMS
    moments = np.empty((terms, rows.shape[0], panel.size))
    power = np.ones(far.size)
    for j in range(terms):
        for k, row in enumerate(heavy):
            moments[j, k] = np.bincount(index, weights=row * power, minlength=panel.size)
        power = power * offset / (j + 1)
    chunk = max(1, _CHUNK // panel.size)
    for start in range(0, theta.size, chunk):
        part = slice(start, start + chunk)
        angle = np.multiply.outer(centre, theta[part])
        waves = moments @ np.cos(angle) + 1j * (moments @ np.sin(angle))  # [terms, K, nodes]
        out[:, part] += (waves * turns[part] ** np.arange(terms)[:, None, None]).sum(axis=0)
    out -= heavy.sum(axis=1)[:, None] + 1j * np.multiply.outer(heavy @ far.astype(float), theta)
    return out


def _half_shifted_fft(points: np.ndarray, rows: np.ndarray, period: int) -> np.ndarray:
    """sum_r rows[k, r] e^{i theta_j r} at every node j < period / 2: complex [K, period / 2]."""
    out = np.empty((rows.shape[0], period // 2), dtype=complex)
    twist = np.exp(-1j * math.pi / period * points)
    for row, target in zip(rows, out):
        folded = np.zeros(period, dtype=complex)
        np.add.at(folded, points % period, row * twist)
        target[:] = np.conj(fft(folded)[: period // 2])
    return out


def candidate_nodes(points: np.ndarray, intensity: np.ndarray, period: int) -> np.ndarray:
    """Nodes k < period / 2 that can have S < _NEGLIGIBLE: int64, sorted.

    Where many frequencies are in question, S is bounded from below by its sum over the smallest jumps, as
    many as make up half of them.
    """
    few = slice(None)
    if 16 * int(points[-1]) > _SHORT:
        few = slice(0, int(np.searchsorted(np.cumsum(intensity), intensity.sum() / 2)) + 256)
    cells = next_fast_len(8 * int(points[few][-1]) + 8)
    grid = min(2 * cells, period)
    decay = intensity[few].sum() - _half_shifted_fft(points[few], intensity[None, few], grid)[0].real
    if grid == period:
        return np.flatnonzero(decay < _NEGLIGIBLE + 1)
    # Cells of [0, pi] around the nodes of the coarse grid, quartered until they hold a few nodes each.
    half, centres, used = math.pi / grid, angles(np.arange(grid // 2), grid), few
    while True:
        within = 2 * np.sin(np.minimum(half * points[used] / 2, math.pi / 2)) ** 2 @ intensity[used]
        centres = centres[np.sqrt(np.maximum(decay, 0)) - np.sqrt(within) < math.sqrt(_NEGLIGIBLE)]
        if half * period < 8 * math.pi:
            break
        half /= 4
        centres = (centres[:, None] + half * np.array([-3.0, -1.0, 1.0, 3.0])).ravel()
        used = slice(None) if centres.size * points.size < _CHUNK else few
        decay = _decay(points[used], intensity[used], centres)
    first = np.ceil((centres - half) * (period / (2 * math.pi)) - 0.5 - 1e-6).astype(np.int64)
    last = np.floor((centres + half) * (period / (2 * math.pi)) - 0.5 + 1e-6).astype(np.int64)
    nodes = first[:, None] + np.arange(int((last - first).max(initial=0)) + 1)
    inside = (nodes <= last[:, None]) & (nodes >= 0) & (nodes < period // 2)
    return np.unique(nodes[inside])


def _decay(points: np.ndarray, intensity: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """S(theta): float64 [theta]."""
    out = np.empty(theta.size)
    chunk = max(1, _CHUNK // points.size)
    for start in range(0, theta.size, chunk):
        part = theta[start : start + chunk]
        out[start : start + chunk] = 2 * (
            np.sin(np.multiply.outer(part, points.astype(float)) / 2) ** 2 @ intensity
        )
    return out
