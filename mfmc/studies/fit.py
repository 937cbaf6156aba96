"""`study=fit`: laws of gaps, turns and sizes that describe a trace, and a workload file made of the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mfmc.config.known import write_mapping
from mfmc.config.ranges import Count, Range
from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection, load_trace
from mfmc.errors import InputError
from mfmc.estimator import ConversationSums, cache_arrival_rate, kaplan_meier
from mfmc.estimator.gap_laws import empirical, usable_gaps
from mfmc.fitting import FAMILIES, BlockFit, Fit, compare_gaps, fit_blocks, fit_turns
from mfmc.studies.context import Context
from mfmc.studies.result import Check, Result, check
from mfmc.traces.table import Trace

Row = dict[str, Any]
FALLBACK_RATE = 1.0
POOR = 0.1  # KS distance from which on a law is no description of the data


@dataclass(kw_only=True)
class FitSection:
    """What to fit."""

    kinds: Annotated[list[str] | None, Range(choices=tuple(FAMILIES), nonempty=True)]
    sample: Annotated[int, Range(low=100)]
    arrival_rate: Annotated[float | None, Range(above=0)]
    capacity: Count


@dataclass(kw_only=True)
class Config(Settings):
    """Settings of the study."""

    trace: TraceSection
    fit: FitSection


def run(config: Config, context: Context) -> Result:
    """Tables of gap and turn laws by AIC; `workload.yaml` in the folder of results."""
    trace = load_trace(config.trace)
    context.notes.extend(trace.describe())
    seconds, censored = sampled_gaps(trace, config, context)
    cut = bool(censored.any())
    kinds = tuple(config.fit.kinds or FAMILIES)
    try:
        gaps = compare_gaps(seconds, censored if cut else None, kinds, may_end=cut)
    except InputError as error:
        raise InputError(f"{config.trace.path}: {error}; resample the trace instead, workload=from_trace") from error
    table = trace.conversations(config.trace.block_tokens, config.trace.minimum_turns)
    sums = ConversationSums.of(table)
    turns = fit_turns(sums.turns.astype(np.int64))
    turn_law = with_maximum(turns[0], int(sums.turns.max()))
    block_fits = fit_blocks(table, sums, turn_law["pmf"])
    blocks = block_fits[0]
    rate = arrival_rate(trace, config, context)
    settings = {
        "name": f"fitted_{trace.format}",
        "arrival_rate": rate,
        "capacity": config.fit.capacity,
        "block_tokens": config.trace.block_tokens,
        "turns": turn_law["settings"],
        "blocks": blocks.settings,
        "gaps": gap_settings(gaps[0]),
    }
    return Result(
        summary={
            "gaps": {
                "count": int((~censored).sum()),
                "censored": int(censored.sum()),
                "fits": [row_of(f) for f in gaps],
            },
            "turns": [row_of(fit) for fit in turns],
            "blocks": blocks.summary(sums),
            "workload": settings,
        },
        headline=[
            *findings(gaps, turns, blocks),
            "workload.yaml holds the best of each: mfmc workload=<this folder>/workload.yaml",
        ],
        tables={
            "table": [narrow(fit) for fit in gaps],
            "gap_fits": [row_of(f) for f in gaps],
            "turn_fits": [row_of(f) for f in turns],
            "block_fits": [
                {"kind": f.settings["kind"], "log_likelihood": f.log_likelihood, "ks": f.ks} for f in block_fits
            ],
        },
        arrays=gap_arrays(seconds, censored, gaps) | turn_arrays(sums, turns),
        checks=checks(gaps, turns, blocks, sums),
        files={"workload.yaml": write_mapping(settings, _comment(config, gaps[0], turns[0], blocks))},
    )


def sampled_gaps(trace: Trace, config: Config, context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Gaps and cut waits, at most `fit.sample` of them."""
    gaps = usable_gaps(trace.gaps())
    seconds, censored = gaps.seconds, gaps.censored
    if not (~censored).any():
        raise InputError(f"{config.trace.path} has no gaps between turns: there is no gap law to fit")
    zeros = int(np.count_nonzero(seconds[~censored] == 0))
    if zeros:
        context.notes.append(f"{zeros:,} gaps of 0 s count as half the shortest other: no law here has an atom at 0")
    if seconds.size > config.fit.sample:
        chosen = np.random.default_rng(config.runtime.seed).choice(
            seconds.size, config.fit.sample, replace=False
        )
        context.notes.append(
            f"{config.fit.sample:,} of {seconds.size:,} gaps and cut waits are fitted, drawn at random"
        )
        seconds, censored = seconds[chosen], censored[chosen]
    return seconds, censored


def arrival_rate(trace: Trace, config: Config, context: Context) -> float:
    """Of workload.yaml, in conversations as the cache sees them; the trace's own where it has arrivals."""
    given = config.fit.arrival_rate
    if given is None and trace.clock != "shared":
        context.notes.append(
            f"the trace has no arrivals: workload.yaml takes {FALLBACK_RATE:g} of its conversations a second"
            " (fit.arrival_rate)"
        )
        given = FALLBACK_RATE
    return cache_arrival_rate(trace, given, config.trace.minimum_turns)


