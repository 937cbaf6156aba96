"""The hit-ratio estimator of Appendix C.2.2, from a trace or from a few known means."""

from __future__ import annotations

from mfmc.estimator.estimate import Estimate, NoGaps, TraceEstimator, cache_arrival_rate, estimate_hit_ratio
from mfmc.estimator.gap_laws import empirical, kaplan_meier
from mfmc.estimator.moments import ConversationSums, Moments, PartialWorkload, partial_workload

__all__ = [
    "ConversationSums",
    "Estimate",
    "Moments",
    "NoGaps",
    "PartialWorkload",
    "TraceEstimator",
    "cache_arrival_rate",
    "empirical",
    "estimate_hit_ratio",
    "kaplan_meier",
    "partial_workload",
]
