"""Event-driven LRU: the independent judge of the theory, and a capacity planner's curve of a real stream."""

from .accesses import AccessStream, accesses_from_arrays
from .counts import HitRatioCurve
from .curve import hit_ratio_curve
from .estimates import ReplayedHitRatio, batch_means, replayed_hit_ratio
from .long_streams import hit_ratio_curve_of_chunks
from .policies import compare_policies, replay_policy
from .replay import Replay, replay_lru
from .sampling import sample_accesses

__all__ = [
    "AccessStream",
    "HitRatioCurve",
    "Replay",
    "ReplayedHitRatio",
    "accesses_from_arrays",
    "batch_means",
    "compare_policies",
    "hit_ratio_curve",
    "hit_ratio_curve_of_chunks",
    "replay_lru",
    "replay_policy",
    "replayed_hit_ratio",
    "sample_accesses",
]
