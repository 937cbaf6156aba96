"""Numerical inversion of a cdf: the quantiles of the laws that have no closed form for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from mfmc.laws.namespace import Namespace

if TYPE_CHECKING:
    from mfmc.laws.gap_law import GapLaw


def gap_functions(law: GapLaw) -> tuple[Callable, Callable, Callable]:
    """(cdf, survival, density) of the gap."""
    return law._cdf, law._survival, law._density


def residual_functions(law: GapLaw) -> tuple[Callable, Callable, Callable]:
    """(cdf, survival, density) of the residual gap."""
    mean = law.mean
    return (
        lambda ns, t: law._residence(ns, t) / mean,
        lambda ns, t: law._excess(ns, t) / mean,
        lambda ns, t: law._survival(ns, t) / mean,
    )


def solve_quantile(ns: Namespace, law: GapLaw, functions: Callable, p: Any, q: Any, start: Any = None) -> Any:
    """t with cdf(t) = p and survival(t) = q = 1 - p, where `functions(law) = (cdf, survival, density)`.

    Newton's iteration, on log cdf against log t where p <= 1/2 and on log survival against t elsewhere (these
    are close to straight lines for power laws and exponentials), inside a bracket that falls back on
    bisection of log t. The derivative with respect to the law and to p comes from one more step outside the
    loop: the implicit function theorem, first order only.
    """
    xp = ns.xp
    frozen = jax.tree.map(jax.lax.stop_gradient, (law, p, q)) if ns.is_jax else (law, p, q)
    cdf, survival, density = functions(frozen[0])
    left = p <= 0.5
    small = xp.where(left, frozen[1], frozen[2])
    info = np.finfo(small.dtype)
    settled = info.eps**0.6  # relative to t: the error after a Newton step this small is of order its square

    def unfinished(state: tuple) -> Any:
        return xp.any(~state[3]) & (state[4] < 200)

    def step(state: tuple) -> tuple:
        t, low, high, done, count = state
        tail = ns.either(left, lambda: cdf(ns, t), lambda: survival(ns, t))
        log_ratio = xp.where(left, 1, -1) * xp.log(tail / small)  # increasing in t, zero at the root
        low, high = xp.where(log_ratio < 0, t, low), xp.where(log_ratio > 0, t, high)
        shift = log_ratio * tail / density(ns, t)
        newton = xp.where(left, t * xp.exp(-shift / t), t - shift)
        inside = (newton >= low) & (newton <= high)
        proposal = xp.where(inside, newton, xp.exp(0.5 * (xp.log(low) + xp.log(high))))
        exact = (log_ratio == 0) | (high <= low * (1 + 4 * info.eps))
        found = done | exact | (inside & (abs(newton - t) <= settled * t))
        return xp.where(done | exact, t, proposal), low, high, found, count + 1

    ones = xp.ones_like(small)
    start = ones * (frozen[0].mean if start is None else start)
    with np.errstate(all="ignore"):  # overflow and nan mean "outside the bracket"
        t = ns.loop(unfinished, step, (start, ones * info.tiny * 16, ones * info.max / 16, ones < 0, 0))[0]
    if not ns.is_jax:
        return t
    cdf, survival, density = functions(law)
    miss = xp.where(left, cdf(ns, t) - p, q - survival(ns, t))
    return t - miss / jax.lax.stop_gradient(density(ns, t))
