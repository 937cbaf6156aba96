"""The mean-field limit: mean displacement (15), characteristic time (21), hit ratio (25), (32), and their inverse (B7).

Every function takes physical units: `workload.arrival_rate` conversations per unit time and a `capacity` of N blocks,
so that lambda0 = arrival_rate / capacity and d(t) = mean_displacement(t) / capacity.

With plain numbers all is computed in double precision by NumPy. Under `jax.grad` and the like, with a traced arrival
rate or gap law, the same formulas run in JAX, and T_C is differentiated implicitly, from d(T_C) = 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from mfmc.errors import InputError
from mfmc.workload import Workload


def mean_displacement(workload: Workload, time: Any, accounting: str = "whole") -> Any:
    """E[D_N(t)] in blocks (15), (29): arrival_rate * (E[sum new] t + E[sum reuse] I(t)); the shape of `time` >= 0.

    Divide by N for d(t).
    """
    profile = workload.profile(accounting)
    return workload.arrival_rate * (profile.allocated * time + profile.reusable * workload.gaps.residence(time))


def displacement_rate(workload: Workload, time: Any, accounting: str = "whole") -> Any:
    """N d'(t), blocks per unit time; the shape of `time` >= 0."""
    profile = workload.profile(accounting)
    return workload.arrival_rate * (profile.allocated + profile.reusable * workload.gaps.survival(time))


def characteristic_time(workload: Workload, capacity: float, accounting: str = "whole") -> Any:
    """T_C (21), (30): the time, in the workload's unit, at which the mean displacement equals `capacity` blocks.

    One capacity a call; `jax.vmap` takes several. Raises InputError where it is no positive number.
    """
    check_capacity(capacity)
    if _is_traced(workload, capacity):
        return _traced_time(workload, capacity, accounting)
    profile = workload.profile(accounting)
    rate = workload.arrival_rate
    # E[sum new] t <= mean displacement / rate <= (E[sum new] + E[sum reuse]) t brackets the root.
    low = capacity / (rate * (profile.allocated + profile.reusable))
    high = capacity / (rate * profile.allocated)
    gap = lambda t: float(mean_displacement(workload, t, accounting)) - capacity  # noqa: E731
    if gap(low) >= 0:  # the lower bound is attained while no gap has ended
        return low
    root = brentq(gap, low, high * (1 + 1e-12), xtol=1e-15 * high, rtol=4 * np.finfo(float).eps)
    slope = float(displacement_rate(workload, root, accounting))
    return float(root - gap(root) / slope)


def hit_ratio(workload: Workload, capacity: float, accounting: str = "whole") -> Any:
    """h_inf (25), (32): E[sum reuse] / E[sum content] * F(T_C), blocks served over blocks looked up.

    `capacity` in blocks, one a call, as for `characteristic_time`.
    """
    return workload.profile(accounting).reuse_ceiling * workload.gaps.cdf(
        characteristic_time(workload, capacity, accounting)
    )


def hit_ratio_slope(workload: Workload, capacity: float, accounting: str = "whole") -> Any:
    """dh_inf/dN per block (B7): h_max f(T_C) / (N d'(T_C))."""
    time = characteristic_time(workload, capacity, accounting)
    rate = displacement_rate(workload, time, accounting)
    return workload.profile(accounting).reuse_ceiling * workload.gaps.density(time) / rate


def capacity_for(workload: Workload, hit_ratio: float, accounting: str = "whole") -> float:
    """The memory in blocks whose mean-field hit ratio is `hit_ratio` (B7): T = F^{-1}(h / h_max), N = E[D(T)]."""
    ceiling = workload.profile(accounting).reuse_ceiling
    if np.ndim(hit_ratio) or not 0 <= hit_ratio < ceiling:
        raise InputError(
            f"hit_ratio={hit_ratio!r}: expected one number, at least 0 and less than the reuse ceiling {ceiling:.6g} "
            f"of this workload ({accounting} accounting), which no memory exceeds"
        )
    return float(mean_displacement(workload, workload.gaps.quantile(hit_ratio / ceiling), accounting))


def check_capacity(capacity: Any) -> None:
    """Raises InputError for anything but one positive, finite number; arrays of JAX, which may be traced, pass."""
    if isinstance(capacity, jax.Array):
        return
    value = np.asarray(capacity)
    if value.ndim or value.dtype.kind not in "iuf" or not (value > 0 and np.isfinite(value)):
        raise InputError(f"capacity={capacity!r}: expected one positive, finite number of blocks")


def _is_traced(*trees: Any) -> bool:
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(trees))


def _traced_time(workload: Workload, capacity: Any, accounting: str) -> jax.Array:
    """T_C in JAX: bisection for the value, the implicit function theorem for derivatives of every order."""
    profile = workload.profile(accounting)
    scale = capacity / workload.arrival_rate
    lowest, highest = scale / (profile.allocated + profile.reusable), scale / profile.allocated

    def excess(time):
        return mean_displacement(workload, time, accounting) / capacity - 1

    def bisect(function, start):
        del start
        low, high = (jax.lax.stop_gradient(jnp.asarray(x, jnp.result_type(float))) for x in (lowest, highest))

        def halve(_, bracket):
            low, high = bracket
            middle = (low + high) / 2
            below = function(middle) < 0
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, 64, halve, (low, high))
        return (low + high) / 2

    def solve_linear(function, target):
        return target / function(jnp.ones_like(target))

    start = jax.lax.stop_gradient(jnp.asarray(highest, jnp.result_type(float)))
    return jax.lax.custom_root(excess, start, bisect, solve_linear)
