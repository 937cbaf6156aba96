"""`study=plan`: what memory reaches a target, what it costs, and how the answer moves with load and pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mfmc.config.model import ModelSection, build_model
from mfmc.config.ranges import Range
from mfmc.config.schema import Settings
from mfmc.config.trace import TraceSection
from mfmc.errors import InputError
from mfmc.estimator.bootstrap import interval
from mfmc.models import GIB, KVModel
from mfmc.planning import Economics, best_capacity, exact_capacity, sensitivities
from mfmc.studies.context import Context
from mfmc.studies.estimates import curve_capacities
from mfmc.studies.known import PriorSection
from mfmc.studies.planned import Planned, planned
from mfmc.studies.result import Check, Result, check
from mfmc.theory.mean_field import capacity_for, characteristic_time, hit_ratio

Row = dict[str, Any]
EXACT_TOLERANCE = 1e-4
Targets = Annotated[list[float], Range(above=0, below=1)]


@dataclass(kw_only=True)
class PlanSection(PriorSection):
    """Targets, budgets and prices."""

    source: Annotated[str, Range(choices=("workload", "trace"))]
    hit_ratios: Targets
    prefill_savings: Targets
    budgets_gib: Annotated[list[float], Range(above=0)]
    memory_prices: Annotated[list[float], Range(above=0)]
    prefill_price: Annotated[float, Range(above=0)]
    replicates: Annotated[int, Range(low=0)]
    exact: bool
    replay: bool


@dataclass(kw_only=True)
class Config(Settings):
    """Settings of the study."""

    trace: TraceSection
    model: ModelSection
    plan: PlanSection


def run(config: Config, context: Context) -> Result:
    """Rows of targets and budgets; tables of sensitivities and of one knee per memory price."""
    model = build_model(config.model)
    plan = planned(config, model, context)
    context.notes.append(model.describe(plan.block_tokens))
    asked = capacities_asked(config, plan, model, context)
    if not asked:
        raise InputError(
            f"no target can be reached: the reuse ceiling of this workload is {plan.ceiling:.4f}; set lower"
            " plan.hit_ratios, or give plan.budgets_gib"
        )
    knees = [knee_row(config, plan, price) for price in config.plan.memory_prices]
    curve = curve_capacities([row["capacity"] for row in (*asked, *knees) if row["capacity"] > 0])
    replayed = plan.replay(int(curve[-1])) if config.plan.replay else None
    if replayed is not None:
        for row in asked:
            row["replayed"] = float(replayed.curve.hit_ratio(round(row["capacity"])))
    slopes = [sensitivity_row(plan, row) for row in asked]
    return Result(
        summary={
            "model": model.name,
            "token_bytes": model.token_bytes,
            "block_tokens": plan.block_tokens,
            "block_bytes": model.block_bytes(plan.block_tokens),
            "accounting": plan.accounting,
            "arrival_rate": float(plan.workload.arrival_rate),
            "reuse_ceiling": plan.ceiling,
            "replay": None if replayed is None else replayed.how,
            "plan": asked,
            "sensitivities": slopes,
            "knees": knees,
        },
        headline=[*(finding(row, plan) for row in asked), *(knee_finding(row) for row in knees)],
        tables={"table": [narrow(row) for row in asked], "sensitivities": slopes, "knees": knees},
        arrays=curve_arrays(config, plan, curve, replayed),
        checks=plan_checks(asked),
        sections={"How to read this": _reading(plan, model, replayed)},
    )


# Capacities


def capacities_asked(config: Config, plan: Planned, model: KVModel, context: Context) -> list[Row]:
    """One row per target that can be reached and per budget, by capacity."""
    section, rows = config.plan, []
    goals = [("hit ratio", goal, goal) for goal in section.hit_ratios]
    goals += [("prefill saving", goal, goal / plan.token_share) for goal in section.prefill_savings]
    for kind, goal, ratio in goals:
        if ratio >= plan.ceiling:
            context.notes.append(
                f"{kind} {goal:g} cannot be reached: at most {plan.ceiling * (goal / ratio):.4f}, with"
                " endless memory"
            )
            continue
        capacity = capacity_for(plan.workload, ratio, plan.accounting)
        rows.append(capacity_row(plan, capacity, f"{kind} {goal:g}"))
        add_uncertainty(rows[-1], plan, ratio, config, context)
    for budget in section.budgets_gib:
        capacity = budget_capacity(plan, model, budget * GIB)
        rows.append(capacity_row(plan, capacity, f"budget {budget:g} GiB"))
    return sorted(rows, key=lambda row: row["capacity"])


def capacity_row(plan: Planned, capacity: float, target: str) -> Row:
    time = float(characteristic_time(plan.workload, capacity, plan.accounting))
    ratio = float(hit_ratio(plan.workload, capacity, plan.accounting))
    return {
        "target": target,
        "capacity": capacity,
        "tokens": capacity * plan.block_tokens,
        "gib": plan.bytes_of(capacity) / GIB,
        "hit_ratio": ratio,
        "prefill_saving": ratio * plan.token_share,
        "characteristic_time": time,
    }


def add_uncertainty(row: Row, plan: Planned, ratio: float, config: Config, context: Context) -> None:
    """The interval of the capacity by bootstrap, and the capacity by the finite-N law."""
    if plan.resampled is not None:
        low, high = interval(row["capacity"], plan.resampled.capacity_for(ratio))
        row |= {"gib_low": plan.bytes_of(max(low, 1)) / GIB, "gib_high": plan.bytes_of(high) / GIB}
    if config.plan.exact and plan.exact_workload is not None:
        with context.progress(f"finite-N law, {row['target']}", 1) as advance:
            # The conversations seen, not those that go on after the file: the same share of their own ceiling.
            share = ratio / plan.ceiling * plan.exact_workload.profile(plan.accounting).reuse_ceiling
            reference = capacity_for(plan.exact_workload, share, plan.accounting)
            exact = exact_capacity(plan.exact_workload, share, plan.accounting, EXACT_TOLERANCE, plan.eviction)
            row["capacity_exact"] = row["capacity"] * exact / reference
            advance()


def budget_capacity(plan: Planned, model: KVModel, budget: float) -> float:
    """Blocks that fit into so many bytes; where a block's cost depends on lengths, by iteration."""
    capacity = budget / model.block_bytes(plan.block_tokens)
    for _ in range(20 if model.depends_on_length else 0):
        capacity *= budget / plan.bytes_of(capacity)
    return max(float(int(capacity)), 1.0)


