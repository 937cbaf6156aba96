"""The paper's assumptions B.2, B.3 and B.4, held against a workload. A failing one never stops a run.

What still holds: the mean displacement, T_C, the mean-field limit and the exact finite-N law need only that the gaps
are i.i.d. and independent of (M, Z) (THEORY B1); B.2 is not needed, the joint law of M and Z is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mfmc.laws.recorded import RecordedConversations
from mfmc.workload import Workload


class Assumption(NamedTuple):
    """`holds` is None where it cannot be decided."""

    name: str
    holds: bool | None
    detail: str


def assumptions(workload: Workload) -> list[Assumption]:
    """B.2 (M independent of the increments), B.3 (E[exp(theta B)] finite), B.4 (Lipschitz F, finite mean)."""
    return [_independence(workload), _light_tails(workload), _gaps(workload)]


def _independence(workload: Workload) -> Assumption:
    name = "B.2: M independent of the block increments"
    law, profile = workload.law, workload.profile()
    second = float(profile.turn_pmf @ np.arange(profile.turn_pmf.size) ** 2.0)
    even = profile.allocated / profile.mean_turns * (second - profile.mean_turns) / 2
    figure = f"A_H is {profile.reusable:.4g} blocks; i.i.d. increments independent of M would give {even:.4g}"
    still = "what is computed here keeps the joint law and does not need B.2"
    if isinstance(law, RecordedConversations):
        correlation, p = law.length_dependence()
        figure += f"; rank correlation of M with the mean later increment {correlation:+.3f} (p = {p:.2g})"
        if p < 1e-3:
            return Assumption(name, False, f"{figure}; {still}")
        return Assumption(name, None, f"{figure}; a sample cannot prove independence")
    if law.independent:
        return Assumption(name, True, f"by construction; {figure}")
    return Assumption(name, False, f"increments depend on M by construction; {figure}; {still}")


def _light_tails(workload: Workload) -> Assumption:
    name = "B.3: E[exp(theta B)] finite for some theta > 0"
    abscissa, how = workload.law.mgf_abscissa()
    if isinstance(workload.law, RecordedConversations):
        return Assumption(name, None, how)
    if abscissa <= 0:
        return Assumption(
            name, False, f"{how}; the limit still holds with finite second moments, the bounds (22) and (26) do not"
        )
    return Assumption(name, True, f"theta up to {'any value' if math.isinf(abscissa) else f'{abscissa:.4g}'}: {how}")


def _gaps(workload: Workload) -> Assumption:
    name = "B.4: Lipschitz-continuous gap cdf, finite mean gap"
    lipschitz, mean = float(workload.gaps.lipschitz), float(workload.gaps.mean)
    if not math.isfinite(mean):
        return Assumption(name, False, "the mean gap is infinite: there is no stationary population")
    if not math.isfinite(lipschitz):
        return Assumption(
            name, False,
            f"the density of the gaps is unbounded; mean gap {mean:.4g}; the limit still holds, since F is continuous, "
            "but (26) and (33) give no rate",
        )
    return Assumption(name, True, f"Lipschitz constant {lipschitz:.4g} per unit time, mean gap {mean:.4g}")
