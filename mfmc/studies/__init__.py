"""Studies: one file each, typed settings in, a `Result` out.

How to add one, say `study=example`:

1. `mfmc/studies/example.py` with

       from mfmc.config.ranges import Count, Positive, Range
       from mfmc.config.schema import Settings
       from mfmc.studies.context import Context
       from mfmc.studies.result import Result, check

       @dataclass(kw_only=True)
       class Config(Settings):     # only if the study has settings of its own; any top-level key or section
           example: ExampleSection # a dataclass with ranges in its types: `x: Annotated[float, Range(low=0)]`

       def run(config: Config, context: Context) -> Result: ...

   `config` is typed and its ranges are checked. `context` has the workload (`context.workload`,
   `context.workload_at(capacity)`), keys (`context.key("displacement", capacity)`), `context.devices`,
   progress bars and notes for the report. The table called "table" becomes table.csv, any other `name`
   becomes name.csv. A failed check makes the exit status 1. Raise InputError for input that cannot be used:
   one line, exit status 2.
2. `conf/study/example.yaml` (`# @package _global_`) with `study: example`, the defaults that the study
   changes, and every key that its Config adds: defaults live in conf/, types and ranges in the dataclass.
3. One entry in `STUDIES` below.
4. Figures, if any: `mfmc/plotting_example.py` with `FIGURES = {"name": draw}` where `draw(figure, result)`
   fills a matplotlib Figure from `result.summary`, `result.tables` and `result.arrays` alone, so that the
   same function also redraws a folder read back with `mfmc.results.read`. See `mfmc/plotting.py` for the
   style and helpers.

`study=mean_field` is the shortest complete example.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from mfmc.errors import InputError


class Study(NamedTuple):
    """Where a study lives, and what it is for, in a few words."""

    module: str
    purpose: str


STUDIES: dict[str, Study] = {
    "validate": Study("mfmc.studies.validate", "the paper's theorems against exact laws and Monte Carlo (default)"),
    "exact": Study("mfmc.studies.exact", "exact finite-N values and all bounds, without simulation"),
    "hit_ratio": Study("mfmc.studies.hit_ratio", "Theorems C.5 and C.6: h(N) five ways, and other policies than LRU"),
    "replay": Study("mfmc.studies.replay", "LRU over a stream or a trace: its whole curve beside the prediction"),
    "rare_events": Study("mfmc.studies.rare_events", "deviation probabilities down to 1e-9, by exponential tilting"),
    "displacement": Study("mfmc.studies.displacement", "Theorem C.2: deviation of the displacement from its mean"),
    "characteristic_time": Study("mfmc.studies.characteristic_time", "Theorem C.4: the law of tau_C(j)"),
    "trace": Study("mfmc.studies.trace", "what is in a trace, and what the estimator can be trusted with there"),
    "estimate": Study("mfmc.studies.estimate", "hit ratio from a trace or from known means (35)-(39), with its error"),
    "eviction_tradeoff": Study(
        "mfmc.studies.eviction_tradeoff", "idle time-outs on real steps: recomputation against memory"
    ),
    "cache_budget": Study("mfmc.studies.cache_budget", "prefix checkpoints under byte budgets, designs compared"),
    "plan": Study("mfmc.studies.plan", "capacity, GiB and cost for a target hit ratio, for a named model"),
    "fit": Study("mfmc.studies.fit", "gap and turn laws fitted to a trace; writes a workload that runs"),
    "mean_field": Study("mfmc.studies.mean_field", "characteristic time and limit hit ratio, per accounting"),
    "collect": Study("mfmc.studies.collect", "one table and one report of a sweep, finished or not"),
    "doctor": Study(
        "mfmc.studies.doctor", "whether this machine is fit: versions, devices, known wrong results, folders"
    ),
}


def load(name: str) -> ModuleType:
    """The module of a study, imported on demand. Raises InputError for a name that is not in STUDIES."""
    if name not in STUDIES:
        near = get_close_matches(name, STUDIES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"study={name}: no such study; {hint}known are {', '.join(STUDIES)}")
    return import_module(STUDIES[name].module)
