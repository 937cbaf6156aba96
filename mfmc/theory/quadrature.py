"""Adaptive Gauss-Legendre integration that evaluates all panels of a level at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Nodes per panel, and on panels so narrow beside the whole that fewer do.
_ORDER, _NARROW_ORDER, _NARROW = 12, 4, 1 / 64


def integrate(function: Callable[[np.ndarray], np.ndarray], edges: np.ndarray, tolerance: float) -> float:
    """int of `function` from edges[0] to edges[-1], smooth between edges; error about `tolerance`.

    `function` maps float64 [n] to float64 [n]. Panels are halved until both halves agree with the whole.
    """
    left, right = edges[:-1], edges[1:]
    narrow = right - left < _NARROW * (edges[-1] - edges[0])
    return sum(
        _refine(function, left[chosen], right[chosen], order, tolerance)
        for chosen, order in ((narrow, _NARROW_ORDER), (~narrow, _ORDER))
        if chosen.any()
    )


def _refine(function: Callable, left: np.ndarray, right: np.ndarray, order: int, tolerance: float) -> float:
    total, coarse = 0.0, _panels(function, left, right, order)
    for _ in range(60):
        middle = (left + right) / 2
        left, right = np.stack((left, middle), axis=1), np.stack((middle, right), axis=1)
        fine = _panels(function, left.ravel(), right.ravel(), order).reshape(left.shape)
        both = fine.sum(axis=1)
        # The halves are 2^(2 order) times as accurate as the whole where the rule converges at all.
        open_ = np.abs(both - coarse) > np.maximum(100 * tolerance, 1e-13 * np.abs(both))
        total += float(both[~open_].sum())
        if not open_.any():
            break
        left, right, coarse = left[open_].ravel(), right[open_].ravel(), fine[open_].ravel()
    else:
        total += float(both[open_].sum())
    return total


def _panels(function: Callable, left: np.ndarray, right: np.ndarray, order: int) -> np.ndarray:
    """The Gauss-Legendre sum of every panel: float64 [panels]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = (right - left)[:, None] / 2
    times = (left + right)[:, None] / 2 + half * nodes
    return (function(times.ravel()).reshape(times.shape) * half) @ weights
