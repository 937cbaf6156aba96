"""Laws of the number of turns by maximum likelihood."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from mfmc.errors import InputError
from mfmc.fitting.optimum import Fit, minimise, standard_errors
from mfmc.laws.turns import FixedTurns, GeometricTurns, NegativeBinomialTurns, PoissonTurns


def fit_turns(turns: np.ndarray) -> list[Fit]:
    """Geometric, negative binomial, Poisson and fixed turns by maximum likelihood, the lowest AIC first.

    turns: int [conversations], M >= 1. The smallest M seen is taken for the minimum; `GeometricTurns` is
    tried only where that is 1, `FixedTurns` where all are equal, the negative binomial where the variance
    exceeds the mean.
    """
    turns = np.asarray(turns)
    if turns.ndim != 1 or not turns.size or turns.min() < 1:
        raise InputError(
            "turns: expected the numbers of turns of conversations, at least one of them, each 1 or more"
        )
    low, n = int(turns.min()), turns.size
    if turns.max() == low:
        return [
            Fit(
                "fixed",
                FixedTurns(low),
                {"count": float(low)},
                {"count": None},
                0.0,
                2.0,
                math.log(n),
                0.0,
                True,
            )
        ]
    excess = turns - low
    mean, variance = float(excess.mean()), float(excess.var())
    poisson = PoissonTurns(low + mean, low)
    fits = [_turn_fit("poisson", poisson, {"mean": low + mean}, {"mean": math.sqrt(mean / n)}, turns)]
    if low == 1:
        p = 1 - n / float(turns.sum())
        error = math.sqrt(p * (1 - p) ** 2 / n)
        fits.append(
            _turn_fit("geometric", GeometricTurns(p), {"continuation": p}, {"continuation": error}, turns)
        )
    if variance > mean:
        fits.append(_negative_binomial(excess, low, turns))
    return sorted(fits, key=lambda fit: fit.aic)


def _negative_binomial(excess: np.ndarray, low: int, turns: np.ndarray) -> Fit:
    """minimum + NB of mean mu and size r: theta = (log r, log mu)."""
    values, counts = np.unique(excess, return_counts=True)
    x, weight = jnp.asarray(values, dtype=float), jnp.asarray(counts / excess.size)

    def loss(theta: Any) -> Any:
        size, mean = jnp.exp(theta)
        logs = gammaln(x + size) - gammaln(size) - gammaln(x + 1)
        logs += size * (theta[0] - jnp.log(size + mean)) + x * (theta[1] - jnp.log(size + mean))
        return -(weight * logs).sum()

    def natural(theta: Any) -> Any:
        size, mean = jnp.exp(theta)
        return jnp.stack([low + mean, mean + mean**2 / size])

    mean, variance = excess.mean(), excess.var()
    theta, converged = minimise(loss, np.log([mean**2 / (variance - mean), mean]))
    total, spread = map(float, natural(theta))
    errors = standard_errors(loss, theta, natural, excess.size)
    law = NegativeBinomialTurns(total, spread, low)
    names = ("mean", "variance")
    return _turn_fit(
        "negative_binomial",
        law,
        dict(zip(names, (total, spread))),
        dict(zip(names, errors)),
        turns,
        converged,
    )


def _turn_fit(
    kind: str, law: Any, parameters: dict, errors: dict, turns: np.ndarray, converged: bool = True
) -> Fit:
    pmf = law.pmf()
    size = max(pmf.size, int(turns.max()) + 1)
    fitted, counts = np.zeros(size), np.bincount(turns, minlength=size)
    fitted[: pmf.size] = pmf
    with np.errstate(divide="ignore"):
        logs = np.where(counts > 0, np.log(fitted), 0.0)
    log_likelihood = float(counts @ logs)
    ks = float(np.max(np.abs(np.cumsum(fitted) - np.cumsum(counts) / turns.size)))
    k = len(parameters)
    bic = k * math.log(turns.size) - 2 * log_likelihood
    return Fit(kind, law, parameters, errors, log_likelihood, 2 * k - 2 * log_likelihood, bic, ks, converged)