def with_maximum(fit: Fit, largest: int) -> Row:
    """Settings of the turn law, cut at the longest conversation seen, and its pmf."""
    settings: Row = {"kind": fit.kind, **fit.parameters}
    law = fit.law
    if fit.kind == "fixed":
        settings["count"] = int(settings["count"])
    else:
        if fit.kind in ("negative_binomial", "poisson"):
            settings["minimum"] = int(law.minimum)
        if fit.kind in ("negative_binomial", "geometric"):
            settings["maximum"] = largest
            law = type(law)(**{name: value for name, value in settings.items() if name != "kind"})
    return {"settings": settings, "pmf": law.pmf()}


def gap_settings(fit: Fit) -> Row:
    """The `gaps` section of a workload."""
    if fit.kind.startswith("hyperexponential"):
        law = fit.law
        return {"kind": "hyperexponential", "weights": list(law.weights), "means": list(law.means)}
    return {"kind": fit.kind, **fit.parameters}


# Tables, arrays, words


def row_of(fit: Fit) -> Row:
    """One row: criteria, and the parameters with their errors."""
    parameters = {
        name: {"estimate": value, "standard_error": fit.standard_errors[name]}
        for name, value in fit.parameters.items()
    }
    return {
        "kind": fit.kind,
        "aic": fit.aic,
        "bic": fit.bic,
        "ks": fit.ks,
        "log_likelihood": fit.log_likelihood,
        "converged": fit.converged,
        "continues": fit.continues,
        "parameters": parameters,
    }


def narrow(fit: Fit) -> Row:
    """A row for the terminal."""
    words = (
        f"{name} {value:.4g}"
        + ("" if fit.standard_errors[name] is None else f" +- {fit.standard_errors[name]:.2g}")
        for name, value in fit.parameters.items()
    )
    missed = "" if fit.converged else " (not converged)"
    return {"gaps": fit.kind, "aic": fit.aic, "ks": fit.ks, "parameters": ", ".join(words) + missed}


def findings(gaps: list[Fit], turns: list[Fit], blocks: BlockFit) -> list[str]:
    best = gaps[0]
    ahead = f", AIC {gaps[1].aic - best.aic:,.1f} below {gaps[1].kind}" if len(gaps) > 1 else ""
    follows = "" if best.continues is None else f"; {best.continues:.1%} of the turns are followed by another"
    poor = [
        f"no law of the {name} comes near the trace (KS distance {found.ks:.2f}): to simulate it, resample the trace"
        " itself, mfmc workload=from_trace workload.trace.path=FILE"
        for name, found in (("gaps", best), ("turns", turns[0]), ("block sizes", blocks))
        if found.ks > POOR
    ]
    return [
        f"gaps: {best.kind}, mean {float(best.law.mean):.4g} s{ahead}, KS distance {best.ks:.3f}{follows}",
        f"turns: {turns[0].kind}, mean {turns[0].law.mean:.4g}, KS distance {turns[0].ks:.3f}",
        f"block sizes: {blocks.words}; KS distance {blocks.ks:.3f}",
        *poor[:1],
    ]


def gap_arrays(seconds: np.ndarray, censored: np.ndarray, fits: list[Fit]) -> dict[str, np.ndarray]:
    """Survival of the data and of every fit on one grid of times."""
    seen = seconds[~censored]
    law = kaplan_meier(seconds, censored).law if censored.any() else empirical(seen)
    low = float(law.quantile(0.01))
    times = np.geomspace(max(low, float(seen[seen > 0].min())), float(seen.max()), 201)
    arrays = {"times": times, "data": np.asarray(law.cdf(times))}
    # What can be seen is only up to the longest gap: fits are put on the same condition.
    top = float(seen.max()) if censored.any() else np.inf
    return arrays | {
        f"fit_{fit.kind}": np.asarray(fit.law.cdf(times)) / float(fit.law.cdf(top)) for fit in fits
    }


def turn_arrays(sums: ConversationSums, fits: list[Fit]) -> dict[str, np.ndarray]:
    counts = np.bincount(sums.turns.astype(np.int64))
    arrays = {"turns": counts / counts.sum()}
    for fit in fits:
        pmf = np.zeros(counts.size)
        own = fit.law.pmf()[: counts.size]
        pmf[: own.size] = own
        arrays[f"turns_{fit.kind}"] = pmf
    return arrays


def checks(gaps: list[Fit], turns: list[Fit], blocks: BlockFit, sums: ConversationSums) -> list[Check]:
    missed = [fit.kind for fit in (gaps[0], turns[0]) if not fit.converged]
    return [
        check(
            "the fits of workload.yaml converged",
            not missed,
            f"not: {', '.join(missed)}" if missed else f"{gaps[0].kind} gaps, {turns[0].kind} turns",
        ),
        check(
            "the fitted sizes keep E[B] within 5%",
            abs(blocks.lifetime / sums.moments("whole").allocated - 1) < 0.05,
            f"{blocks.lifetime:.4g} blocks against {sums.moments('whole').allocated:.4g} in the trace",
        ),
    ]


def _comment(config: Config, gap: Fit, turn: Fit, blocks: BlockFit) -> str:
    return (
        f"Fitted by mfmc study=fit to {config.trace.path}\n"
        f"Gaps: {gap.kind} (seconds), KS distance {gap.ks:.3f}. Turns: {turn.kind}, KS distance"
        f" {turn.ks:.3f}.\n"
        f"Block sizes: {blocks.words}."
    )
