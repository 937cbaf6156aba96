"""`study=estimate`: the hit ratio that a memory will have, from a trace or from known means, with its
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from mfmc.config.convert import convert
from mfmc.config.known import read_mapping
from mfmc.config.ranges import Range
from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection, load_trace
from mfmc.config.workload import GapsSection, build_law
from mfmc.errors import InputError
from mfmc.estimator import NoGaps, TraceEstimator, partial_workload
from mfmc.laws.gaps import ExponentialGaps
from mfmc.studies.context import Context
from mfmc.studies.replays import Replayed, replay_trace
from mfmc.studies.result import Check, Result, check
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.workload import Workload

Row = dict[str, Any]
CURVE_POINTS = 41
FEW_CONVERSATIONS = 30


@dataclass(kw_only=True)
class PriorSection:
    """What is known of load and pace beforehand, or better than the trace does."""

    arrival_rate: Annotated[float | None, Range(above=0)] = None
    gap_mean: Annotated[float | None, Range(above=0)] = None
    gaps: GapsSection = field(default_factory=GapsSection)


@dataclass(kw_only=True)
class KnownSection(PriorSection):
    """Means that are known without a trace (Appendix C.2.2); also the keys of `estimate.file`."""

    accessed_blocks: Annotated[float | None, Range(above=0)] = None
    hashable_blocks: Annotated[float | None, Range(low=0)] = None
    mean_lifetime_blocks: Annotated[float | None, Range(above=0)] = None
    mean_turns: Annotated[float | None, Range(low=1)] = None


@dataclass(kw_only=True)
class EstimateSection(KnownSection):
    """What to estimate from, and what to put beside it."""

    source: Annotated[str, Range(choices=("trace", "partial"))]
    file: str | None
    replicates: Annotated[int, Range(low=0)]
    replay: bool
    warm_up: Annotated[float, Range(low=0, below=1)]
    exact: bool


@dataclass(kw_only=True)
class Config(Settings):
    """Settings of the study."""

    trace: TraceSection
    estimate: EstimateSection


def run(config: Config, context: Context) -> Result:
    """One row per capacity with the recommended estimate; table `all` has every accounting and gap law."""
    if config.estimate.source == "partial":
        return from_known_means(config, context)
    return from_trace(config, context)


# From known means


def from_known_means(config: Config, context: Context) -> Result:
    """(38) and (39) with estimates of A_R, A_H_hash, E[B] and F."""
    known = known_means(config.estimate)
    gaps = prior_law(known)
    needed = {}
    for name in ("accessed_blocks", "hashable_blocks", "mean_lifetime_blocks", "arrival_rate"):
        needed[name] = getattr(known, name)
        if needed[name] is None:
            raise InputError(f"estimate.{name} is not set: partial information needs it (or estimate.file)")
    if gaps is None:
        raise InputError("estimate.gap_mean is not set: give the mean gap, or a law in estimate.gaps")
    workload = partial_workload(gaps=gaps, mean_turns=known.mean_turns, **needed)
    accountings = chosen_accountings(config, workload.accountings)
    rows = [mean_field_row(workload, n, a) for a in accountings for n in sorted(config.capacities)]
    curve = curve_capacities(config.capacities)
    arrays = {"curve_capacity": curve} | {
        f"curve_{name}": np.array([float(hit_ratio(workload, n, name)) for n in curve]) for name in accountings
    }
    means = {"arrival_rate": known.arrival_rate, "mean_gap": float(gaps.mean)}
    return Result(
        summary={"source": "partial", **means, "moments": moments_of(workload), "estimates": rows},
        headline=[f"{n:,} blocks: {_words(row)}" for row in rows for n in [row["capacity"]]][:8],
        tables={"table": rows},
        arrays=arrays,
        checks=growth_checks(rows),
    )


def known_means(section: EstimateSection) -> KnownSection:
    """The command line's values over those of `estimate.file`."""
    if section.file is None:
        return section
    known = convert(KnownSection, read_mapping(section.file, "estimate.file"), "")
    for name in (
        "accessed_blocks",
        "hashable_blocks",
        "mean_lifetime_blocks",
        "mean_turns",
        "arrival_rate",
        "gap_mean",
    ):
        if getattr(section, name) is not None:
            setattr(known, name, getattr(section, name))
    if section.gaps.kind is not None:
        known.gaps = section.gaps
    return known


