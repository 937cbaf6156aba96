"""`study=hit_ratio`: h(N) four ways that must agree, and what other policies than LRU would serve."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.statistics import Estimate, deviations, mean
from mfmc.studies.context import Context
from mfmc.studies.exact import bounds_hold, hit_ratio_theory, refined_words
from mfmc.studies.result import Check, Result, check
from mfmc.studies.sampling import Paths, sample_paths
from mfmc.theory.mean_field import hit_ratio

Row = dict[str, Any]

#: Independent streams behind a replayed hit ratio.
_STREAMS = 16


def run(config: Settings, context: Context) -> Result:
    """Rows {capacity, accounting, mean_field, refined, exact, bound, conditional, replay}; rows of policies."""
    paths = sample_paths(config, context, context.accountings, turns=(1,))
    rows = hit_ratio_rows(config, context, paths)
    policies = policy_rows(config, context)
    return Result(
        summary={"hit_ratio": rows, "policies": policies},
        headline=[*hit_ratio_headlines(rows), *policy_headlines(policies)],
        tables={"table": [flat(row) for row in rows], "policies": policies},
        checks=hit_ratio_checks(rows),
        sections={"Refined formula": refined_words(context, config), "Conventions": _CONVENTIONS},
    )


_CONVENTIONS = """
The hit ratio is blocks served over blocks looked up, all accesses counted, first turns included: the denominator of
(12) and (24) is A_R. Replays count every access in a stationary window after the cache has filled, of whichever
conversation, so that nothing is censored. A conversation hits whole or not at all (Algorithm 1). The column bound is
the least of (26) or (33) over their free arguments: |exact - mean_field| lies below it, and above 1 it says nothing.

Policies, all on one stream with arrivals as they are: lru, Algorithm 1; fifo, what came in first leaves first, used or
not; timeout, everything stays for one idle time, chosen so that the memory is full on average (and exceeded at times);
clairvoyant, LRU that keeps nothing of a conversation after its last turn. request_hit_ratio is the share of accesses
that find all they can reuse.
"""


def hit_ratio_rows(config: Settings, context: Context, paths: Paths) -> list[Row]:
    """h(N): limit, refined, exact, the least of (26) or (33), E[R F(tau)] over paths (Lemma D.6), and replay."""
    rows = []
    with context.progress("LRU replays", sum(len(found) for found in paths.values())) as advance:
        for capacity, by_accounting in paths.items():
            workload = context.workload_at(capacity)
            for accounting, sample in by_accounting.items():
                profile = workload.profile(accounting)
                given_path = sample.reuse_given_path / profile.content
                estimate = mean(given_path)
                # Where all paths give one value, the error is what a single other one would have changed.
                differ = np.ptp(given_path) > 1e-12
                error = estimate.standard_error if differ else profile.reuse_ceiling / len(given_path)
                replay = replayed(config, context, capacity, accounting)
                rows.append(
                    {
                        "capacity": capacity,
                        "accounting": accounting,
                        **hit_ratio_theory(workload, capacity, accounting),
                        "conditional": _estimate(estimate.value, error),
                        "replay": _estimate(replay.value, replay.standard_error),
                    }
                )
                advance(1)
    return rows


def replayed(config: Settings, context: Context, capacity: int, accounting: str) -> Estimate:
    """h(N) by LRU replay of independent streams; a finished one survives an interruption of the run."""
    from mfmc.lru.estimates import replayed_hit_ratio

    workload = context.workload_at(capacity)

    def replay(key: Any, capacity: int, accounting: str, conversations: int) -> Estimate:
        found = replayed_hit_ratio(
            key, workload, [capacity], accounting, conversations=conversations, replications=_STREAMS
        )
        return Estimate(found.estimate[0], found.standard_error[0])

    conversations = max(500, 10 * config.runtime.replications)
    key = context.key("replay", capacity)
    return context.once(replay, key, capacity, accounting, conversations, like=Estimate(0.0, 0.0))


def _estimate(value: float, error: float) -> Row:
    return {"estimate": float(value), "standard_error": float(error)}


def policy_rows(config: Settings, context: Context) -> list[Row]:
    """Other policies on one stream of the workload as it is, whole content, at the capacities around its own."""
    from mfmc.lru.policies import compare_policies
    from mfmc.lru.sampling import sample_accesses

    reference = config.workload.capacity
    capacities = [max(1, round(reference * share)) for share in (0.25, 0.5, 1, 2, 4)]
    stream = sample_accesses(
        context.key("policies"), context.workload, capacities[-1], max(5000, 50 * config.runtime.replications)
    )
    return [
        row._asdict() | {"lru_mean_field": float(hit_ratio(context.workload, row.capacity))}
        for row in compare_policies(stream, capacities)
    ]


def hit_ratio_checks(rows: list[Row]) -> list[Check]:
    """Both estimates within 5 standard errors of the exact value; the exact value within its bound of the limit, and
    tending to it.
    """
    checks = []
    for accounting in dict.fromkeys(row["accounting"] for row in rows):
        chosen = sorted((r for r in rows if r["accounting"] == accounting), key=lambda r: r["capacity"])
        for name, words in (("conditional", "by Monte Carlo"), ("replay", "by LRU replay")):
            worst = max(float(deviations(r[name]["estimate"], r[name]["standard_error"], r["exact"])) for r in chosen)
            checks.append(
                check(
                    f"h(N) {words} against the exact law, {accounting}",
                    worst < 5,
                    f"within {worst:.2f} standard errors at {len(chosen)} capacities",
                )
            )
        checks += bounds_hold(
            f"{'(26)' if accounting == 'whole' else '(33)'}, |h(N) - limit|, {accounting}",
            [{**r, "exact": abs(r["exact"] - r["mean_field"])} for r in chosen],
        )
        gaps = np.array([abs(r["exact"] - r["mean_field"]) for r in chosen])
        if gaps.size > 1:
            checks.append(
                check(
                    f"Theorem {'C.5' if accounting == 'whole' else 'C.6'}: h(N) tends to its limit, {accounting}",
                    bool(gaps[-1] <= gaps[0]),
                    f"|h(N) - limit| from {gaps[0]:.2g} at {chosen[0]['capacity']:,} to {gaps[-1]:.2g} at"
                    f" {chosen[-1]['capacity']:,} blocks",
                )
            )
    return checks


def hit_ratio_headlines(rows: list[Row]) -> list[str]:
    largest = max(row["capacity"] for row in rows)
    return [
        f"hit ratio at {row['capacity']:,} blocks, {row['accounting']}: {row['exact']:.5f} exactly,"
        f" {row['conditional']['estimate']:.5f} +- {row['conditional']['standard_error']:.5f} by Monte Carlo,"
        f" {row['replay']['estimate']:.5f} +- {row['replay']['standard_error']:.5f} by LRU replay,"
        f" limit {row['mean_field']:.5f}"
        for row in rows
        if row["capacity"] == largest
    ]


def policy_headlines(rows: list[Row]) -> list[str]:
    """What other policies serve at the middle capacity."""
    middle = sorted({row["capacity"] for row in rows})[2]
    found = {row["policy"]: row["hit_ratio"] for row in rows if row["capacity"] == middle}
    return [
        f"other policies at {middle:,} blocks on one stream: "
        + ", ".join(f"{name} {ratio:.4f}" for name, ratio in found.items())
    ]


def flat(row: Row) -> Row:
    """A row for the CSV: one number a column."""
    out: Row = {}
    for key, value in row.items():
        out |= {f"{key}_{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return out