# Sensitivities and cost


def sensitivity_row(plan: Planned, row: Row) -> Row:
    found = sensitivities(plan.workload, row["capacity"], plan.accounting)
    gib = row["gib"] / row["capacity"]
    return {
        "target": row["target"],
        "per_gib": found.per_block / gib,
        "per_block": found.per_block,
        "per_arrival_rate": found.per_arrival_rate,
        "per_mean_gap": found.per_mean_gap,
        "one_percent_capacity": found.one_percent_capacity,
        "one_percent_arrival_rate": found.one_percent_arrival_rate,
        "one_percent_mean_gap": found.one_percent_mean_gap,
    }


def economics(config: Config, plan: Planned, price: float) -> Economics:
    return Economics(
        memory_price=price,
        prefill_price=config.plan.prefill_price,
        bytes_of=plan.bytes_of,
        accessed_tokens=plan.accessed_tokens,
        token_share=plan.token_share,
    )


def knee_row(config: Config, plan: Planned, price: float) -> Row:
    """The memory of least cost at one price; hourly costs with it, and without any."""
    money = economics(config, plan, price)
    capacity = best_capacity(plan.workload, money, plan.accounting)
    at = money.hourly(plan.workload, max(capacity, 1e-9), plan.accounting)
    bare = money.hourly(plan.workload, 1e-9, plan.accounting)["cost"]
    return {
        "memory_price": price,
        "capacity": capacity,
        "gib": plan.bytes_of(capacity) / GIB if capacity else 0.0,
        "hit_ratio": float(hit_ratio(plan.workload, max(capacity, 1e-9), plan.accounting)),
        **at,
        "cost_without_cache": bare,
    }


