"""Estimates with their errors: binomial intervals, means, ratios, slopes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, ndtri, stdtrit


class Estimate(NamedTuple):
    """A value and its standard error (float or arrays of one shape)."""

    value: float
    standard_error: float


class Interval(NamedTuple):
    """A proportion and its confidence interval."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Slope(NamedTuple):
    """A fitted exponent and its 95% confidence interval."""

    slope: float
    low: float
    high: float


def clopper_pearson(successes: ArrayLike, trials: int, level: float = 0.95) -> Interval:
    """The exact interval of a binomial proportion (Clopper and Pearson 1934): never too short."""
    k = np.asarray(successes, dtype=float)
    tail = (1 - level) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(k, trials - k + 1, tail), 0.0)
        high = np.where(k < trials, betainccinv(k + 1, trials - k, tail), 1.0)
    return Interval(k / trials, low, high)


def mean(samples: ArrayLike, axis: int = 0) -> Estimate:
    """Mean of independent samples and its standard error."""
    x = np.asarray(samples, dtype=float)
    return Estimate(x.mean(axis), x.std(axis, ddof=1) / np.sqrt(x.shape[axis]))


def variance(samples: ArrayLike, axis: int = 0) -> Estimate:
    """Variance of independent samples and its standard error, from the fourth moment (not assumed normal)."""
    x = np.asarray(samples, dtype=float)
    n = x.shape[axis]
    centred = x - x.mean(axis, keepdims=True)
    second, fourth = (centred**2).mean(axis), (centred**4).mean(axis)
    return Estimate(second * n / (n - 1), np.sqrt(np.maximum(fourth - second**2, 0) / n))


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> Estimate:
    """Ratio of means of paired independent samples, standard error by the delta method."""
    x, y = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    value = x.mean() / y.mean()
    return Estimate(value, np.std(x - value * y, ddof=1) / abs(y.mean()) / np.sqrt(x.size))


def deviations(estimate: ArrayLike, standard_error: ArrayLike, target: ArrayLike) -> np.ndarray:
    """|estimate - target| in standard errors; 0 where they agree exactly."""
    gap = np.abs(np.asarray(estimate, dtype=float) - np.asarray(target, dtype=float))
    error = np.asarray(standard_error, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0, 0.0, gap / error)


def power_law(x: ArrayLike, y: ArrayLike, standard_error: ArrayLike) -> Slope:
    """Exponent of y ~ x^slope by weighted least squares in logarithms, with its 95% interval.

    The interval takes the larger of the errors that the standard errors imply and those that the scatter about the
    line shows (Student's t with n - 2 degrees), so that a law that is only asymptotic is not given a false precision.
    """
    u, v = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    weight = (np.asarray(y, float) / np.asarray(standard_error, float)) ** 2
    if u.size < 2:
        return Slope(float("nan"), float("nan"), float("nan"))
    centre = np.average(u, weights=weight)
    spread = weight @ (u - centre) ** 2
    slope = weight @ ((u - centre) * v) / spread
    half = -ndtri(0.025) / np.sqrt(spread)
    if u.size > 2:
        residual = v - np.average(v, weights=weight) - slope * (u - centre)
        scatter = np.sqrt(weight @ residual**2 / (u.size - 2) / spread)
        half = max(half, -stdtrit(u.size - 2, 0.025) * scatter)
    return Slope(float(slope), float(slope - half), float(slope + half))