def prior_law(known: PriorSection, key: str = "estimate") -> Any:
    """The gap law that is given, or None; `key` is the section's place, for messages."""
    if known.gaps.kind is not None:
        if known.gap_mean is not None:
            raise InputError(f"{key}.gap_mean and {key}.gaps.kind are both set: give one of them")
        return build_law(known.gaps, f"{key}.gaps")
    return None if known.gap_mean is None else ExponentialGaps(known.gap_mean)


def chosen_accountings(config: Settings, available: tuple[str, ...]) -> tuple[str, ...]:
    """The accountings asked for, of those that the input allows."""
    wanted = tuple(config.accountings or available)
    for name in wanted:
        if name not in available:
            raise InputError(f"accountings=[{name}]: what is known gives only {', '.join(available)}")
    return wanted


def mean_field_row(workload: Workload, capacity: float, accounting: str) -> Row:
    return {
        "capacity": capacity,
        "accounting": accounting,
        "characteristic_time": float(characteristic_time(workload, capacity, accounting)),
        "hit_ratio": float(hit_ratio(workload, capacity, accounting)),
    }


def moments_of(workload: Workload) -> dict[str, Row]:
    """Means per conversation in blocks, per accounting."""
    found = {}
    for name in workload.accountings:
        moments = workload.profile(name)
        found[name] = {
            "allocated_blocks": moments.allocated,
            "reusable_blocks": moments.reusable,
            "accessed_blocks": moments.content,
            "reuse_ceiling": moments.reuse_ceiling,
        }
    return found


def curve_capacities(capacities: Sequence[float]) -> np.ndarray:
    """Capacities for a curve, evenly in logarithms, a little past those asked for on both sides."""
    low, high = min(capacities) / 4, max(capacities) * 4
    return np.unique(np.round(np.geomspace(max(low, 1), high, CURVE_POINTS)).astype(np.int64))


def growth_checks(rows: list[Row]) -> list[Check]:
    """Estimates grow with the capacity."""
    checks = []
    for name in dict.fromkeys(row["accounting"] for row in rows):
        values = [row["hit_ratio"] for row in rows if row["accounting"] == name]
        if len(values) > 1:
            grows = bool(np.all(np.diff(values) >= -1e-12))
            checks.append(
                check(
                    f"the estimate grows with the capacity, {name}",
                    grows,
                    f"{values[0]:.4f} to {values[-1]:.4f}",
                )
            )
    return checks


def _words(row: Row) -> str:
    return (
        f"hit ratio {row['hit_ratio']:.6f}, T_C {row['characteristic_time']:.4f} units of time"
        f" ({row['accounting']} accounting)"
    )


# From a trace


def trace_estimator(
    section: TraceSection, known: PriorSection, replicates: int, context: Context, key: str
) -> TraceEstimator:
    """The estimator of a trace with what is `known` beforehand; `key` is the place of `known`, for
    messages.
    """
    trace = load_trace(section)
    context.notes.extend(trace.describe())
    if trace.clock != "shared" and known.arrival_rate is None:
        raise InputError(
            f"{section.path} has no common clock, so no arrival process can be read from it: give {key}.arrival_rate"
        )
    try:
        return TraceEstimator(
            trace,
            section.block_tokens,
            minimum_turns=section.minimum_turns,
            arrival_rate=known.arrival_rate,
            prior=prior_law(known, key),
            replicates=replicates,
            seed=context.settings.runtime.seed,
        )
    except NoGaps as error:
        raise InputError(f"{section.path}: {error}: give a gap law, {key}.gap_mean=SECONDS or {key}.gaps") from error


