"""Traces made from laws, for tests of what is estimated from traces."""

from __future__ import annotations

import numpy as np

from mfmc.laws.gap_law import GapLaw
from mfmc.traces.table import APPENDED, FIRST, Trace


def synthetic_trace(
    gaps: GapLaw, arrival_rate: float, conversations: int, end: float | None = None, seed: int = 0
) -> Trace:
    """Geometric turns (continuation 0.7), prompts of 1 to 200 tokens, responses of 0 to 300; cut at time
    `end`.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(0.3, conversations)
    starts = np.cumsum(lengths) - lengths
    conversation = np.repeat(np.arange(conversations), lengths)
    turn = np.arange(conversation.size) - starts[conversation] + 1
    arrivals = np.cumsum(rng.exponential(1 / arrival_rate, conversations))
    waits = np.where(turn == 1, 0.0, gaps.quantile(rng.uniform(size=turn.size)))
    total = np.cumsum(waits)
    submitted = arrivals[conversation] + total - total[starts][conversation]
    prompt, response = rng.integers(1, 201, turn.size), rng.integers(0, 301, turn.size)
    content = np.cumsum(prompt + response)
    history = content - prompt - response - (content - prompt - response)[starts][conversation]
    keep = np.ones(turn.size, dtype=bool) if end is None else submitted <= end
    columns = {
        "conversation": np.unique(conversation[keep], return_inverse=True)[1],
        "turn": turn[keep].astype(np.int32),
        "submitted_at": submitted[keep],
        "history_tokens": history[keep],
        "new_prompt_tokens": prompt[keep],
        "response_tokens": response[keep],
        "kind": np.zeros(keep.sum(), dtype=np.int8),
        "context": np.where(turn[keep] == 1, FIRST, APPENDED).astype(np.int8),
        "source_row": np.arange(keep.sum()),
    }
    return Trace.from_columns(columns, format="synthetic")
