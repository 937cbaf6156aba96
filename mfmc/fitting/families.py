"""Gap laws as an optimiser sees them: parameters on the whole line, logarithms of density and survival."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, gammaln, log_ndtr, logsumexp

from mfmc.laws.gaps import (
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    WeibullGaps,
)


class Family(NamedTuple):
    """A gap law as the optimiser sees it: parameters theta on the whole line, times in units of the mean gap.

    start(times) -> theta; log_density(theta, t), log_survival(theta, t); natural(theta) -> the law's own
    parameters, by name; law(*natural) -> the law.
    """

    names: tuple[str, ...]
    start: Callable[[np.ndarray], np.ndarray]
    log_density: Callable[[Any, Any], Any]
    log_survival: Callable[[Any, Any], Any]
    natural: Callable[[Any], Any]
    law: Callable[..., Any]


def _scale_family(
    names: tuple[str, ...], start: Callable, log_density: Callable, log_survival: Callable, law: Any
) -> Family:
    """Two positive parameters: a shape and the mean, as logarithms."""
    return Family(names, start, log_density, log_survival, jnp.exp, law)


def _cv(times: np.ndarray) -> float:
    return float(np.clip(times.std() / times.mean(), 0.05, 20))


def _exponential_density(theta: Any, t: Any) -> Any:
    return -theta[0] - t * jnp.exp(-theta[0])


def _gamma_density(theta: Any, t: Any) -> Any:
    shape, scale = jnp.exp(theta[0]), jnp.exp(theta[1] - theta[0])
    return (shape - 1) * jnp.log(t) - t / scale - gammaln(shape) - shape * jnp.log(scale)


def _gamma_survival(theta: Any, t: Any) -> Any:
    """log Q(a, x); far out, where Q underflows, by Q(a, x) Gamma(a) = x^a e^-x / (x - a + 1 + ..)."""
    shape, x = jnp.exp(theta[0]), t * jnp.exp(theta[0] - theta[1])
    far = x > 100 + 4 * shape
    near_x, far_x = jnp.where(far, shape, x), jnp.where(far, x, 100 + 4 * shape)
    fraction = far_x - shape + 1 - (1 - shape) / (far_x - shape + 3)
    asymptotic = shape * jnp.log(far_x) - far_x - gammaln(shape) - jnp.log(fraction)
    return jnp.where(far, asymptotic, jnp.log(gammaincc(shape, near_x)))


def _normal_score(theta: Any, t: Any) -> Any:
    sigma = jnp.exp(theta[0])
    return (jnp.log(t) - theta[1] + sigma**2 / 2) / sigma


def _lognormal_density(theta: Any, t: Any) -> Any:
    return -0.5 * _normal_score(theta, t) ** 2 - theta[0] - jnp.log(t) - 0.5 * math.log(2 * math.pi)


def _weibull_hazard(theta: Any, t: Any) -> Any:
    """log of the cumulative hazard (t/s)^shape."""
    shape = jnp.exp(theta[0])
    return shape * (jnp.log(t) - theta[1] + gammaln(1 + 1 / shape))


def _weibull_density(theta: Any, t: Any) -> Any:
    hazard = _weibull_hazard(theta, t)
    return theta[0] + hazard - jnp.log(t) - jnp.exp(hazard)


def _lomax_log(theta: Any, t: Any) -> Any:
    """log(1 + t/s), s = mean (shape - 1), shape = 1 + exp(theta_0)."""
    return jnp.log1p(t * jnp.exp(-theta[1] - theta[0]))


def _lomax_density(theta: Any, t: Any) -> Any:
    shape = 1 + jnp.exp(theta[0])
    return jnp.log(shape) - theta[0] - theta[1] - (shape + 1) * _lomax_log(theta, t)


def _mixture(theta: Any) -> tuple[Any, Any]:
    """(log weights, log means) of a hyperexponential law of k phases: k - 1 logits, k log means."""
    phases = (theta.size + 1) // 2
    logits = jnp.concatenate([jnp.zeros(1), theta[: phases - 1]])
    return logits - logsumexp(logits), theta[phases - 1 :]


def _mixture_density(theta: Any, t: Any) -> Any:
    weights, means = _mixture(theta)
    return logsumexp(weights - means - t[..., None] * jnp.exp(-means), axis=-1)


def _mixture_survival(theta: Any, t: Any) -> Any:
    weights, means = _mixture(theta)
    return logsumexp(weights - t[..., None] * jnp.exp(-means), axis=-1)


def _hyperexponential(phases: int) -> Family:
    names = (*(f"weight_{i + 1}" for i in range(phases)), *(f"mean_{i + 1}" for i in range(phases)))

    def start(times: np.ndarray) -> np.ndarray:
        # Phases spread over the data's own scales, evenly in logarithms, each with the gaps nearest to it.
        low, high = np.quantile(times, [0.1, 0.999])
        means = np.geomspace(max(low, 1e-9), max(high / 3, 2 * low, 2e-9), phases)
        edges = np.sqrt(means[1:] * means[:-1])
        weights = np.bincount(np.searchsorted(edges, times), minlength=phases) + 0.01 * times.size
        return np.concatenate([np.log(weights[1:] / weights[0]), np.log(means)])

    def natural(theta: Any) -> Any:
        weights, means = _mixture(theta)
        shortest_first = jnp.argsort(means)
        return jnp.exp(jnp.concatenate([weights[shortest_first], means[shortest_first]]))

    def law(*values: float) -> HyperexponentialGaps:
        weights = np.maximum(values[:phases], 1e-300)
        return HyperexponentialGaps(tuple(weights / weights.sum()), tuple(values[phases:]))

    return Family(names, start, _mixture_density, _mixture_survival, natural, law)


FAMILIES: dict[str, Family] = {
    "exponential": Family(
        ("mean",),
        lambda t: np.log([t.mean()]),
        _exponential_density,
        lambda th, t: -t * jnp.exp(-th[0]),
        jnp.exp,
        ExponentialGaps,
    ),
    "gamma": _scale_family(
        ("shape", "mean"),
        lambda t: np.array([-2 * np.log(_cv(t)), np.log(t.mean())]),
        _gamma_density,
        _gamma_survival,
        GammaGaps,
    ),
    "lognormal": _scale_family(
        ("sigma", "mean"),
        lambda t: np.array(
            [np.log(max(np.log(t).std(), 0.05)), np.log(t).mean() + min(np.log(t).var(), 8) / 2]
        ),
        _lognormal_density,
        lambda th, t: log_ndtr(-_normal_score(th, t)),
        LognormalGaps,
    ),
    "weibull": _scale_family(
        ("shape", "mean"),
        lambda t: np.array([-np.log(_cv(t)), np.log(t.mean())]),
        _weibull_density,
        lambda th, t: -jnp.exp(_weibull_hazard(th, t)),
        WeibullGaps,
    ),
    "lomax": Family(
        ("shape", "mean"),
        lambda t: np.array([0.5, np.log(t.mean())]),
        _lomax_density,
        lambda th, t: -(1 + jnp.exp(th[0])) * _lomax_log(th, t),
        lambda th: jnp.stack([1 + jnp.exp(th[0]), jnp.exp(th[1])]),
        LomaxGaps,
    ),
    **{f"hyperexponential_{k}": _hyperexponential(k) for k in (2, 3, 4)},
}