def from_trace(config: Config, context: Context) -> Result:
    """Every accounting and gap law at every capacity, the recommended pair with interval and exact value."""
    known = known_means(config.estimate)
    estimator = trace_estimator(config.trace, known, config.estimate.replicates, context, "estimate")
    accountings = chosen_accountings(config, estimator.workload().accountings)
    chosen = "token" if "token" in accountings else accountings[-1]
    law = estimator.default_law
    capacities, curve = sorted(config.capacities), curve_capacities(config.capacities)
    replayed = replay_trace(estimator, context, max(curve), config.estimate.warm_up) if config.estimate.replay else None

    everything = [
        with_errors(row_of(estimator, n, accounting, name), replayed)
        for accounting in accountings
        for name in estimator.laws
        for n in capacities
    ]
    best = [row for row in everything if row["accounting"] == chosen and row["law"] == law]
    if config.estimate.exact:
        add_exact(best, estimator, context)
    arrays = curve_arrays(estimator, curve, accountings, chosen, replayed) | law_arrays(estimator)
    note_small_memories(capacities, estimator, context)
    checks = growth_checks(best)
    headline = [_finding(row, estimator) for row in best][:8]
    return Result(
        summary={
            "source": "trace",
            "format": estimator.trace.format,
            "conversations": int(estimator.sums.turns.size),
            "turns": int(estimator.sums.turns.sum()),
            "block_tokens": config.trace.block_tokens,
            "arrival_rate": float(estimator.arrival_rate),
            "arrival_rate_given": known.arrival_rate,
            "accounting": chosen,
            "law": law,
            "mean_gaps": {name: float(entry.mean) for name, entry in estimator.laws.items()},
            "continues": None if estimator.kaplan_meier is None else estimator.kaplan_meier.continues,
            "continues_seen": None if estimator.kaplan_meier is None else estimator.kaplan_meier.seen,
            "moments": moments_of(estimator.workload()),
            "replay": None if replayed is None else replayed.how,
            "estimates": best,
            "all_estimates": everything,
        },
        headline=headline,
        tables={"table": [_narrow(row) for row in best], "all": everything},
        arrays=arrays,
        checks=checks,
        sections={"Which estimate": _advice(estimator, replayed)},
    )


def note_small_memories(capacities: list[int], estimator: TraceEstimator, context: Context) -> None:
    """The mean field is for memories that hold many conversations; say where one holds few."""
    size = float(estimator.sums.blocks["token"][2].sum() / estimator.sums.turns.sum())
    few = [n for n in capacities if n < FEW_CONVERSATIONS * size]
    if few:
        context.notes.append(
            f"memories of {max(few):,} blocks and less hold fewer than {FEW_CONVERSATIONS} contexts of the mean"
            f" size, {size:,.0f} blocks: the mean field is rough there; trust the replay, or the exact column"
        )


def row_of(estimator: TraceEstimator, capacity: int, accounting: str, law: str) -> Row:
    found = estimator.estimate(capacity, accounting, law)
    return {
        "capacity": capacity,
        "capacity_tokens": capacity * estimator.sums.block_tokens,
        "accounting": accounting,
        "law": law,
        "characteristic_time": found.characteristic_time,
        "hit_ratio": found.hit_ratio,
        "low": found.low,
        "high": found.high,
    }


def with_errors(row: Row, replayed: Replayed | None) -> Row:
    """AE and RE of Section 4: |estimate - replay|, and its share of the replay."""
    if replayed is None:
        return row
    actual = float(replayed.curve.hit_ratio(row["capacity"]))
    error = abs(row["hit_ratio"] - actual)
    return row | {
        "replayed": actual,
        "absolute_error": error,
        "relative_error": error / actual if actual > 0 else None,
    }


def add_exact(rows: list[Row], estimator: TraceEstimator, context: Context) -> None:
    """The finite-N value beside the mean field, or a note that says why not."""
    refused = estimator.exact_refused
    if refused:
        context.notes.append(f"the finite-N correction is left out: {refused}")
        return
    with context.progress("exact law", len(rows)) as advance:
        for row in rows:
            correction = estimator.finite_size_correction(row["capacity"], row["accounting"], row["law"])
            row["exact"] = max(row["hit_ratio"] + correction, 0.0)
            advance()


