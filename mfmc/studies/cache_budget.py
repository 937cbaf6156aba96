"""`study=cache_budget`: prefix checkpoints under byte budgets, the published experiment and past it."""

from __future__ import annotations

from dataclasses import dataclass

from mfmc.config.ranges import Count
from mfmc.config.schema import Settings
from mfmc.studies.context import Context
from mfmc.studies.result import Result, check


@dataclass(kw_only=True)
class CacheBudgetSection:
    """The long traces; the published experiment has no settings."""

    conversations: Count
    block_tokens: Count
    timing_thinning: Count


@dataclass(kw_only=True)
class Config(Settings):
    cache_budget: CacheBudgetSection


def run(config: Config, context: Context) -> Result:
    """The published table beside ours, designs compared on fixed and drawn traces, thresholds predicted and found."""
    from mfmc.checkpoints import draw_stream, run_cache_budget, write_cache_budget

    section = config.cache_budget
    with context.progress("cache budgets", None):
        stream = draw_stream(context.key("cache_budget"), context.workload, section.conversations)
        found = run_cache_budget(
            context.workload, stream, block_tokens=section.block_tokens, timing_thinning=section.timing_thinning
        )
    return Result(
        summary=found.summary, headline=found.headline, tables=found.tables, arrays=found.arrays,
        checks=[check(*each) for each in found.checks],
        folders={"evidence": lambda folder: write_cache_budget(found, folder)},
    )
