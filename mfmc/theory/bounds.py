"""The paper's finite-N bounds (16), (17), (22), (26) and (33), for every accounting, on their domains.

The paper scales the arrival rate with the capacity; here both are physical, so its lambda0 is
`arrival_rate / capacity`. A bound is returned as the formula gives it and may exceed 1, where it says
nothing. The proofs only use that a conversation displaces at most B blocks and can lose at most reuse_j <=
R_j of them, so they cover the practical model (Appendix C.2) and the token-exact accounting as they stand,
with reuse_j for R_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from mfmc.errors import InputError
from mfmc.laws.conversations import ConversationLaw
from mfmc.laws.spectrum import Spectrum
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Profile, Workload

#: Where E[e^{theta B}] is finite for every theta, larger theta than this gain nothing: B counts whole blocks.
_LARGEST_THETA = 50.0


@dataclass(frozen=True)
class BoundConstants:
    """The constants of Theorems C.2 and C.4 at one capacity and horizon, normalised as in the paper."""

    second_moment_envelope: float  # V_T (42)
    uniform_constant: float  # C_T of (17)
    largest_slope: float  # L = sup d', per unit time
    smallest_slope: float  # c_d <= inf d', per unit time


def second_moment_envelope(workload: Workload, horizon: ArrayLike, accounting: str = "whole") -> np.ndarray:
    """N V_T (42) in blocks^2: arrival_rate (T E[B^2] + mu_W E[(M-1) B^2]) >= Var D_N(t) for every t <= T.

    The paper's V_T is this divided by the capacity. Raises InputError where histories shrink, since B is then
    no bound of what a conversation displaces.
    """
    horizon = _positive("horizon", horizon)
    workload.profile(accounting)
    table = _growing(workload).histories
    squares = table.ends @ table.support.astype(float) ** 2  # E[B^2; M = n] at index n
    waits = np.arange(squares.size) - 1.0
    rate, mean_gap = float(workload.arrival_rate), float(workload.gaps.mean)
    return rate * (horizon * squares.sum() + mean_gap * float(waits[1:] @ squares[1:]))


def bound_constants(
    workload: Workload, capacity: float, horizon: float, accounting: str = "whole"
) -> BoundConstants:
    """V_T, C_T, L and c_d of the paper at `capacity` blocks and a horizon T in units of time."""
    _positive("capacity", capacity)
    profile = workload.profile(accounting)
    scale = float(workload.arrival_rate) / capacity
    envelope = float(second_moment_envelope(workload, horizon, accounting)) / capacity
    slope = scale * (profile.allocated + profile.reusable)
    return BoundConstants(
        second_moment_envelope=envelope,
        uniform_constant=16 / 9 * envelope * (2 + 4 * slope * horizon),
        largest_slope=slope,
        smallest_slope=scale * profile.allocated,
    )


def pointwise_bound(
    workload: Workload, capacity: float, epsilon: ArrayLike, horizon: float, accounting: str = "whole"
) -> np.ndarray:
    """(16), (67): bound of P(|D_N(t)/N - d(t)| > epsilon) for every t <= horizon; shape of `epsilon`."""
    epsilon = _positive("epsilon", epsilon)
    return bound_constants(workload, capacity, horizon, accounting).second_moment_envelope / (
        capacity * epsilon**2
    )


def uniform_bound(
    workload: Workload, capacity: float, epsilon: ArrayLike, horizon: float, accounting: str = "whole"
) -> np.ndarray:
    """(17): bound of P(sup_{t <= horizon} |D_N(t)/N - d(t)| > epsilon), 0 < epsilon <= 1; its shape."""
    epsilon = _positive("epsilon", epsilon)
    if np.any(epsilon > 1):
        raise InputError(f"epsilon={np.max(epsilon):g}: the uniform bound (17) needs 0 < epsilon <= 1")
    return bound_constants(workload, capacity, horizon, accounting).uniform_constant / (capacity * epsilon**3)


def characteristic_time_bound(
    workload: Workload,
    capacity: float,
    epsilon: float,
    turn: int,
    horizon: float | None = None,
    theta: float | None = None,
    accounting: str = "whole",
) -> float:
    """(22), (71): bound p_{N,j}(epsilon) of P(|tau_C(turn) - T_C| > epsilon), epsilon in units of time.

    `horizon` None takes T_C + epsilon, the limit of the admissible ones and the best; `theta` None takes the
    minimiser over 0 < theta < abscissa of E[e^{theta B}]. Needs 0 < epsilon < min(T_C, horizon - T_C).
    """
    epsilon, horizon = _window(workload, capacity, epsilon, horizon, accounting)
    survival = workload.profile(accounting).survival(turn)
    if turn < 1 or survival <= 0:
        raise InputError(f"turn={turn}: expected a turn that conversations reach")
    constants = bound_constants(workload, capacity, horizon, accounting)
    rate = constants.smallest_slope * capacity * epsilon / 3
    if theta is None:
        theta = best_theta(workload, rate)
    return _chebyshev_part(constants, capacity, epsilon) + _exponential_part(workload, theta, rate, survival)


def hit_ratio_bound(
    workload: Workload,
    capacity: float,
    epsilon: float,
    truncation: int,
    theta: float,
    horizon: float | None = None,
    accounting: str = "whole",
) -> float:
    """(26), (33): bound of |h(N) - h_inf| at one admissible (epsilon, J, theta, T).

    `truncation` is J >= 1 with S_{J+1} > 0; epsilon and horizon as in `characteristic_time_bound`. The least
    over all of them is `mfmc.theory.best_bound.best_hit_ratio_bound`. Needs a Lipschitz F (Assumption B.4),
    and R_j >= j (every turn adds a block: Lemma D.8).
    """
    epsilon, horizon = _window(workload, capacity, epsilon, horizon, accounting)
    constants = bound_constants(workload, capacity, horizon, accounting)
    parts = hit_ratio_parts(workload, accounting)
    if not 1 <= truncation <= parts.largest_truncation:
        raise InputError(
            f"truncation={truncation}: expected J with S_(J+1) > 0, 1 to {parts.largest_truncation}"
        )
    deviation = _chebyshev_part(constants, capacity, epsilon) + _exponential_part(
        workload, theta, constants.smallest_slope * capacity * epsilon / 3, parts.survival[truncation]
    )
    tail = 2 * math.exp(log_mgf(workload, theta, power=2) - theta * (truncation + 2))
    bulk = parts.lipschitz * epsilon * parts.reusable[truncation]
    return (bulk + parts.root_second_moments[truncation] * math.sqrt(deviation) + tail) / parts.content


@dataclass(frozen=True, eq=False)
class HitRatioParts:
    """What (26) and (33) need of a workload, at index J of the truncation."""

    reusable: np.ndarray  # A_H^(J) (57), (74)
    root_second_moments: np.ndarray  # K_J (59), (75)
    survival: np.ndarray  # S_J, as p_{N,J} divides by it
    content: float  # A_R
    lipschitz: float  # L_F, per unit time

    @property
    def largest_truncation(self) -> int:
        return self.reusable.size - 1


def hit_ratio_parts(workload: Workload, accounting: str = "whole") -> HitRatioParts:
    """A_H^(J), K_J and S_J for every J with S_{J+1} > 0; raises InputError where (26) does not apply."""
    lipschitz = float(workload.gaps.lipschitz)
    if not math.isfinite(lipschitz):
        raise InputError(
            f"gaps={workload.gaps!r}: F is not Lipschitz (Assumption B.4), so the bound (26) is infinite"
        )
    whole = _growing(workload)
    smallest = np.array([whole.histories.support[row > 0].min(initial=2**62) for row in
                         whole.histories.ends + whole.histories.continues])  # fmt: skip
    if np.any(smallest < np.arange(smallest.size)):
        raise InputError("some turns add no block: the bound (26) needs R_j >= j (Lemma D.8)")
    profile = workload.profile(accounting)
    table = profile.histories
    size = table.support.astype(float)
    last = int(np.flatnonzero(table.continues.sum(axis=1))[-1]) if profile.reusable else 0
    if last == 0:
        raise InputError("no conversation has a second turn: the hit ratio is 0 and (26) has no truncation")
    going_on = table.continues[: last + 1].sum(axis=1)  # S_{J+1}
    survival = np.array([profile.survival(max(j, 1)) for j in range(last + 2)])
    return HitRatioParts(
        reusable=np.cumsum(table.continues[: last + 1] @ size),
        root_second_moments=np.cumsum(np.sqrt(going_on * (table.continues[: last + 1] @ size**2))),
        # Lemma D.5 conditions on M >= j; where M may depend on the blocks, the tagged conversation has M > j.
        survival=survival[: last + 1] if profile.law.independent else survival[1:],
        content=profile.content,
        lipschitz=lipschitz,
    )


def log_mgf(workload: Workload, theta: ArrayLike, power: int = 0) -> np.ndarray:
    """log E[B^power e^{theta B}] of the lifetime size B, 0 < theta < its abscissa; theta's shape."""
    theta = _positive("theta", theta)
    limit, reason = workload.law.mgf_abscissa()
    if np.any(theta >= limit):
        raise InputError(
            f"theta={np.max(theta):g}: E[e^(theta B)] needs theta < {limit:g} (Assumption B.3; {reason})"
        )
    terminal = _lifetime(workload.law)
    log_weight = np.log(terminal.weight) + power * np.log(terminal.support)
    return logsumexp(theta[..., None] * terminal.support + log_weight, axis=-1)