def curve_arrays(
    estimator: TraceEstimator,
    curve: np.ndarray,
    accountings: tuple[str, ...],
    chosen: str,
    replayed: Replayed | None,
) -> dict[str, np.ndarray]:
    workload = estimator.workload()
    arrays = {"curve_capacity": curve}
    for name in accountings:
        arrays[f"curve_{name}"] = np.array([float(hit_ratio(workload, n, name)) for n in curve])
    if estimator.replicates:
        bounds = [estimator.estimate(n, chosen) for n in curve]
        arrays["curve_low"] = np.array([e.low for e in bounds])
        arrays["curve_high"] = np.array([e.high for e in bounds])
    if replayed is not None:
        arrays["curve_replayed"] = np.asarray(replayed.curve.hit_ratio(curve))
    return arrays


def law_arrays(estimator: TraceEstimator) -> dict[str, np.ndarray]:
    """F of every law on one grid of times."""
    longest = max(float(law.quantile(0.995)) for law in estimator.laws.values())
    shortest = min(float(law.quantile(0.005)) for law in estimator.laws.values())
    times = np.geomspace(max(shortest, longest * 1e-6), longest, 201)
    return {"law_times": times} | {f"law_{name}": np.asarray(law.cdf(times)) for name, law in estimator.laws.items()}


def _narrow(row: Row) -> Row:
    """A row for the terminal; `summary.estimates` has every digit."""
    ratios = {"hit_ratio": "hit_ratio", "low": "low", "high": "high", "exact": "finite_N", "replayed": "replayed"}
    found = {"blocks": row["capacity"], "tokens": row["capacity_tokens"], "T_C_seconds": row["characteristic_time"]}
    return found | {name: row[key] for key, name in ratios.items() if row.get(key) is not None}


def _finding(row: Row, estimator: TraceEstimator) -> str:
    between = "" if row["low"] is None else f" (95% interval {row['low']:.4f} to {row['high']:.4f})"
    exact = f", {row['exact']:.4f} by the finite-N law" if "exact" in row else ""
    actual = ""
    if row.get("replayed") is not None:
        share = "" if row["relative_error"] is None else f", {row['relative_error']:.1%} of it"
        actual = f"; replayed {row['replayed']:.4f}, absolute error {row['absolute_error']:.4f}{share}"
    return (
        f"{row['capacity']:,} blocks ({row['capacity_tokens']:,} tokens): hit ratio"
        f" {row['hit_ratio']:.4f}{between}{exact}, T_C {row['characteristic_time']:.4g} s{actual}"
    )


def _advice(estimator: TraceEstimator, replayed: Replayed | None) -> str:
    corrected = estimator.kaplan_meier
    lines = [
        "- Recommended: the token-exact accounting. It counts full blocks, as a prefix cache does; the practical"
        " model's one tail block a turn is no list of blocks, and costs 7 to 12 % on ShareGPT lengths where the"
        " token-exact one is about 1 % off.",
        "- Recommended law of the gap: `size_weighted`, in which every gap counts with the blocks that wait for its"
        " end. Where long contexts pause longer than short ones, a law of all gaps alike puts hits too high.",
        "- Other laws: `kaplan_meier` weighs all gaps alike, corrected for waits that the file's end cut, as the"
        " first is; `empirical` has the gaps seen; `posterior` is exponential with their mean; `prior` is the law that"
        " was given.",
        "- The interval resamples conversations; it does not cover arrivals that are not Poisson, nor a workload"
        " that changes.",
        "- The finite-N law takes a cache that gives up the deepest blocks first, as the replay does. Where it differs"
        " from the estimate, the memory holds few conversations: believe it.",
    ]
    if corrected is not None:
        lines.append(
            f"- After correction for the file's end {corrected.continues:.1%} of the turns are followed by another"
            f" ({corrected.seen:.1%} are seen to be)."
        )
    if replayed is not None:
        lines.append(f"- Replay: {replayed.how}.")
    return "\n".join(lines)
