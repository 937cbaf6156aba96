"""What every law of a gap W (inter-prompt time) offers; the inversion of laws without a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.errors import InputError
from mfmc.laws.inversion import gap_functions, residual_functions, solve_quantile
from mfmc.laws.namespace import JAX, Namespace, namespace
from mfmc.laws.quantile_table import cached_table
from mfmc.laws.uniform_words import random_tails


class GapLaw:
    """A continuous law on (0, infinity) with cdf F, survival Fbar = 1 - F and a finite mean.

    Times are in the user's unit of time, probabilities are plain numbers; every method maps arrays of any
    shape elementwise. Numpy and Python values give numpy float64; JAX values, or JAX parameters, give JAX
    arrays.

    A law defines `mean`, `lipschitz` and, on 0 < t < infinity and with the namespace first, `_cdf`,
    `_survival`, `_density`, `_density_derivative`, `_residence` and `_excess`, each to full relative
    accuracy; `_inverse` and `_residual_inverse` have closed forms in most laws and are solved for in the
    others.
    """

    mean: Any
    _cdf: Any
    _survival: Any
    _density: Any
    _density_derivative: Any
    _residence: Any
    _excess: Any

    @property
    def lipschitz(self) -> Any:
        """Smallest L with |F(s) - F(t)| <= L |s - t| (Assumption B.4), `math.inf` where there is none."""
        raise NotImplementedError

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Times t > 0 at which the density jumps or kinks (the refined formula needs it smooth there)."""
        return ()

    def cdf(self, t: Any) -> Any:
        """F(t) = P(W <= t)."""
        return self._everywhere(self._cdf, t, 0.0, 1.0)

    def survival(self, t: Any) -> Any:
        """Fbar(t) = P(W > t), accurate also where it is tiny."""
        return self._everywhere(self._survival, t, 1.0, 0.0)

    def density(self, t: Any) -> Any:
        """f(t) = F'(t); at t = 0 its value at the smallest positive number (huge at a pole)."""
        return self._everywhere(self._density, _off_zero(self, t), 0.0, 0.0)

    def density_derivative(self, t: Any) -> Any:
        """f'(t), from the right at a breakpoint; at t = 0 as `density`."""
        return self._everywhere(self._density_derivative, _off_zero(self, t), 0.0, 0.0)

    def residence(self, t: Any) -> Any:
        """I(t) = E[min(W, t)] = int_0^t Fbar(u) du, in units of time; t for t <= 0, the mean at infinity."""
        t = namespace(self, t).floats(t)
        return self._everywhere(self._residence, t, t, self.mean)

    def excess(self, t: Any) -> Any:
        """E[(W - t)^+] = mean - I(t), in units of time, without the cancellation of that difference."""
        t = namespace(self, t).floats(t)
        return self._everywhere(self._excess, t, self.mean - t, 0.0)

    def quantile(self, u: Any) -> Any:
        """t with F(t) = u, for 0 <= u <= 1; relative error about 1e-14 times the conditioning of u."""
        return self._invert(self._inverse, u, 1 - namespace(self, u).floats(u))

    def upper_quantile(self, v: Any) -> Any:
        """t with Fbar(t) = v: `quantile(1 - v)` without losing the digits of a tiny v."""
        return self._invert(self._inverse, 1 - namespace(self, v).floats(v), v)

    def residual_quantile(self, u: Any) -> Any:
        """t with I(t) = u mean: quantile of the residual (equilibrium) law of density Fbar / mean."""
        return self._invert(self._residual_inverse, u, 1 - namespace(self, u).floats(u))

    def residual_upper_quantile(self, v: Any) -> Any:
        """t with E[(W - t)^+] = v mean: `residual_quantile(1 - v)` without losing the digits of a tiny v."""
        return self._invert(self._residual_inverse, 1 - namespace(self, v).floats(v), v)

    def sample(self, key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
        """Independent gaps: JAX floats of `shape`, in units of time."""
        return self._draw(key, shape, residual=False)

    def sample_residual(self, key: jax.Array, shape: tuple[int, ...] = ()) -> jax.Array:
        """Independent residual gaps, of density Fbar / mean: JAX floats of `shape`, in units of time."""
        return self._draw(key, shape, residual=True)

    def _draw(self, key: jax.Array, shape: tuple[int, ...], residual: bool) -> jax.Array:
        """Closed forms where there are any, else a table; a law with traced parameters is solved for."""
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self))
        if self.is_solved(residual) and not traced:
            return cached_table(self.concrete(), residual).at(*random_tails(key, shape))
        v, upper = random_tails(key, shape)
        p, q = jnp.where(upper, 1 - v, v), jnp.where(upper, v, 1 - v)
        return self._residual_inverse(JAX, p, q) if residual else self._inverse(JAX, p, q)

    def concrete(self) -> GapLaw:
        """This law with plain numbers for parameters, for computations on the host."""
        leaves = jax.tree.leaves(self)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise InputError(f"{type(self).__name__}: the parameters are traced; build tables and renewal "
                             "integrals outside jit and pass them in")  # fmt: skip
        return self._from_host() if any(isinstance(leaf, jax.Array) for leaf in leaves) else self

    def _from_host(self) -> GapLaw:
        return type(self)(*(np.asarray(value) for value in vars(self).values()))

    def is_solved(self, residual: bool) -> bool:
        """Whether the quantile of the (residual) gap is solved for numerically, for want of a closed form."""
        name = "_residual_inverse" if residual else "_inverse"
        return getattr(type(self), name) is getattr(GapLaw, name)

    # What a law may override: q = 1 - p, each of the two accurate where it is the smaller one.

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return solve_quantile(ns, self, gap_functions, p, q)

    def _residual_inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return solve_quantile(ns, self, residual_functions, p, q)

    def _everywhere(self, function: Callable, t: Any, below: Any, above: Any) -> Any:
        """`function` on 0 < t < inf, `below` for t <= 0, `above` at infinity; nan stays nan."""
        ns = namespace(self, t)
        t = ns.floats(t)
        inside = (t > 0) & (t < math.inf)
        with np.errstate(all="ignore"):
            value = function(ns, ns.xp.where(inside, t, 1.0))
            outside = ns.xp.where(t <= 0, below, ns.xp.where(t == math.inf, above, t))
            return ns.xp.where(inside, value, outside)[()]

    def _invert(self, inverse: Callable, p: Any, q: Any) -> Any:
        """`inverse` on 0 < p < 1; the ends of the support at 0 and 1; nan outside [0, 1]."""
        ns = namespace(self, p, q)
        p, q = ns.floats(p), ns.floats(q)
        inside = (p > 0) & (q > 0)
        with np.errstate(all="ignore"):
            value = inverse(ns, ns.xp.where(inside, p, 0.5), ns.xp.where(inside, q, 0.5))
            low, high = self._support(ns, inverse == self._residual_inverse)
            outside = ns.xp.where(p == 0, low, ns.xp.where(q == 0, high, math.nan))
            return ns.xp.where(inside, value, outside)[()]

    def _support(self, ns: Namespace, residual: bool) -> tuple[Any, Any]:
        """Ends of the support of the gap, or of the residual gap."""
        return 0.0, math.inf


def _off_zero(law: GapLaw, t: Any) -> Any:
    ns = namespace(law, t)
    t = ns.floats(t)
    return ns.xp.where(t == 0, np.finfo(t.dtype).tiny, t)
