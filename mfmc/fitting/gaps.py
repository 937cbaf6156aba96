"""Gap laws by maximum likelihood, with gaps that a file's end cuts."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.errors import InputError
from mfmc.fitting.families import FAMILIES
from mfmc.fitting.optimum import Fit, minimise, standard_errors


def fit_gaps(
    kind: str, seconds: np.ndarray, censored: np.ndarray | None = None, *, may_end: bool = False
) -> Fit:
    """The gap law of one kind (a key of FAMILIES) by maximum likelihood; float64 [n], bool [n].

    may_end: a censored wait may have no end, as after a conversation's last turn; P(a turn follows) is
    fitted too. Zeros count as half the shortest positive gap (no density is finite at 0 for all kinds).
    """
    if kind not in FAMILIES:
        raise InputError(f"gap law {kind!r} is unknown: choose one of {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    seen, cut = _checked(seconds, censored)
    unit = seen.mean()  # the optimiser sees gaps of about 1
    times, waits = jnp.asarray(seen / unit), jnp.asarray(cut / unit)
    count = seen.size + cut.size
    cured = may_end and cut.size > 0

    def loss(theta: Any) -> Any:
        inner = theta[:-1] if cured else theta
        total = family.log_density(inner, times).sum()
        if cut.size:
            survival = family.log_survival(inner, waits)
            if cured:
                follows, ends = -jax.nn.softplus(-theta[-1]), -jax.nn.softplus(theta[-1])
                total += times.size * follows
                survival = jnp.logaddexp(ends, follows + survival)
            total += survival.sum()
        return -total / count

    start = family.start(np.asarray(times))
    if cured:
        share = np.clip(seen.size / count, 0.02, 0.98)
        start = np.append(start, np.log(share / (1 - share)))
    theta, converged = minimise(loss, start)
    inner = theta[:-1] if cured else theta
    values = np.asarray(family.natural(inner), dtype=float)
    scale = np.array([unit if name.startswith("mean") else 1.0 for name in family.names])
    errors = standard_errors(loss, theta, lambda th: family.natural(th[:-1] if cured else th), count)
    law = family.law(*map(float, values * scale))
    log_likelihood = float(-loss(jnp.asarray(theta)) * count - seen.size * math.log(unit))
    parameters = len(theta)
    return Fit(
        kind,
        law,
        dict(zip(family.names, map(float, values * scale))),
        {name: None if e is None else e * s for name, e, s in zip(family.names, errors, scale)},
        log_likelihood,
        2 * parameters - 2 * log_likelihood,
        parameters * math.log(count) - 2 * log_likelihood,
        _ks_gaps(law, seconds, censored, may_end),
        converged,
        float(jax.nn.sigmoid(theta[-1])) if cured else None,
    )


def compare_gaps(
    seconds: np.ndarray,
    censored: np.ndarray | None = None,
    kinds: tuple[str, ...] = tuple(FAMILIES),
    *,
    may_end: bool = False,
) -> list[Fit]:
    """Fits of every kind, the lowest AIC first."""
    fits = [fit_gaps(kind, seconds, censored, may_end=may_end) for kind in kinds]
    return sorted(fits, key=lambda fit: fit.aic)


def _checked(seconds: np.ndarray, censored: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(gaps seen, waits cut): zeros among the gaps replaced, and left out among the waits, of which they say
    nothing.
    """
    seconds = np.asarray(seconds, dtype=np.float64)
    censored = np.zeros(seconds.size, dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
    bad = ~(np.isfinite(seconds) & (seconds >= 0))
    if bad.any():
        raise InputError(
            f"gap {int(np.argmax(bad))} is {seconds[bad][0]}: expected a finite number, 0 or more"
        )
    seen, cut = seconds[~censored], seconds[censored]
    if np.unique(seen).size < 5:
        raise InputError(
            f"{seen.size} gaps with {np.unique(seen).size} distinct values: a fit needs at least 5 of them"
        )
    return np.maximum(seen, seen[seen > 0].min() / 2), cut[cut > 0]


def _ks_gaps(law: Any, seconds: np.ndarray, censored: np.ndarray | None, may_end: bool) -> float:
    """Largest distance of the fitted cdf from the data's, Kaplan and Meier's where waits are cut."""
    from mfmc.estimator.gap_laws import kaplan_meier

    seen = np.sort(np.asarray(seconds)[~np.asarray(censored)] if censored is not None else seconds)
    if censored is None or not np.any(censored):
        fitted, n = law.cdf(seen), seen.size
        return float(max(np.max(np.arange(1, n + 1) / n - fitted), np.max(fitted - np.arange(n) / n)))
    data = kaplan_meier(np.asarray(seconds, dtype=float), np.asarray(censored))
    knots, heights = data.law.piecewise()
    if may_end:
        heights = heights * law.cdf(knots[-1])  # both given that the gap is no longer than can be seen
    else:
        heights = heights * data.continues
    return float(np.max(np.abs(law.cdf(knots) - heights)))
