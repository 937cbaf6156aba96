"""G_k of laws whose density jumps too often to integrate piece by piece: recorded gaps.

The law becomes a measure on a few thousand points, and H_k = G_k / t lives on an even mesh that ignores its
kinks; the error, about 1e-6 of t, is far below the sampling error of the recorded gaps themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import legendre

from mfmc.laws.log_mesh import LogMesh
from mfmc.laws.renewal_solution import Solution, iterate

PANELS = 48
"""Panels of equal length in t of the finer of the two meshes."""

CELLS, DEGREE = 16, 4
"""Cells of the measure in each panel, and its points in each cell."""

CHUNK = 16
"""Nodes whose rows of the operator are computed at a time."""


def solve_measure(gaps: Any, low: float, horizon: float, count: int, panels: int = PANELS) -> Solution:
    """G_k on [low, horizon]; its error is not known yet, see `measure_error`."""
    return _solve(gaps, _even_mesh(low, horizon, panels), count)


def measure_error(gaps: Any, fine: Solution) -> float:
    """The largest error of H_k, which is the difference from half as many panels and points."""
    edges, nodes = fine.mesh.edges, fine.mesh.nodes.ravel()
    coarse = solve_measure(gaps, edges[0], edges[-1], len(fine.shares), PANELS // 2)
    return float((np.abs(fine.at(nodes) - coarse.at(nodes))[2:] / nodes).max())


def _even_mesh(low: float, horizon: float, panels: int) -> LogMesh:
    """Edges that grow by a factor of 4 up to panels of one length, horizon / panels, in t."""
    edges = [horizon]
    while edges[-1] > low:
        edges.append(max(edges[-1] / 4, edges[-1] - horizon / panels))
    return LogMesh(np.array(edges[::-1]))


def _solve(gaps: Any, mesh: LogMesh, count: int) -> Solution:
    knots, heights = gaps.piecewise()
    points, masses = _measure(knots, heights, mesh.edges)
    nodes = mesh.nodes.ravel()
    operator = np.empty((nodes.size, nodes.size))
    for start in range(0, nodes.size, CHUNK):
        t = nodes[start : start + CHUNK, None]
        row, point = np.nonzero(points < t - mesh.edges[0])
        r = t[row, 0] - points[point]
        operator[start : start + CHUNK] = mesh.project(t.size, row, r, masses[point] * r / t[row, 0])
    return iterate(gaps, mesh, operator, count)


def _measure(knots: np.ndarray, heights: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dF up to the last edge as masses on DEGREE points in each cell, exact for polynomials under DEGREE."""
    place_of_cells = np.arange(CELLS * (edges.size - 1) + 1) / CELLS
    cells = np.append(0.0, np.exp(np.interp(place_of_cells, np.arange(edges.size), np.log(edges))))
    points, weights = legendre.leggauss(DEGREE)
    # Between knots and cell edges the density is constant: Gauss-Legendre gives every moment of a piece.
    grid = np.union1d(cells, knots[knots < cells[-1]])
    middle, half = (grid[1:] + grid[:-1]) / 2, np.diff(grid) / 2
    mass = np.diff(np.interp(grid, knots, heights))[:, None] * weights / 2
    cell = np.clip(np.searchsorted(cells, middle, side="right") - 1, 0, cells.size - 2)
    centre, radius = (cells[1:] + cells[:-1]) / 2, np.diff(cells) / 2
    place = (middle[:, None] + half[:, None] * points - centre[cell, None]) / radius[cell, None]
    of_pieces = (legendre.legvander(place, DEGREE - 1) * mass[..., None]).sum(axis=1)
    of_cells = np.stack([np.bincount(cell, moment, centre.size) for moment in of_pieces.T], axis=1)
    masses = of_cells @ np.linalg.inv(legendre.legvander(points, DEGREE - 1))
    return (centre[:, None] + radius[:, None] * points).ravel(), masses.ravel()
