"""Functions of time as piecewise Chebyshev polynomials in log t."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.polynomial import chebyshev

NODES = 16
"""Chebyshev nodes (and coefficients) of a panel."""

POINTS = np.cos(np.pi * (np.arange(NODES)[::-1] + 0.5) / NODES)
TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(POINTS, NODES - 1))
"""Values at the nodes -> Chebyshev coefficients."""


@dataclasses.dataclass(frozen=True, eq=False)
class LogMesh:
    """Panels between increasing `edges` > 0 (times), each with NODES Chebyshev nodes in log t."""

    edges: np.ndarray

    @property
    def panels(self) -> int:
        return self.edges.size - 1

    @functools.cached_property
    def nodes(self) -> np.ndarray:
        """Times, float64 [panels, NODES]."""
        low, high = np.log(self.edges[:-1, None]), np.log(self.edges[1:, None])
        return np.exp((low + high) / 2 + (high - low) / 2 * POINTS)

    def split(self, chosen: np.ndarray) -> LogMesh:
        """This mesh with the chosen panels halved in log t."""
        middles = np.sqrt(self.edges[1:] * self.edges[:-1])[chosen]
        return LogMesh(np.sort(np.concatenate([self.edges, middles])))

    def locate(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Panel of each time (the first or last for times outside), and its place in it, in [-1, 1]."""
        log_edges, log_times = np.log(self.edges), np.log(times)
        panel = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, self.panels - 1)
        low, high = log_edges[panel], log_edges[panel + 1]
        return panel, np.clip((2 * log_times - low - high) / (high - low), -1, 1)

    def evaluate(self, coefficients: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Functions with coefficients [..., panel, NODES] at the times: [..., len(times)]."""
        panel, place = self.locate(times)
        basis = chebyshev.chebvander(place, NODES - 1)
        return np.einsum("...im,im->...i", coefficients[..., panel, :], basis)

    def project(self, rows: int, row: np.ndarray, times: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Linear functionals sum_i weight[i] h(times[i]), one per row, as weights of h at the nodes.

        row, times, weight: [points]; returns [rows, panels * NODES].
        """
        panel, place = self.locate(times)
        index = row * self.panels + panel
        moments = np.empty((NODES, rows * self.panels))
        before, now = place * weight, weight  # T_{-1} = T_1, times the weight
        for mode in range(NODES):
            moments[mode] = np.bincount(index, now, rows * self.panels)
            before, now = now, 2 * place * now - before
        return (moments.T @ TO_COEFFICIENTS).reshape(rows, -1)


def tail(values: np.ndarray) -> np.ndarray:
    """What the coefficients past the last may sum to, from the last two: values [..., NODES] at the nodes."""
    return NODES * np.abs((values @ TO_COEFFICIENTS.T)[..., -2:]).max(axis=-1)
