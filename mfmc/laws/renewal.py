"""Iterated integrals of a gap law: G_k(t) = int_0^t F^{*k}(u) du = E[(t - S_k)^+], S_k the sum of k gaps.

They weigh the turns of a conversation in the law of the displacement (THEORY B3). Exponential and gamma gaps
have closed forms. For any other law, H_k(t) = G_k(t) / t, in [0, 1], is a piecewise Chebyshev polynomial in
log t: power laws at 0, singular densities included, are smooth there. One matrix takes H_k at the nodes to
H_{k+1}, by G_{k+1}(t) = int_0^t G_k(t - s) f(s) ds; it is a Gauss-Legendre quadrature for densities with few
breakpoints (here) and a sum over a measure for the others (`mfmc.laws.renewal_measure`).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from numpy.polynomial import legendre
from scipy.special import gammainc, gammaln

from mfmc.errors import InputError
from mfmc.laws.gap_law import GapLaw
from mfmc.laws.gaps import ExponentialGaps, GammaGaps
from mfmc.laws.log_mesh import NODES, LogMesh, tail
from mfmc.laws.renewal_measure import measure_error, solve_measure
from mfmc.laws.renewal_solution import NEGLIGIBLE, Solution, iterate

TOLERANCE = 2e-13
"""Estimated error of H_k above which a panel is split."""

MOST_PANELS = 128
"""Where splitting stops; the error that is left is then larger, and reported."""

MOST_KINKS = 64
"""Edges spent on the kinks of G_1, G_2, ...; a law with more breakpoints than fit is treated as a measure."""

FOLLOWED = 3
"""Orders k whose kinks have to fit in."""

STEPS = 16.0 ** -np.arange(1, 9)
"""Where to cut an integral below t/2, as shares of t/2."""

CHUNK = 4096
"""Intervals integrated at a time, so that the work stays in the cache."""


def iterated_integrals(gaps: GapLaw, times: Any, count: int) -> np.ndarray:
    """G_k(t) for k = 0..count-1: float64 [count, *shape of times], in units of time; G_0 = t, G_1 = t - I(t).

    The absolute error is at most `iterated_error(gaps, times, count)` times t: about 1e-12 for smooth laws.
    """
    gaps, times = gaps.concrete(), _checked(times, count)
    shape, flat = (count, *times.shape), times.ravel()
    if isinstance(gaps, ExponentialGaps | GammaGaps):
        return _gamma_integrals(gaps, flat, count).reshape(shape)
    integrals = np.zeros((count, flat.size))
    integrals[0] = flat
    if count > 1:
        integrals[1] = flat - gaps.residence(flat)
    if count > 2 and flat.size and flat.max() > 0:
        integrals[2:] = _solve(gaps, _horizon(gaps, flat), count).at(flat)[2:]
    return integrals.reshape(shape)


def iterated_error(gaps: GapLaw, times: Any, count: int) -> float:
    """Estimated largest error of `iterated_integrals` relative to t, over these times and orders.

    What the last Chebyshev coefficients leave out, the quadrature error seen on the known G_1, and the mass
    of the shortest gaps, added up over the orders. About 1e-12 for smooth laws, up to 1e-4 for recorded gaps,
    whose densities jump too often to follow (it is the difference from a solution on half as many panels).
    """
    gaps, times = gaps.concrete(), _checked(times, count)
    if count <= 2 or not times.size or times.max() == 0 or isinstance(gaps, ExponentialGaps | GammaGaps):
        return 1e-12
    solution = _solve(gaps, _horizon(gaps, times), count)
    return measure_error(gaps, solution) if np.isnan(solution.error) else solution.error


def follows_kinks(gaps: GapLaw, horizon: float) -> bool:
    """Whether the G_k up to `horizon` are smooth between the edges of a mesh; else they are solved for to about 1e-5 of
    t only.
    """
    gaps = gaps.concrete()
    return _kinks(gaps, _lowest(gaps, horizon), horizon)[1] >= FOLLOWED


def _checked(times: Any, count: int) -> np.ndarray:
    if isinstance(times, jax.core.Tracer):
        raise InputError("iterated_integrals: times is a traced array; call it outside jit")
    times = np.asarray(times, dtype=np.float64)
    bad = times[~(np.isfinite(times) & (times >= 0))]
    if bad.size:
        raise InputError(f"iterated_integrals: time {bad[0]} is not allowed; give finite times, 0 or more")
    if count < 1:
        raise InputError(f"iterated_integrals: count={count!r} is not allowed; give 1 or more orders")
    return times


def _horizon(gaps: GapLaw, times: np.ndarray) -> float:
    """The largest time, rounded up to a power of two of the mean, so that nearby calls share a solution."""
    return float(gaps.mean * 2.0 ** np.ceil(np.log2(times.max() / gaps.mean)))


def _gamma_integrals(gaps: Any, times: np.ndarray, count: int) -> np.ndarray:
    """(t - k mean) P(a, x) + k mean x^a e^-x / Gamma(a + 1), with a = k shape: the sum S_k is gamma again."""
    shape = getattr(gaps, "shape", 1.0)
    order = np.arange(count)[:, None]
    a, mean = np.maximum(order, 1) * shape, order * gaps.mean
    x = times / (gaps.mean / shape)
    with np.errstate(divide="ignore"):
        jump = np.exp(a * np.log(x) - x - gammaln(a + 1))
    integrals = (times - mean) * gammainc(a, x) + mean * jump
    return np.where(order == 0, times, np.maximum(integrals, 0.0))


@functools.lru_cache(maxsize=16)
def _solve(gaps: GapLaw, horizon: float, count: int) -> Solution:
    low = _lowest(gaps, horizon)
    kinks, orders = _kinks(gaps, low, horizon)
    if orders < FOLLOWED:
        return solve_measure(gaps, low, horizon, count)
    mesh = _resolve(gaps, LogMesh(np.union1d([low, horizon], kinks)))
    while True:
        operator = _operator(gaps, mesh)
        solution = iterate(gaps, mesh, operator, count)
        # An error e of H_k relative to t becomes at most e H_1(t) in H_{k+1}.
        spread = ((1 - gaps.residence(horizon) / horizon) ** np.arange(count)).sum()
        worst = tail(solution.shares[1:]).max(axis=0)
        split = worst > TOLERANCE
        if not split.any() or mesh.panels + split.sum() > MOST_PANELS:
            error = (worst.max() + _quadrature_error(gaps, mesh, operator) + 2 * NEGLIGIBLE) * spread
            return solution.with_error(error)
        mesh = mesh.split(split)


def _lowest(gaps: GapLaw, horizon: float) -> float:
    """Where a mesh begins."""
    return min(float(gaps.quantile(NEGLIGIBLE)), horizon / 2)


def _kinks(gaps: GapLaw, low: float, horizon: float) -> tuple[np.ndarray, int]:
    """Times at which some G_k is not smooth (sums of breakpoints of the density), and up to which k they fit.

    G_k has a jump in its derivative of order k + 1 at sums of k breakpoints: six orders leave nothing to see.
    """
    points = np.array(gaps.breakpoints)
    kinks, sums = np.empty(0), np.zeros(1)
    for order in range(6):
        sums = _distinct(np.unique(np.add.outer(sums, points)))
        sums = sums[(sums > low * (1 + 1e-9)) & (sums < horizon * (1 - 1e-9))]
        merged = _distinct(np.union1d(kinks, sums))
        if merged.size > MOST_KINKS:
            return kinks, order
        kinks = merged
    return kinks, 6


def _distinct(times: np.ndarray) -> np.ndarray:
    return times[np.diff(times, prepend=0) > 1e-9 * times]


def _resolve(gaps: GapLaw, mesh: LogMesh) -> LogMesh:
    """Split panels until they resolve G_1 / t and (less sharply, it is only integrated) log W's density."""
    while True:
        t = mesh.nodes
        need = np.maximum(
            tail(1 - gaps.residence(t) / t) / TOLERANCE,
            tail(t * gaps.density(t)) / 1e-6,
        )
        worst = np.argsort(-need)[: max(MOST_PANELS - mesh.panels, 0)]
        worst = worst[need[worst] > 1]
        if not worst.size:
            return mesh
        mesh = mesh.split(worst)


