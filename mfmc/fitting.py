"""Maximum-likelihood fits of gap and turn laws (optax), with censored gaps, compared by AIC, BIC and KS.

Gaps that the end of a file cut enter by their survival; a wait after a last turn may also have no end at all, so that
the likelihood of a wait of at least c is 1 - p + p Fbar(c), where p = P(a turn is followed by another) is fitted
along (the cure model of `estimator.gap_laws`). Parameters are optimised on the whole line (logarithms, logits) by
L-BFGS with a line search; standard errors are those of the observed information.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import gammaincc, gammaln, log_ndtr, logsumexp

from mfmc.errors import InputError
from mfmc.laws.gaps import (
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    WeibullGaps,
)
from mfmc.laws.turns import FixedTurns, GeometricTurns, NegativeBinomialTurns, PoissonTurns

STEPS = 400
TOLERANCE = 1e-7  # of the gradient of the mean log-likelihood


class Family(NamedTuple):
    """A gap law as the optimiser sees it: parameters theta on the whole line, times in units of the mean gap.

    start(times) -> theta; log_density(theta, t), log_survival(theta, t); natural(theta) -> the law's own parameters, by
    name; law(*natural) -> the law.
    """

    names: tuple[str, ...]
    start: Callable[[np.ndarray], np.ndarray]
    log_density: Callable[[Any, Any], Any]
    log_survival: Callable[[Any, Any], Any]
    natural: Callable[[Any], Any]
    law: Callable[..., Any]


@dataclass(frozen=True)
class Fit:
    """One fitted law. parameters, standard_errors: by name, in the law's own units (an error is None where the
    information matrix is singular: the data do not determine the parameter); log_likelihood in natural logarithms;
    ks: largest distance between the fitted cdf and that of the data; continues: P(a turn follows), where fitted.
    """

    kind: str
    law: Any
    parameters: dict[str, float]
    standard_errors: dict[str, float | None]
    log_likelihood: float
    aic: float
    bic: float
    ks: float
    converged: bool
    continues: float | None = None


# Families of gap laws


def _scale_family(names: tuple[str, ...], start: Callable, log_density: Callable, log_survival: Callable, law: Any) -> Family:
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
        # Phases spread over the data's own scales, the shortest first.
        pieces = np.array_split(np.sort(times), phases)
        means = np.array([max(piece.mean(), 1e-9) for piece in pieces])
        return np.concatenate([np.zeros(phases - 1), np.log(means)])

    def natural(theta: Any) -> Any:
        return jnp.exp(jnp.concatenate(_mixture(theta)))

    def law(*values: float) -> HyperexponentialGaps:
        weights = np.maximum(values[:phases], 1e-300)
        return HyperexponentialGaps(tuple(weights / weights.sum()), tuple(values[phases:]))

    return Family(names, start, _mixture_density, _mixture_survival, natural, law)


FAMILIES: dict[str, Family] = {
    "exponential": Family(
        ("mean",), lambda t: np.log([t.mean()]), _exponential_density, lambda th, t: -t * jnp.exp(-th[0]), jnp.exp,
        ExponentialGaps,
    ),
    "gamma": _scale_family(
        ("shape", "mean"), lambda t: np.array([-2 * np.log(_cv(t)), np.log(t.mean())]), _gamma_density, _gamma_survival,
        GammaGaps,
    ),
    "lognormal": _scale_family(
        ("sigma", "mean"),
        lambda t: np.array([np.log(max(np.log(t).std(), 0.05)), np.log(t).mean() + min(np.log(t).var(), 8) / 2]),
        _lognormal_density, lambda th, t: log_ndtr(-_normal_score(th, t)), LognormalGaps,
    ),
    "weibull": _scale_family(
        ("shape", "mean"), lambda t: np.array([-np.log(_cv(t)), np.log(t.mean())]), _weibull_density,
        lambda th, t: -jnp.exp(_weibull_hazard(th, t)), WeibullGaps,
    ),
    "lomax": Family(
        ("shape", "mean"), lambda t: np.array([0.5, np.log(t.mean())]), _lomax_density,
        lambda th, t: -(1 + jnp.exp(th[0])) * _lomax_log(th, t),
        lambda th: jnp.stack([1 + jnp.exp(th[0]), jnp.exp(th[1])]), LomaxGaps,
    ),
    **{f"hyperexponential_{k}": _hyperexponential(k) for k in (2, 3, 4)},
}  # fmt: skip


# Fitting


def fit_gaps(kind: str, seconds: np.ndarray, censored: np.ndarray | None = None, *, may_end: bool = False) -> Fit:
    """The gap law of one kind (a key of FAMILIES) by maximum likelihood; float64 [n], bool [n].

    may_end: a censored wait may have no end, as after a conversation's last turn; P(a turn follows) is fitted too.
    Zeros count as half the shortest positive gap (no density is finite at 0 for all kinds).
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
    theta, converged = _minimise(loss, start)
    inner = theta[:-1] if cured else theta
    values = np.asarray(family.natural(inner), dtype=float)
    scale = np.array([unit if name.startswith("mean") else 1.0 for name in family.names])
    errors = _standard_errors(loss, theta, lambda th: family.natural(th[:-1] if cured else th), count)
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
    seconds: np.ndarray, censored: np.ndarray | None = None, kinds: tuple[str, ...] = tuple(FAMILIES), *, may_end: bool = False
) -> list[Fit]:
    """Fits of every kind, the lowest AIC first."""
    fits = [fit_gaps(kind, seconds, censored, may_end=may_end) for kind in kinds]
    return sorted(fits, key=lambda fit: fit.aic)


