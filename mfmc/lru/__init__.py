"""Event-driven LRU: the independent judge of the theory, and a capacity planner's curve of a real stream."""

from .accesses import AccessStream, accesses_from_arrays
from .curve import HitRatioCurve, hit_ratio_curve
from .long_streams import hit_ratio_curve_of_chunks
from .replay import Replay, replay_lru

__all__ = [
    "AccessStream",
    "HitRatioCurve",
    "Replay",
    "accesses_from_arrays",
    "hit_ratio_curve",
    "hit_ratio_curve_of_chunks",
    "replay_lru",
]