def _operator(gaps: GapLaw, mesh: LogMesh) -> np.ndarray:
    """Matrix of H_k at the nodes -> H_{k+1} at the nodes, (1/t) int_0^t (t-s) H_k(t-s) f(s) ds.

    The integral is cut at s = t/2; with z = s on the left and z = t - s on the right, both halves run over
    log z, where density and H_k are smooth, between the edges of the mesh and their mirror images t - edge;
    STEPS keep the intervals short in log z where t - z still varies with it.
    """
    nodes, first = mesh.nodes.ravel(), mesh.edges[0]
    t = nodes[:, None]
    near = np.concatenate([t - mesh.edges, t / 2 * STEPS], axis=1)
    cuts = np.sort(
        np.concatenate([np.minimum(mesh.edges, t / 2), np.clip(near, first, t / 2)], axis=1), axis=1
    )
    target, interval = np.nonzero(cuts[:, 1:] > cuts[:, :-1] * (1 + 1e-14))
    low, high = cuts[target, interval], cuts[target, interval + 1]
    points, weights = legendre.leggauss(NODES)
    operator = np.zeros((nodes.size, nodes.size))
    # The right half needs no t - s far below t: there (t - s) f(s) ds is of the order of its square.
    for mirrored, chosen in ((False, target >= 0), (True, high > 1e-9 * nodes[target])):
        for part in np.array_split(np.flatnonzero(chosen), 1 + chosen.sum() // CHUNK):
            if not part.size:
                continue
            t = nodes[target[part], None]
            middle, half = np.log(high[part] * low[part]) / 2, np.log(high[part] / low[part]) / 2
            z = np.exp(middle[:, None] + half[:, None] * points)
            s, r = (t - z, z) if mirrored else (z, t - z)
            weight = half[:, None] * weights * z * gaps.density(s) * r / t
            start, rows = target[part[0]], target[part[-1]] + 1 - target[part[0]]
            row = np.broadcast_to(target[part, None] - start, r.shape)
            operator[start : start + rows] += mesh.project(rows, row.ravel(), r.ravel(), weight.ravel())
    return operator


def _quadrature_error(gaps: GapLaw, mesh: LogMesh, operator: np.ndarray) -> float:
    """On G_0 = r the operator must give int_0^(t-e) (t - s) f(s) ds: it leaves out r below the first edge."""
    t, first = mesh.nodes.ravel(), mesh.edges[0]
    rest = np.maximum(t - first, 0)
    known = (rest - gaps.residence(rest) + first * gaps.cdf(rest)) / t
    return float(np.abs(operator.sum(axis=1) - known).max())