@lru_cache(maxsize=16)
def _lifetime(law: ConversationLaw) -> Spectrum:
    """The law of B."""
    return law.histories("whole").terminal


def largest_theta(workload: Workload) -> float:
    """The end of the range over which the bounds are minimised: the abscissa, or where more gains nothing."""
    limit, reason = workload.law.mgf_abscissa()
    if limit <= 0:
        raise InputError(
            f"E[e^(theta B)] is infinite for every theta > 0, so (22) and (26) do not apply: {reason}"
        )
    return min(limit * (1 - 1e-9), _LARGEST_THETA)


def best_theta(workload: Workload, blocks: float) -> float:
    """The theta that minimises E[e^{theta B}] e^{-theta blocks}, a log-convex function, over its range."""
    top = largest_theta(workload)
    result = minimize_scalar(
        lambda theta: float(log_mgf(workload, theta)) - theta * blocks,
        bounds=(1e-9 * top, top), method="bounded", options={"xatol": 1e-10 * top},
    )  # fmt: skip
    return float(result.x)


def _chebyshev_part(constants: BoundConstants, capacity: float, epsilon: float) -> float:
    """18 V_T / (N c_d^2 epsilon^2): both displacement terms of (56)."""
    return 18 * constants.second_moment_envelope / (capacity * (constants.smallest_slope * epsilon) ** 2)


