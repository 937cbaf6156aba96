"""The workloads of shared/reference/oracle.json in mfmc's laws, at arrival_rate = lambda0 * capacity."""

from __future__ import annotations

from mfmc.laws.blocks import ConstantBlocks, GeometricBlocks, PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, GammaGaps, LognormalGaps
from mfmc.laws.turns import GeometricTurns, NegativeBinomialTurns
from mfmc.workload import Workload

LAWS = {
    "scm_poisson_blocks": (
        GeometricTurns(0.7, 80), PoissonBlocks(1.0, 3.0, later_minimum=2), ExponentialGaps(1.0)
    ),
    "scm_constant_blocks": (GeometricTurns(0.8, 120), ConstantBlocks(2, 5), ExponentialGaps(1.0)),
    "lognormal_gaps": (
        NegativeBinomialTurns(4.5, 8.0, 2, 40), PoissonBlocks(1.5, 2.0), LognormalGaps(1.0, 1.0)
    ),
    "single_shot_heavy": (GeometricTurns(0.3, 40), GeometricBlocks(4, 6), GammaGaps(2.0, 1.0)),
}


def reference_workload(name: str, lambda0: float, capacity: float) -> Workload:
    turns, blocks, gaps = LAWS[name]
    return Workload(lambda0 * capacity, gaps, turns, blocks)
