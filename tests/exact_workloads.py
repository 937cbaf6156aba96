"""Small workloads for the tests of the exact theory: a grid that covers the accountings and laws."""

from __future__ import annotations

import numpy as np

from mfmc.laws.blocks import ConstantBlocks, GeometricBlocks, LognormalBlocks, PoissonBlocks
from mfmc.laws.gaps import (
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    UniformGaps,
    WeibullGaps,
)
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import GeometricTokens, LognormalTokens, TokenBlocks
from mfmc.laws.turns import FixedTurns, GeometricTurns
from mfmc.workload import Workload


def recorded_conversations() -> RecordedConversations:
    rng = np.random.default_rng(3)
    conversation = np.repeat(np.arange(40), rng.integers(1, 6, 40))
    prompt, response = rng.integers(1, 300, conversation.size), rng.integers(1, 300, conversation.size)
    return RecordedConversations.from_tokens(conversation, prompt, response, 64)


def small_workloads(arrival_rate: float) -> dict[str, Workload]:
    """Small laws of every kind; about 15 to 30 blocks a conversation."""
    tokens = TokenBlocks(GeometricTokens(30.0, 200), LognormalTokens(40.0, 0.8, 300), 16)
    return {
        "span 5": Workload(arrival_rate, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 8), ConstantBlocks(5, 5)),
        "one turn": Workload(arrival_rate, ExponentialGaps(1.0), FixedTurns(1), PoissonBlocks(3.0, 1.0)),
        "kinked gaps": Workload(arrival_rate, UniformGaps(0.2, 1.4), FixedTurns(4), PoissonBlocks(2.0, 2.0)),
        "pole at 0": Workload(
            arrival_rate, WeibullGaps(0.6, 1.0), GeometricTurns(0.6, 8), GeometricBlocks(3, 4)
        ),
        "two time scales": Workload(
            arrival_rate,
            HyperexponentialGaps((0.7, 0.3), (0.1, 3.0)),
            GeometricTurns(0.7, 10),
            ConstantBlocks(3, 2),
        ),
        "heavy blocks": Workload(
            arrival_rate,
            ExponentialGaps(1.0),
            GeometricTurns(0.5, 6),
            LognormalBlocks(3, 4, sigma=1.5, maximum=500),
        ),
        "length dependent": Workload(
            arrival_rate,
            LognormalGaps(0.8, 1.0),
            GeometricTurns(0.6, 7),
            PoissonBlocks(2.0, 4.0, length_power=-0.5),
        ),
        "tokens": Workload(arrival_rate, GammaGaps(2.0, 1.0), GeometricTurns(0.6, 6), tokens),
        "recorded": Workload(arrival_rate, ExponentialGaps(1.0), conversations=recorded_conversations()),
    }
