"""h(N) from simulated paths with hundreds of times less variance than hits and misses have.

Three steps from the indicator 1{W <= tau} of one tagged access per path: take its conditional expectation
given the path, F(tau) (Lemma D.6); average that over all sizes at once, sum_r r a(r) F(tau(r)) / A_R (THEORY
B4), which one path gives; take off what D_N explains of it at T_C and a standard deviation of tau before and
after, where its mean and variance are known exactly (THEORY B2).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from mfmc.displacement import simulate_displacement
from mfmc.errors import InputError
from mfmc.replication import Replicator
from mfmc.theory.chernoff import TailTable
from mfmc.theory.displacement_law import DisplacementLaw
from mfmc.theory.mean_field import characteristic_time, displacement_rate
from mfmc.workload import Workload

#: Chance that the memory has not filled by the end of a path: the bias is smaller.
_UNFINISHED = 1e-9

_FEWEST = 64


class ReducedEstimate(NamedTuple):
    """An estimate of h(N), its variance per path at each step, and what that is worth."""

    estimate: float
    standard_error: float
    indicator_variance: float  # of h_max 1{W <= tau}, one tagged access per path: h (h_max - h)
    conditional_variance: float  # of sum_r r a(r) F(tau(r)) / A_R
    controlled_variance: float  # after the control variates
    indicator_cost: float  # of the indicator's paths, which may end with the gap W, relative to ours
    gain: float  # time that the indicator would need for the same error, relative to ours


def controlled_hit_ratio(
    key: jax.Array,
    workload: Workload,
    capacity: int,
    replications: int = 1024,
    *,
    accounting: str = "whole",
    replicator: Replicator | None = None,
) -> ReducedEstimate:
    """h(N) by conditional expectation over all sizes on a path, with D_N and its square as control variates.

    The coefficients come from the other half of the replications: the estimate is unbiased, up to 1e-9 for
    paths cut short.
    """
    if replications < _FEWEST:
        raise InputError(f"replications={replications!r}: expected at least {_FEWEST}, to fit the controls")
    law = DisplacementLaw(workload, accounting)
    times, length = _times(law, capacity)
    paths = simulate_displacement(
        key, workload, capacity, times[-1], replications, times=times, accountings=(accounting,),
        length=length, replicator=replicator,
    )[accounting]
    profile = law.profile
    conditional = paths.reuse_given_path / profile.content
    score = (paths.values - paths.mean) / np.sqrt(law.cumulant(2, times))
    controls = np.concatenate((score, score**2 - 1), axis=1)  # all of mean 0
    halves = slice(replications // 2), slice(replications // 2, None)
    controlled = np.concatenate([
        conditional[own] - controls[own] @ _coefficients(conditional[other], controls[other])
        for own, other in (halves, halves[::-1])
    ])
    estimate, left = float(controlled.mean()), float(controlled.var(ddof=1))
    indicator = estimate * (profile.reuse_ceiling - estimate)
    cost = float(workload.gaps.residence(length)) / length
    return ReducedEstimate(
        estimate, float(np.sqrt(left / replications)), indicator, float(conditional.var(ddof=1)), left, cost,
        indicator * cost / left,
    )


def _times(law: DisplacementLaw, capacity: int) -> tuple[np.ndarray, float]:
    """T_C and a standard deviation of tau_C before and after; and a time by which D_N exceeds N for sure."""
    centre = float(characteristic_time(law.workload, capacity, law.profile.accounting))
    deviation = float(np.sqrt(law.cumulant(2, centre)))
    spread = deviation / float(displacement_rate(law.workload, centre, law.profile.accounting))
    ladder = centre + spread * np.geomspace(2, 1000, 100)
    tails = TailTable(law, max(deviation / law.span, 1.0))
    filled = tails.below(law.integrals(ladder), capacity // law.span) >= -np.log(_UNFINISHED)
    if not filled.any():
        raise InputError("the memory never fills: check the arrival rate and the capacity")
    early = max(centre - spread, centre / 2)
    return np.array([early, centre, centre + spread]), float(ladder[np.argmax(filled)])


def _coefficients(values: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Least squares of centred values on the controls."""
    return np.linalg.lstsq(controls - controls.mean(axis=0), values - values.mean(), rcond=None)[0]
