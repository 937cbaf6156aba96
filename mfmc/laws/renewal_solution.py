"""G_k / t on a mesh, and the iteration that both ways of integrating against the gap law share."""

from __future__ import annotations

import dataclasses

import numpy as np

from mfmc.laws.gap_law import GapLaw
from mfmc.laws.log_mesh import NODES, TO_COEFFICIENTS, LogMesh

NEGLIGIBLE = 1e-14
"""Probability of a gap so short that a mesh need not reach down to it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """H_k = G_k / t at the nodes of a mesh, shares [count, panel, NODES]; H_k = 0 below it (for k >= 1).

    error: estimated largest error of any H_k.
    """

    mesh: LogMesh
    shares: np.ndarray
    error: float

    def with_error(self, error: float) -> Solution:
        return dataclasses.replace(self, error=float(error))

    def at(self, times: np.ndarray) -> np.ndarray:
        """G_k(times): [count, len(times)]."""
        inside = times >= self.mesh.edges[0]
        values = self.mesh.evaluate(
            self.shares @ TO_COEFFICIENTS.T, np.where(inside, times, self.mesh.edges[0])
        )
        return np.clip(values, 0, 1) * np.where(inside, times, 0)


def iterate(gaps: GapLaw, mesh: LogMesh, operator: np.ndarray, count: int) -> Solution:
    """H_0 = 1, H_1 = 1 - I(t) / t, H_{k+1} = operator H_k, until they vanish."""
    nodes = mesh.nodes.ravel()
    shares = np.zeros((count, nodes.size))
    shares[0], shares[1] = 1, 1 - gaps.residence(nodes) / nodes
    for k in range(2, count):
        seen = np.flatnonzero(shares[k - 1] > NEGLIGIBLE**2)
        if not seen.size:
            break
        later = slice(seen[0], None)  # H_{k+1}(t) takes H_k at times before t only
        shares[k, later] = operator[later, later] @ shares[k - 1, later]
    return Solution(mesh, shares.reshape(count, mesh.panels, NODES), np.nan)