def _checked(seconds: np.ndarray, censored: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(gaps seen, waits cut): zeros among the gaps replaced, and left out among the waits, of which they say nothing."""
    seconds = np.asarray(seconds, dtype=np.float64)
    censored = np.zeros(seconds.size, dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
    bad = ~(np.isfinite(seconds) & (seconds >= 0))
    if bad.any():
        raise InputError(f"gap {int(np.argmax(bad))} is {seconds[bad][0]}: expected a finite number, 0 or more")
    seen, cut = seconds[~censored], seconds[censored]
    if np.unique(seen).size < 5:
        raise InputError(f"{seen.size} gaps with {np.unique(seen).size} distinct values: a fit needs at least 5 of them")
    return np.maximum(seen, seen[seen > 0].min() / 2), cut[cut > 0]


def _minimise(loss: Callable, start: np.ndarray) -> tuple[np.ndarray, bool]:
    """L-BFGS (optax) from `start`: (the minimiser, whether the gradient vanished there)."""
    # Backtracking compiles three times as fast as the default zoom search, and reaches the same optimum.
    search = optax.scale_by_backtracking_linesearch(max_backtracking_steps=30, store_grad=True)
    solver = optax.lbfgs(linesearch=search)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def step(carry: tuple) -> tuple:
        theta, state, _, count = carry
        value, gradient = value_and_grad(theta, state=state)
        updates, state = solver.update(gradient, state, theta, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(theta, updates), state, jnp.linalg.norm(gradient), count + 1

    def unfinished(carry: tuple) -> Any:
        _, _, gradient, count = carry
        return (count < STEPS) & (gradient > TOLERANCE)

    theta = jnp.asarray(start, dtype=jnp.result_type(float))
    theta, _, gradient, _ = jax.lax.while_loop(unfinished, step, (theta, solver.init(theta), jnp.asarray(jnp.inf), 0))
    return np.asarray(theta), bool(gradient <= 1e-4)


def _standard_errors(loss: Callable, theta: np.ndarray, natural: Callable, count: int) -> list[float | None]:
    """Of the natural parameters, by the delta method; the information by central differences of the gradient.

    (Second derivatives of the incomplete gamma function are not available to automatic differentiation.)
    """
    gradient = jax.jit(jax.grad(loss))
    step = 1e-4
    rows = [(gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(theta.size)]
    information = count * (np.array(rows) + np.array(rows).T) / 2
    jacobian = np.asarray(jax.jacobian(natural)(jnp.asarray(theta)))
    try:
        if not np.all(np.linalg.eigvalsh(information) > 1e-12 * count):
            raise np.linalg.LinAlgError
        covariance = jacobian @ np.linalg.solve(information, jacobian.T)
    except np.linalg.LinAlgError:
        return [None] * jacobian.shape[0]
    return [float(np.sqrt(max(v, 0.0))) for v in np.diag(covariance)]


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


# Laws of the number of turns


def fit_turns(turns: np.ndarray) -> list[Fit]:
    """Geometric, negative binomial, Poisson and fixed turns by maximum likelihood, the lowest AIC first.

    turns: int [conversations], M >= 1. The smallest M seen is taken for the minimum; `GeometricTurns` is tried only
    where that is 1, `FixedTurns` where all are equal, the negative binomial where the variance exceeds the mean.
    """
    turns = np.asarray(turns)
    if turns.ndim != 1 or not turns.size or turns.min() < 1:
        raise InputError("turns: expected the numbers of turns of conversations, at least one of them, each 1 or more")
    low, n = int(turns.min()), turns.size
    if turns.max() == low:
        return [Fit("fixed", FixedTurns(low), {"count": float(low)}, {"count": None}, 0.0, 2.0, math.log(n), 0.0, True)]
    excess = turns - low
    mean, variance = float(excess.mean()), float(excess.var())
    poisson = PoissonTurns(low + mean, low)
    fits = [_turn_fit("poisson", poisson, {"mean": low + mean}, {"mean": math.sqrt(mean / n)}, turns)]
    if low == 1:
        p = 1 - n / float(turns.sum())
        error = math.sqrt(p * (1 - p) ** 2 / n)
        fits.append(_turn_fit("geometric", GeometricTurns(p), {"continuation": p}, {"continuation": error}, turns))
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
    theta, converged = _minimise(loss, np.log([mean**2 / (variance - mean), mean]))
    total, spread = map(float, natural(theta))
    errors = _standard_errors(loss, theta, natural, excess.size)
    law = NegativeBinomialTurns(total, spread, low)
    names = ("mean", "variance")
    return _turn_fit("negative_binomial", law, dict(zip(names, (total, spread))), dict(zip(names, errors)), turns, converged)


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
