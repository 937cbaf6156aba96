"""`study=displacement`: Theorem C.2, the deviation of D_N(t)/N from d(t) at fixed times and over a horizon."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.config.schema import Settings
from mfmc.statistics import Slope, clopper_pearson, deviations, mean, power_law, variance
from mfmc.studies.context import Context
from mfmc.studies.exact import pointwise_theory, sup_limit, sup_theory
from mfmc.studies.result import Check, Result, check
from mfmc.studies.sampling import PATH_STEPS, Paths, fans, sample_paths
from mfmc.theory.bounds import pointwise_bound, uniform_bound
from mfmc.theory.displacement_law import DisplacementLaw

Row = dict[str, Any]

#: Probability with which the interval that a bound is held against covers the truth, once per row.
_SURE = 1 - 5.7e-7  # as sure as 5 standard deviations


def run(config: Settings, context: Context) -> Result:
    """Rows per capacity, accounting, time and epsilon: estimated probabilities with Clopper-Pearson intervals, the
    exact ones (THEORY B2) and the bounds (16), (17); slopes of the mean deviations against N.
    """
    paths = sample_paths(config, context, context.accountings, path_steps=PATH_STEPS)
    pointwise, sup = [], []
    for accounting in context.accountings:
        pointwise += [{"accounting": accounting, **r} for r in pointwise_rows(config, context, paths, accounting)]
        sup += [{"accounting": accounting, **r} for r in sup_rows(config, context, paths, accounting)]
    rates = rate_rows(paths)
    first = context.accountings[0]
    return Result(
        summary={"displacement": pointwise, "displacement_sup": sup, "rates": rates},
        headline=rate_headlines(rates),
        tables={"table": pointwise, "displacement_sup": sup, "rates": rates},
        arrays=arrays_of(config, context, paths, first) | fans(config, context, paths, first),
        checks=displacement_checks(context, paths) + bound_checks("(16)", pointwise) + bound_checks("(17)", sup),
    )


def pointwise_rows(config: Settings, context: Context, paths: Paths, accounting: str) -> list[Row]:
    """P(|D_N(t)/N - d(t)| > epsilon): estimate, exact value, sharp bounds and bound (16)."""
    rows = []
    for capacity, by_accounting in paths.items():
        sample, workload = by_accounting[accounting], context.workload_at(capacity)
        for i, time in enumerate(sample.times):
            for epsilon in config.epsilons:
                interval = clopper_pearson(np.sum(sample.deviation[:, i] > epsilon), len(sample.values))
                rows.append(
                    {
                        "capacity": capacity,
                        "time": float(time),
                        "epsilon": epsilon,
                        "estimate": float(interval.estimate),
                        "low": float(interval.low),
                        "high": float(interval.high),
                        "replications": len(sample.values),
                        **pointwise_theory(workload, capacity, time, epsilon, sample.horizon, accounting),
                    }
                )
    return rows


def sup_rows(config: Settings, context: Context, paths: Paths, accounting: str) -> list[Row]:
    """P(sup over [0, horizon] of |D_N/N - d| > epsilon): estimate, Chernoff, Gaussian limit, (17); mean sup."""
    rows, limit = [], sup_limit(config, context) if accounting == "whole" else None
    for capacity, by_accounting in paths.items():
        sample, workload = by_accounting[accounting], context.workload_at(capacity)
        average = mean(sample.sup)
        for epsilon in config.epsilons:
            interval = clopper_pearson(np.sum(sample.sup > epsilon), len(sample.sup))
            rows.append(
                {
                    "capacity": capacity,
                    "horizon": sample.horizon,
                    "epsilon": epsilon,
                    "estimate": float(interval.estimate),
                    "low": float(interval.low),
                    "high": float(interval.high),
                    "replications": len(sample.sup),
                    **sup_theory(workload, capacity, epsilon, sample.horizon, limit, accounting),
                    "mean_sup": average.value,
                    "mean_sup_standard_error": average.standard_error,
                }
            )
    return rows


def rate_rows(paths: Paths) -> list[Row]:
    """Fitted exponents against N of the mean deviation at the last time and of the mean sup, per accounting."""
    rows: list[Row] = []
    capacities = np.array(list(paths))
    if capacities.size < 2:
        return rows
    for accounting in next(iter(paths.values())):
        samples = [paths[c][accounting] for c in paths]
        fits = {
            "mean deviation at a time": [mean(s.deviation[:, -1]) for s in samples],
            "mean sup": [mean(s.sup) for s in samples],
        }
        for quantity, points in fits.items():
            slope: Slope = power_law(capacities, [p.value for p in points], [p.standard_error for p in points])
            rows.append({"accounting": accounting, "quantity": quantity, **slope._asdict()})
    return rows


def rate_headlines(rates: list[Row]) -> list[str]:
    return [
        f"{row['quantity']} ({row['accounting']}) falls as N^{row['slope']:.3f}"
        f" (95% {row['low']:.3f} to {row['high']:.3f});"
        f" the paper proves {'N^(-1/3)' if row['quantity'] == 'mean sup' else 'N^(-1/2)'}"
        for row in rates
        if row["accounting"] == rates[0]["accounting"]
    ]


def displacement_checks(context: Context, paths: Paths) -> list[Check]:
    """Mean and variance of D_N(t) within 5 standard errors of their exact values, worst case over all times."""
    checks = []
    for accounting in next(iter(paths.values())):
        worst_mean, worst_variance = 0.0, 0.0
        for capacity, by_accounting in paths.items():
            sample = by_accounting[accounting]
            law = DisplacementLaw(context.workload_at(capacity), accounting)
            # Errors from the exact cumulants: those that few replications estimate of themselves are unreliable.
            second, fourth = (law.cumulant(order, sample.times) for order in (2, 4))
            n = len(sample.values)
            error = np.sqrt((fourth + 2 * second**2 * n / (n - 1)) / n)
            worst_mean = max(worst_mean, deviations(sample.values.mean(0), np.sqrt(second / n), sample.mean).max())
            worst_variance = max(worst_variance, deviations(variance(sample.values).value, error, second).max())
        checks += [
            check(f"mean of D_N(t), {accounting}", worst_mean < 5, f"within {worst_mean:.2f} standard errors of (15)"),
            check(
                f"variance of D_N(t), {accounting}",
                worst_variance < 5,
                f"within {worst_variance:.2f} standard errors of the compound Poisson law",
            ),
        ]
    return checks


def bound_checks(name: str, rows: list[Row]) -> list[Check]:
    """No estimate is surely above one of its bounds, and each is within 5 standard deviations of the exact value."""
    violated = [
        r for r in rows for kind in ("bound", "chebyshev", "chernoff") if r.get(kind) is not None and r["low"] > r[kind]
    ]
    checks = [
        check(
            f"bound {name}",
            not violated,
            f"{len(rows)} probabilities, {len(violated)} above their bound"
            + (f", first {violated[0]}" if violated else ""),
        )
    ]
    with_exact = [r for r in rows if "exact" in r]
    if with_exact:
        off = [r for r in with_exact if not covered(r)]
        checks.append(
            check(
                f"probabilities of {name} against the exact law",
                not off,
                f"{len(with_exact)} estimates, {len(off)} beyond 5 standard deviations"
                + (f", first {off[0]}" if off else ""),
            )
        )
    return checks


def covered(row: Row) -> bool:
    """Whether the exact value lies within an interval that would miss it once in 1.7 million rows."""
    interval = clopper_pearson(round(row["estimate"] * row["replications"]), row["replications"], _SURE)
    return bool(interval.low <= row["exact"] <= interval.high)


def arrays_of(config: Settings, context: Context, paths: Paths, accounting: str) -> dict[str, np.ndarray]:
    """Samples for the figures: deviations at the last time, sups, and both bounds over a grid of epsilon."""
    out: dict[str, np.ndarray] = {"epsilon_grid": np.geomspace(0.003, 1, 60)}
    for capacity, by_accounting in paths.items():
        sample, workload = by_accounting[accounting], context.workload_at(capacity)
        out[f"deviation_{capacity}"] = sample.deviation
        out[f"sup_{capacity}"] = sample.sup
        grid = out["epsilon_grid"]
        out[f"pointwise_bound_{capacity}"] = pointwise_bound(workload, capacity, grid, sample.horizon, accounting)
        out[f"uniform_bound_{capacity}"] = uniform_bound(workload, capacity, grid, sample.horizon, accounting)
    return out