def curve_arrays(config: Config, plan: Planned, curve: np.ndarray, replayed: Any) -> dict:
    arrays = {
        "curve_capacity": curve,
        "curve_gib": np.array([plan.bytes_of(float(n)) / GIB for n in curve]),
        "curve_hit_ratio": np.array([float(hit_ratio(plan.workload, n, plan.accounting)) for n in curve]),
    }
    if plan.resampled is not None:
        bounds = [interval(h, plan.resampled.hit_ratio(n)) for n, h in zip(curve, arrays["curve_hit_ratio"])]
        arrays["curve_low"], arrays["curve_high"] = np.clip(np.array(bounds).T, 0, 1)
    if replayed is not None:
        arrays["curve_replayed"] = np.asarray(replayed.curve.hit_ratio(curve))
    for i, price in enumerate(config.plan.memory_prices):
        money = economics(config, plan, price)
        arrays[f"cost_{i}"] = np.array(
            [money.hourly(plan.workload, n, plan.accounting)["cost"] for n in curve]
        )
    return arrays


# Words


def plan_checks(rows: list[Row]) -> list[Check]:
    goals = [row for row in rows if row["target"].startswith("hit ratio")]
    if not goals:
        return []
    worst = max(abs(row["hit_ratio"] - float(row["target"].split()[-1])) for row in goals)
    return [check("the capacity found has the hit ratio asked for", worst < 1e-9, f"within {worst:.1g}")]


def finding(row: Row, plan: Planned) -> str:
    between = f" (95% interval {row['gib_low']:.4g} to {row['gib_high']:.4g})" if "gib_low" in row else ""
    actual = f"; replayed {row['replayed']:.4f}" if "replayed" in row else ""
    exact = f"; exactly {row['capacity_exact']:,.0f} blocks at finite N" if "capacity_exact" in row else ""
    return (
        f"{row['target']}: {row['capacity']:,.0f} blocks = {row['tokens']:,.0f} tokens ="
        f" {row['gib']:.4g} GiB{between},"
        f" hit ratio {row['hit_ratio']:.4f}{exact}{actual}"
    )


def knee_finding(row: Row) -> str:
    if row["capacity"] == 0:
        return f"at {row['memory_price']:g} per GiB-hour no cache pays for itself"
    return (
        f"at {row['memory_price']:g} per GiB-hour the least cost is at {row['capacity']:,.0f} blocks ="
        f" {row['gib']:.4g} GiB:"
        f" {row['cost']:.4g} an hour against {row['cost_without_cache']:.4g} without a cache"
    )


def narrow(row: Row) -> Row:
    """A row for the terminal, in whole blocks."""
    found: Row = {
        "target": row["target"],
        "blocks": round(row["capacity"]),
        "million_tokens": row["tokens"] / 1e6,
        "GiB": row["gib"],
    }
    found |= {f"GiB_{end}": row[f"gib_{end}"] for end in ("low", "high") if f"gib_{end}" in row}
    found |= {name: row[name] for name in ("hit_ratio", "replayed") if name in row}
    return found | ({"blocks_exact": round(row["capacity_exact"])} if "capacity_exact" in row else {})


def _reading(plan: Planned, model: KVModel, replayed: Any) -> str:
    lines = [
        f"- {plan.how}; {plan.accounting} accounting; blocks of {plan.block_tokens} tokens. Times are"
        " seconds where costs"
        " are given.",
        f"- {model.describe(plan.block_tokens)}.",
        "- Sensitivities are derivatives of the mean-field hit ratio by automatic differentiation; `one"
        " percent` columns"
        " are its change for 1% more. A stretched pace and a higher rate act alike.",
        f"- Prefill saving = {plan.token_share:.4f} x hit ratio: tokens served over tokens of all prompts.",
    ]
    return "\n".join(lines if replayed is None else [*lines, f"- Replay: {replayed.how}."])
