"""mfmc: mean field, exact theory, Monte Carlo and LRU replay of KV-cache hit ratios for multi-turn conversations.

    import mfmc
    workload = mfmc.Workload(
        arrival_rate=1.5,
        turns=mfmc.GeometricTurns(continuation=0.7),
        blocks=mfmc.PoissonBlocks(first=1.0, later=3.0),
        gaps=mfmc.ExponentialGaps(mean=135.0),
    )
    mfmc.hit_ratio(workload, capacity=2275)         # mean field
    mfmc.hit_ratio_exact(workload, capacity=2275)   # finite N, exactly

Importing mfmc needs jax, numpy and scipy only; what needs more (LRU kernels, trace readers) is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mfmc.accounting import ACCOUNTINGS
from mfmc.assumptions import assumptions
from mfmc.displacement import DisplacementPaths, simulate_displacement
from mfmc.errors import BufferOverflow, InputError
from mfmc.laws.blocks import ConstantBlocks, EmpiricalBlocks, GeometricBlocks, LognormalBlocks, PoissonBlocks
from mfmc.laws.gaps import (
    EmpiricalGaps,
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    UniformGaps,
    WeibullGaps,
)
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import ConstantTokens, EmpiricalTokens, GeometricTokens, LognormalTokens, TokenBlocks
from mfmc.laws.turns import EmpiricalTurns, FixedTurns, GeometricTurns, NegativeBinomialTurns, PoissonTurns
from mfmc.replication import Replicator
from mfmc.theory.compound_poisson import (
    characteristic_time_cdf,
    characteristic_time_quantile,
    displacement_cdf,
    displacement_quantile,
    hit_ratio_exact,
)
from mfmc.theory.mean_field import (
    capacity_for,
    characteristic_time,
    displacement_rate,
    hit_ratio,
    hit_ratio_slope,
    mean_displacement,
)
from mfmc.theory.refined import hit_ratio_refined
from mfmc.workload import Profile, Workload

__version__ = "0.1.0"

#: Public names that need optional or heavy packages, by the module that has them.
_ON_FIRST_USE = {
    "accesses_from_arrays": "mfmc.lru",
    "controlled_hit_ratio": "mfmc.variance_reduction",
    "estimate_hit_ratio": "mfmc.estimator",
    "hit_ratio_curve": "mfmc.lru",
    "replay_lru": "mfmc.lru",
    "sample_accesses": "mfmc.lru",
    "rare_passage_probability": "mfmc.rare_events",
    "rare_sup_probability": "mfmc.rare_events",
    "read_trace": "mfmc.traces",
    "validate_trace": "mfmc.traces",
}

__all__ = [
    "ACCOUNTINGS",
    "BufferOverflow",
    "ConstantBlocks",
    "ConstantTokens",
    "DisplacementPaths",
    "EmpiricalBlocks",
    "EmpiricalGaps",
    "EmpiricalTokens",
    "EmpiricalTurns",
    "ExponentialGaps",
    "FixedTurns",
    "GammaGaps",
    "GeometricBlocks",
    "GeometricTokens",
    "GeometricTurns",
    "HyperexponentialGaps",
    "InputError",
    "LognormalBlocks",
    "LognormalGaps",
    "LognormalTokens",
    "LomaxGaps",
    "NegativeBinomialTurns",
    "PoissonBlocks",
    "PoissonTurns",
    "Profile",
    "RecordedConversations",
    "Replicator",
    "TokenBlocks",
    "UniformGaps",
    "WeibullGaps",
    "Workload",
    "accesses_from_arrays",
    "assumptions",
    "capacity_for",
    "characteristic_time",
    "characteristic_time_cdf",
    "characteristic_time_quantile",
    "controlled_hit_ratio",
    "displacement_cdf",
    "displacement_quantile",
    "displacement_rate",
    "estimate_hit_ratio",
    "hit_ratio",
    "hit_ratio_curve",
    "hit_ratio_exact",
    "hit_ratio_refined",
    "hit_ratio_slope",
    "mean_displacement",
    "rare_passage_probability",
    "rare_sup_probability",
    "read_trace",
    "replay_lru",
    "sample_accesses",
    "simulate_displacement",
    "validate_trace",
]


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return getattr(import_module(_ON_FIRST_USE[name]), name)
    raise AttributeError(f"module 'mfmc' has no attribute {name!r}")
