"""`study=collect`: one table, one report and the figures of a sweep, finished or not."""

from __future__ import annotations

from dataclasses import dataclass

from mfmc.collect import collect
from mfmc.config.schema import Settings
from mfmc.studies.context import Context
from mfmc.studies.result import Result


@dataclass(kw_only=True)
class Config(Settings):
    """`sweep` is the folder of a multirun."""

    sweep: str


def run(config: Config, context: Context) -> Result:
    """Write sweep.csv, sweep.parquet, report.md and figures/ into the sweep's folder; a row per job."""
    collected = collect(config.sweep)
    collected.write()
    return collected.result()