def _exponential_part(workload: Workload, theta: float, blocks: float, survival: float) -> float:
    """E[e^{theta B}] / S_j e^{-theta blocks} (50): the tagged content holds more than `blocks`."""
    exponent = float(log_mgf(workload, theta)) - theta * blocks - math.log(survival)
    return math.exp(exponent) if exponent < 700 else math.inf


def _window(
    workload: Workload, capacity: float, epsilon: float, horizon: float | None, accounting: str
) -> tuple[float, float]:
    """epsilon and horizon, checked against 0 < epsilon < min(T_C, T - T_C)."""
    _positive("capacity", capacity)
    _positive("epsilon", epsilon)
    center = float(characteristic_time(workload, capacity, accounting))
    if horizon is None:
        horizon = center + epsilon
    elif horizon - center <= epsilon:
        raise InputError(f"horizon={horizon:g}: expected more than T_C + epsilon = {center + epsilon:g}")
    if epsilon >= center:
        raise InputError(f"epsilon={epsilon:g}: expected less than T_C = {center:g}")
    return float(epsilon), float(horizon)


def _growing(workload: Workload) -> Profile:
    """The whole-content profile; raises where histories shrink, so that B = R_M is not all it allocates."""
    whole = workload.profile("whole")
    if whole.allocated > whole.histories.terminal.moment(1) * (1 + 1e-9):
        raise InputError(
            "histories of this workload shrink (compacted contexts): the paper's bounds need R_j to grow"
        )
    return whole


def _positive(name: str, value: ArrayLike) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if not np.all(array > 0) or not np.all(np.isfinite(array)):
        raise InputError(f"{name}={value!r}: expected a positive number")
    return array
