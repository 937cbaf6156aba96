"""Laws of the gap between two turns of a conversation (inter-prompt time W): the parametric ones.

Each is a frozen dataclass and a JAX pytree whose parameters are data, parametrised by its mean where it can
be. With scale s: I(t) = int_0^t Fbar is the mean residence of a gap capped at t (THEORY A).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from mfmc.errors import InputError
from mfmc.laws.gap_law import GapLaw
from mfmc.laws.gaps_piecewise import EmpiricalGaps, UniformGaps
from mfmc.laws.namespace import Namespace, namespace, parameter, positive, pytree

__all__ = [
    "EmpiricalGaps",
    "ExponentialGaps",
    "GammaGaps",
    "GapLaw",
    "HyperexponentialGaps",
    "LognormalGaps",
    "LomaxGaps",
    "UniformGaps",
    "WeibullGaps",
]


def _plain(ns: Namespace, value: Any) -> Any:
    """A Python float where numpy computed it, so that concrete laws have plain constants."""
    return value if ns.is_jax else float(value)


@pytree
@dataclasses.dataclass(frozen=True)
class ExponentialGaps(GapLaw):
    """Fbar(t) = exp(-t / mean); memoryless, so its residual law is itself."""

    mean: Any

    def __post_init__(self) -> None:
        positive(self, "mean", "the mean gap in units of time")

    @property
    def lipschitz(self) -> Any:
        return 1 / self.mean

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return -ns.xp.expm1(-t / self.mean)

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.exp(-t / self.mean)

    def _density(self, ns: Namespace, t: Any) -> Any:
        return self._survival(ns, t) / self.mean

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return -self._survival(ns, t) / self.mean**2

    def _residence(self, ns: Namespace, t: Any) -> Any:
        return self.mean * self._cdf(ns, t)

    def _excess(self, ns: Namespace, t: Any) -> Any:
        return self.mean * self._survival(ns, t)

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return self.mean * _minus_log(ns, p, q)

    _residual_inverse = _inverse


def _minus_log(ns: Namespace, p: Any, q: Any) -> Any:
    """-log q, from whichever of p and q = 1 - p is the smaller."""
    small = ns.xp.where(p <= 0.5, p, 0.5)
    return ns.xp.where(p <= 0.5, -ns.xp.log1p(-small), -ns.xp.log(q))


@pytree
@dataclasses.dataclass(frozen=True)
class GammaGaps(GapLaw):
    """f(t) = t^(shape-1) e^(-t/s) / (Gamma(shape) s^shape), s = mean / shape; Erlang if shape is whole."""

    shape: Any
    mean: Any

    def __post_init__(self) -> None:
        positive(self, "shape", "the shape of the gamma law (1 is exponential)")
        positive(self, "mean", "the mean gap in units of time")

    @property
    def scale(self) -> Any:
        return self.mean / self.shape

    @property
    def lipschitz(self) -> Any:
        ns = namespace(self)
        above = ns.xp.where(self.shape >= 1, self.shape - 1, 0.0)  # the mode, in units of the scale
        peak = ns.xp.exp(ns.special.xlogy(above, above) - above - ns.special.gammaln(above + 1)) / self.scale
        return _plain(ns, ns.xp.where(self.shape >= 1, peak, math.inf))

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return ns.special.gammainc(self.shape, t / self.scale)

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.special.gammaincc(self.shape, t / self.scale)

    def _density(self, ns: Namespace, t: Any) -> Any:
        x = t / self.scale
        power = (self.shape - 1) * ns.xp.log(x)
        return ns.xp.exp(power - x - ns.special.gammaln(self.shape)) / self.scale

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return self._density(ns, t) * ((self.shape - 1) / t - 1 / self.scale)

    def _residence(self, ns: Namespace, t: Any) -> Any:
        x = t / self.scale
        return t * self._survival(ns, t) + self.mean * ns.special.gammainc(self.shape + 1, x)

    def _excess(self, ns: Namespace, t: Any) -> Any:
        x = t / self.scale
        # Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1): the difference mean Q(a+1) - t Q(a), regrouped.
        jump = ns.xp.exp(self.shape * ns.xp.log(x) - x - ns.special.gammaln(self.shape + 1))
        return (self.mean - t) * self._survival(ns, t) + self.mean * jump


@pytree
@dataclasses.dataclass(frozen=True)
class LognormalGaps(GapLaw):
    """log W is normal with standard deviation `sigma`; its log-mean is log(mean) - sigma^2 / 2."""

    sigma: Any
    mean: Any

    def __post_init__(self) -> None:
        positive(self, "sigma", "the standard deviation of the logarithm of the gap")
        positive(self, "mean", "the mean gap in units of time")

    @property
    def lipschitz(self) -> Any:
        ns = namespace(self)
        peak = ns.xp.exp(self.sigma**2 - ns.xp.log(self.mean))  # exp(sigma^2 / 2 - log-mean)
        return _plain(ns, peak / (self.sigma * math.sqrt(2 * math.pi)))

    def _standard(self, ns: Namespace, t: Any) -> Any:
        return (ns.xp.log(t / self.mean) + self.sigma**2 / 2) / self.sigma

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return ns.special.ndtr(self._standard(ns, t))

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.special.ndtr(-self._standard(ns, t))

    def _density(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.exp(-0.5 * self._standard(ns, t) ** 2) / (t * self.sigma * math.sqrt(2 * math.pi))

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return -self._density(ns, t) * (1 + self._standard(ns, t) / self.sigma) / t

    def _residence(self, ns: Namespace, t: Any) -> Any:
        below = ns.special.ndtr(self._standard(ns, t) - self.sigma)
        return t * self._survival(ns, t) + self.mean * below

    def _excess(self, ns: Namespace, t: Any) -> Any:
        above = ns.special.ndtr(self.sigma - self._standard(ns, t))
        return self.mean * above - t * self._survival(ns, t)

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        normal = ns.xp.where(p <= 0.5, 1, -1) * ns.special.ndtri(ns.xp.minimum(p, q))
        return self.mean * ns.xp.exp(self.sigma * normal - self.sigma**2 / 2)


@pytree
@dataclasses.dataclass(frozen=True)
class WeibullGaps(GapLaw):
    """Fbar(t) = exp(-(t/s)^shape), s = mean / Gamma(1 + 1/shape)."""

    shape: Any
    mean: Any

    def __post_init__(self) -> None:
        positive(self, "shape", "the shape of the Weibull law (1 is exponential)")
        positive(self, "mean", "the mean gap in units of time")

    @property
    def scale(self) -> Any:
        ns = namespace(self)
        return _plain(ns, self.mean * ns.xp.exp(-ns.special.gammaln(1 + 1 / self.shape)))

    @property
    def lipschitz(self) -> Any:
        ns = namespace(self)
        mode = ns.xp.where(self.shape >= 1, 1 - 1 / self.shape, 0.0)  # (t/s)^shape at the mode
        peak = self.shape * ns.xp.exp(ns.special.xlogy(mode, mode) - mode) / self.scale
        return _plain(ns, ns.xp.where(self.shape >= 1, peak, math.inf))

    def _hazard(self, ns: Namespace, t: Any) -> Any:
        """Cumulative hazard (t/s)^shape."""
        return (t / self.scale) ** self.shape

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return -ns.xp.expm1(-self._hazard(ns, t))

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.exp(-self._hazard(ns, t))

    def _density(self, ns: Namespace, t: Any) -> Any:
        hazard = self._hazard(ns, t)
        return self.shape * hazard / t * ns.xp.exp(-hazard)

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return self._density(ns, t) * (self.shape - 1 - self.shape * self._hazard(ns, t)) / t

    def _residence(self, ns: Namespace, t: Any) -> Any:
        # By parts, since P(1/shape, hazard) is lost where a high power underflows in the hazard.
        hazard = self._hazard(ns, t)
        return t * ns.xp.exp(-hazard) + self.mean * ns.special.gammainc(1 + 1 / self.shape, hazard)

    def _excess(self, ns: Namespace, t: Any) -> Any:
        return self.mean * ns.special.gammaincc(1 / self.shape, self._hazard(ns, t))

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return self.scale * _minus_log(ns, p, q) ** (1 / self.shape)


@pytree
@dataclasses.dataclass(frozen=True)
class HyperexponentialGaps(GapLaw):
    """A mixture of exponentials: with probability weights[i] the mean is means[i]."""

    weights: Any
    means: Any

    def __post_init__(self) -> None:
        for name in ("weights", "means"):
            value = getattr(self, name)
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
                continue
            try:
                numbers = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                numbers = np.empty(0)
            if numbers.ndim != 1 or not numbers.size or not np.all(np.isfinite(numbers) & (numbers > 0)):
                raise InputError(f"{type(self).__name__}: {name}={value!r} is not allowed; "
                                 "give a non-empty list of finite numbers above 0")  # fmt: skip
            if name == "weights" and abs(numbers.sum() - 1) > 1e-6:
                raise InputError(f"{type(self).__name__}: weights={value!r} sum to {numbers.sum():.9g}; "
                                 "give probabilities that sum to 1")  # fmt: skip
            if not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
                object.__setattr__(self, name, tuple(numbers.tolist()))
        if np.shape(self.weights) != np.shape(self.means):
            raise InputError(f"{type(self).__name__}: {len(self.weights)} weights, {len(self.means)} means; "
                             "give one mean per weight")  # fmt: skip

    def _parts(self, ns: Namespace) -> tuple[Any, Any]:
        weights, means = ns.xp.asarray(self.weights), ns.xp.asarray(self.means)
        return weights / weights.sum(), means

    @property
    def mean(self) -> Any:  # type: ignore[override]
        ns = namespace(self)
        weights, means = self._parts(ns)
        return _plain(ns, (weights * means).sum())

    @property
    def lipschitz(self) -> Any:
        ns = namespace(self)
        weights, means = self._parts(ns)
        return _plain(ns, (weights / means).sum())

    def _sum(self, ns: Namespace, t: Any, power: int, function: Any) -> Any:
        """sum_i weights[i] means[i]^power function(-t / means[i])."""
        weights, means = self._parts(ns)
        return (weights * means ** float(power) * function(-t[..., None] / means)).sum(-1)

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return -self._sum(ns, t, 0, ns.xp.expm1)

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return self._sum(ns, t, 0, ns.xp.exp)

    def _density(self, ns: Namespace, t: Any) -> Any:
        return self._sum(ns, t, -1, ns.xp.exp)

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return -self._sum(ns, t, -2, ns.xp.exp)

    def _residence(self, ns: Namespace, t: Any) -> Any:
        return -self._sum(ns, t, 1, ns.xp.expm1)

    def _excess(self, ns: Namespace, t: Any) -> Any:
        return self._sum(ns, t, 1, ns.xp.exp)


@pytree
@dataclasses.dataclass(frozen=True)
class LomaxGaps(GapLaw):
    """Pareto from zero: Fbar(t) = (1 + t/s)^-shape, s = mean (shape - 1)."""

    shape: Any
    mean: Any

    def __post_init__(self) -> None:
        parameter(self, "shape", "a finite number above 1, for a finite mean", lambda value: value > 1)
        positive(self, "mean", "the mean gap in units of time")

    @property
    def scale(self) -> Any:
        return self.mean * (self.shape - 1)

    @property
    def lipschitz(self) -> Any:
        return self.shape / self.scale

    def _log(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.log1p(t / self.scale)

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return -ns.xp.expm1(-self.shape * self._log(ns, t))

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.exp(-self.shape * self._log(ns, t))

    def _density(self, ns: Namespace, t: Any) -> Any:
        return self.shape / self.scale * ns.xp.exp(-(self.shape + 1) * self._log(ns, t))

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return -(self.shape + 1) / (t + self.scale) * self._density(ns, t)

    def _residence(self, ns: Namespace, t: Any) -> Any:
        return -self.mean * ns.xp.expm1(-(self.shape - 1) * self._log(ns, t))

    def _excess(self, ns: Namespace, t: Any) -> Any:
        return self.mean * ns.xp.exp(-(self.shape - 1) * self._log(ns, t))

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return self.scale * ns.xp.expm1(_minus_log(ns, p, q) / self.shape)

    def _residual_inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return self.scale * ns.xp.expm1(_minus_log(ns, p, q) / (self.shape - 1))
