"""What a plan is made for: a configured workload, or a trace; one shape for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mfmc.estimator.bootstrap import Replicates
from mfmc.models import KVModel
from mfmc.planning import cache_bytes
from mfmc.studies.context import Context
from mfmc.studies.known import trace_estimator
from mfmc.studies.replays import Replayed, replay_trace
from mfmc.workload import Workload

DEFAULT_BLOCK_TOKENS = 128
WARM_UP = 0.1
#: Enough that a hit ratio of the ShareGPT workload has a standard error of 0.001.
SAMPLED_CONVERSATIONS = 100_000


@dataclass(frozen=True, eq=False)
class Planned:
    """`workload` has what the mean field needs; `exact_workload` the law of conversations, small enough for
    the finite-N law (None: it is too large). `bytes_of`: of a cache full with so many blocks.
    `eviction`: what leaves the replayed cache at a time, a ``block`` or a whole ``conversation``.
    `accessed_tokens`: tokens of a conversation's prompts in all; `token_share`: share of tokens served per
    share of blocks served.
    """

    how: str
    workload: Any
    exact_workload: Workload | None
    bytes_of: Callable[[float], float]
    accounting: str
    eviction: str
    block_tokens: int
    accessed_tokens: float
    token_share: float
    resampled: Replicates | None
    replay: Callable[[int], Replayed]

    @property
    def ceiling(self) -> float:
        """h_max: no memory reaches more."""
        return float(self.workload.profile(self.accounting).reuse_ceiling)


def planned(config: Any, model: KVModel, context: Context) -> Planned:
    """From `plan.source`."""
    make = of_trace if config.plan.source == "trace" else of_workload
    return make(config, model, context)


def of_workload(config: Any, model: KVModel, context: Context) -> Planned:
    """The configured workload; token-exact where it knows tokens, else the practical accounting."""
    workload = context.workload
    accounting = context.accountings[-1]
    block_tokens = config.workload.block_tokens or DEFAULT_BLOCK_TOKENS

    def replay(capacity: int) -> Replayed:
        from mfmc.lru import hit_ratio_curve, sample_accesses

        stream = sample_accesses(context.key("plan"), workload, capacity, SAMPLED_CONVERSATIONS)
        curve = hit_ratio_curve(stream, accounting, max_capacity=capacity)
        return Replayed(curve, f"{SAMPLED_CONVERSATIONS:,} conversations of the workload, sampled as stationary")

    return Planned(
        how=f"workload {config.workload.name or 'given'}, {float(workload.arrival_rate):g} conversations per"
        " unit of time",
        workload=workload,
        exact_workload=workload,
        bytes_of=cache_bytes(model, block_tokens, workload, workload, accounting),
        accounting=accounting,
        eviction="conversation",
        block_tokens=block_tokens,
        accessed_tokens=workload.profile(accounting).content * block_tokens,
        token_share=1.0,
        resampled=None,
        replay=replay,
    )


def of_trace(config: Any, model: KVModel, context: Context) -> Planned:
    """The conversations of a trace, token-exact, with the law of gaps that suits its clock."""
    estimator = trace_estimator(config.trace, config.plan, config.plan.replicates, context, "plan")
    law = estimator.laws[estimator.default_law]
    full = Workload(estimator.arrival_rate, law, conversations=estimator.conversations)
    if estimator.exact_refused:
        context.notes.append(f"the finite-N correction is left out: {estimator.exact_refused}")
    accounting = (config.accountings or ["token"])[-1]
    workload, moments = estimator.workload(), estimator.sums.moments(accounting)
    tokens_served = moments.reusable * estimator.sums.block_tokens / estimator.sums.accessed_tokens
    return Planned(
        how=f"{estimator.sums.turns.size:,} conversations of {config.trace.path},"
        f" {estimator.arrival_rate:.4g} a second,"
        f" gaps by the {estimator.default_law.replace('_', '-')} law",
        workload=workload,
        exact_workload=None if estimator.exact_refused else estimator.exact_workload(),
        bytes_of=cache_bytes(model, estimator.sums.block_tokens, full, workload, accounting),
        accounting=accounting,
        eviction="block",
        block_tokens=estimator.sums.block_tokens,
        accessed_tokens=estimator.sums.accessed_tokens,
        token_share=tokens_served / moments.reuse_ceiling,
        resampled=estimator.resampled(accounting) if config.plan.replicates else None,
        replay=lambda capacity: replay_trace(estimator, context, capacity, WARM_UP),
    )
