"""Gap laws whose cdf is piecewise linear: uniform, and recorded gaps made continuous."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from mfmc.errors import InputError
from mfmc.laws.gap_law import GapLaw
from mfmc.laws.namespace import Namespace, namespace, parameter, positive, pytree


@pytree
@dataclasses.dataclass(frozen=True)
class UniformGaps(GapLaw):
    """Uniform on [low, high]."""

    low: Any
    high: Any

    def __post_init__(self) -> None:
        parameter(self, "low", "a finite number, 0 or more, the shortest gap", lambda value: value >= 0)
        positive(self, "high", "the longest gap")
        if not any(isinstance(value, jax.core.Tracer) for value in (self.low, self.high)):
            parameter(self, "high", f"a number above low={self.low}", lambda value: value > float(self.low))

    @property
    def mean(self) -> Any:  # type: ignore[override]
        return (self.low + self.high) / 2

    @property
    def width(self) -> Any:
        return self.high - self.low

    @property
    def lipschitz(self) -> Any:
        return 1 / self.width

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return tuple(float(value) for value in (self.low, self.high) if float(value) > 0)

    def piecewise(self) -> tuple[np.ndarray, np.ndarray]:
        """Knots and the cdf at them: F is linear in between."""
        low, high = float(self.low), float(self.high)
        knots, heights = np.array([0.0, low, high]), np.array([0.0, 0.0, 1.0])
        return (knots, heights) if low > 0 else (knots[1:], heights[1:])

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.clip((t - self.low) / self.width, 0, 1)

    def _survival(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.clip((self.high - t) / self.width, 0, 1)

    def _density(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.where((t >= self.low) & (t < self.high), 1 / self.width, 0.0)

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.zeros_like(t)

    def _residence(self, ns: Namespace, t: Any) -> Any:
        spread = ns.xp.clip(t - self.low, 0, self.width)
        return ns.xp.minimum(t, self.low) + spread * (1 - spread / (2 * self.width))

    def _excess(self, ns: Namespace, t: Any) -> Any:
        rest = ns.xp.clip(self.high - t, 0, self.width)
        return ns.xp.maximum(self.low - t, 0) + rest**2 / (2 * self.width)

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        return ns.xp.where(p <= 0.5, self.low + p * self.width, self.high - q * self.width)

    def _residual_inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        # Past `low` the survival falls linearly: x - x^2 / (2 width) = area with x = t - low, or, from the
        # other end, r^2 / (2 width) = q mean with r = high - t. The area beyond `low` is width / 2.
        area = ns.xp.clip(p * self.mean - self.low, 0, self.width / 2)
        left = area < self.width / 4
        square = ns.xp.where(left, 1 - 2 * area / self.width, 2 * self.width * q * self.mean)
        root = ns.xp.sqrt(square)
        past = ns.xp.where(left, self.low + 2 * area / (1 + root), self.high - root)
        return ns.xp.where(p * self.mean < self.low, p * self.mean, past)

    def _support(self, ns: Namespace, residual: bool) -> tuple[Any, Any]:
        return (0.0 if residual else self.low), self.high


@pytree
@dataclasses.dataclass(frozen=True, init=False, eq=False)
class EmpiricalGaps(GapLaw):
    """Recorded gaps with their empirical cdf joined by straight lines, from F(0) = 0.

    Each recorded value's mass is spread evenly between the next smaller distinct value (or 0) and itself: the
    cdf passes through (v_i, share of samples <= v_i) at every distinct positive value v_i. Ties give a
    steeper piece, samples of zero share the first piece, order does not matter. This law is Lipschitz, and
    its mean is a little below the sample mean (by half the typical spacing of the values): `mean` is that of
    this law, exactly.

    EmpiricalGaps(samples): one or more finite gaps >= 0, at least one of them positive, in units of time. The
    law keeps `knots` (0 and the distinct values, increasing) and `heights` (F at them); those are the leaves
    of the pytree.
    """

    knots: Any
    heights: Any

    def __init__(self, samples: Any) -> None:
        if isinstance(samples, jax.core.Tracer):
            raise InputError("EmpiricalGaps: samples is a traced array; build the law outside jit")
        try:
            samples = np.asarray(samples, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            raise InputError(f"EmpiricalGaps: samples={samples!r} is not a list of numbers") from None
        if not samples.size:
            raise InputError("EmpiricalGaps: samples is empty; give at least one gap above 0")
        bad = np.flatnonzero(~(np.isfinite(samples) & (samples >= 0)))
        if bad.size:
            raise InputError(f"EmpiricalGaps: samples[{bad[0]}]={samples[bad[0]]} is not allowed "
                             f"({bad.size} such); give finite gaps, 0 or more")  # fmt: skip
        values, counts = np.unique(samples, return_counts=True)
        if values[-1] == 0:
            raise InputError(f"EmpiricalGaps: all {samples.size} samples are 0; give at least one above 0")
        cumulative = np.cumsum(counts) / samples.size
        positive = values > 0
        self._set(values[positive], cumulative[positive])

    def _set(self, values: np.ndarray, heights: np.ndarray) -> None:
        object.__setattr__(self, "knots", np.concatenate([[0.0], values]))
        object.__setattr__(self, "heights", np.concatenate([[0.0], heights]))

    @classmethod
    def from_cdf(cls, times: Any, heights: Any) -> EmpiricalGaps:
        """The law whose F joins (0, 0) and the points (times, heights) by lines.

        times: increasing, in units of time; one of 0 is left out (F(0) = 0). heights: not decreasing, above 0
        at the end; they are divided by the last. Both float64 [n].
        """
        times, heights = np.asarray(times, dtype=np.float64), np.asarray(heights, dtype=np.float64)
        shaped = times.ndim == 1 and times.shape == heights.shape and times.size
        if not (shaped and np.isfinite(times).all() and np.isfinite(heights).all()):
            raise InputError(
                f"EmpiricalGaps.from_cdf: times {times.shape} and heights {heights.shape}: expected as many finite"
                " numbers of each, in one dimension"
            )
        if times[0] < 0 or np.any(np.diff(times) <= 0) or times[-1] <= 0:
            raise InputError("EmpiricalGaps.from_cdf: times must increase from 0 or more, the last above 0")
        if heights[0] < 0 or np.any(np.diff(heights) < 0) or heights[-1] <= 0:
            raise InputError("EmpiricalGaps.from_cdf: heights must not decrease, from 0 or more to above 0")
        law = object.__new__(cls)
        positive = times > 0
        law._set(times[positive], heights[positive] / heights[-1])
        return law

    def piecewise(self) -> tuple[np.ndarray, np.ndarray]:
        """Knots and the cdf at them: F is linear in between."""
        return np.asarray(self.knots), np.asarray(self.heights)

    @property
    def mean(self) -> Any:  # type: ignore[override]
        mean = (namespace(self).xp.diff(self.knots) * (1 - (self.heights[1:] + self.heights[:-1]) / 2)).sum()
        return mean if isinstance(mean, jax.Array) else float(mean)

    @property
    def lipschitz(self) -> Any:
        steepest = (namespace(self).xp.diff(self.heights) / namespace(self).xp.diff(self.knots)).max()
        return steepest if isinstance(steepest, jax.Array) else float(steepest)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return tuple(np.asarray(self.knots)[1:].tolist())

    def _from_host(self) -> GapLaw:
        return jax.tree.map(np.asarray, self)

    def _piece(self, ns: Namespace, t: Any) -> tuple[Any, ...]:
        """For each t: its piece's left knot, right knot, F at both, and the piece's index."""
        knots, heights = ns.xp.asarray(self.knots), ns.xp.asarray(self.heights)
        last = knots.shape[0] - 2
        index = ns.xp.clip(ns.xp.searchsorted(knots, t, side="right") - 1, 0, last)
        return knots[index], knots[index + 1], heights[index], heights[index + 1], index

    def _areas(self, ns: Namespace) -> tuple[Any, Any]:
        """I and E[(W - t)^+] at the knots."""
        knots, heights = ns.xp.asarray(self.knots), ns.xp.asarray(self.heights)
        pieces = ns.xp.diff(knots) * (1 - (heights[1:] + heights[:-1]) / 2)
        zero = ns.xp.zeros_like(knots[:1])
        below = ns.xp.concatenate([zero, ns.xp.cumsum(pieces)])
        above = ns.xp.concatenate([ns.xp.cumsum(pieces[::-1])[::-1], zero])
        return below, above

    def _cdf(self, ns: Namespace, t: Any) -> Any:
        left, right, low, high, _ = self._piece(ns, t)
        return ns.xp.minimum(low + (high - low) * (t - left) / (right - left), 1)

    def _survival(self, ns: Namespace, t: Any) -> Any:
        left, right, low, high, _ = self._piece(ns, t)
        return ns.xp.maximum((1 - high) + (high - low) * (right - t) / (right - left), 0)

    def _density(self, ns: Namespace, t: Any) -> Any:
        left, right, low, high, _ = self._piece(ns, t)
        return ns.xp.where(t < ns.xp.asarray(self.knots)[-1], (high - low) / (right - left), 0.0)

    def _density_derivative(self, ns: Namespace, t: Any) -> Any:
        return ns.xp.zeros_like(t)

    def _residence(self, ns: Namespace, t: Any) -> Any:
        left, right, low, high, index = self._piece(ns, t)
        below, _ = self._areas(ns)
        along = ns.xp.minimum(t, right) - left
        return below[index] + along * ((1 - low) - (high - low) * along / (right - left) / 2)

    def _excess(self, ns: Namespace, t: Any) -> Any:
        left, right, low, high, index = self._piece(ns, t)
        _, above = self._areas(ns)
        rest = ns.xp.maximum(right - t, 0)
        return above[index + 1] + rest * ((1 - high) + (high - low) * rest / (right - left) / 2)

    def _inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        knots, heights = ns.xp.asarray(self.knots), ns.xp.asarray(self.heights)
        index = ns.xp.clip(ns.xp.searchsorted(heights, p, side="right") - 1, 0, knots.shape[0] - 2)
        left, right, low, high = knots[index], knots[index + 1], heights[index], heights[index + 1]
        from_left = left + (p - low) * (right - left) / (high - low)
        from_right = right - (q - (1 - high)) * (right - left) / (high - low)
        return ns.xp.clip(ns.xp.where(p <= 0.5, from_left, from_right), left, right)

    def _residual_inverse(self, ns: Namespace, p: Any, q: Any) -> Any:
        knots, heights = ns.xp.asarray(self.knots), ns.xp.asarray(self.heights)
        below, above = self._areas(ns)
        last = knots.shape[0] - 2
        index = ns.xp.where(
            p <= 0.5,
            ns.xp.searchsorted(below, p * self.mean, side="right") - 1,
            last + 1 - ns.xp.searchsorted(above[::-1], q * self.mean, side="left"),
        )
        index = ns.xp.clip(index, 0, last)
        left, right, low, high = knots[index], knots[index + 1], heights[index], heights[index + 1]
        slope = (high - low) / (right - left)
        # From the left, x (1-low) - slope x^2/2 = area; from the right, x (1-high) + slope x^2/2 = area.
        area = ns.xp.maximum(p * self.mean - below[index], 0)
        along = 2 * area / ((1 - low) + ns.xp.sqrt(ns.xp.maximum((1 - low) ** 2 - 2 * slope * area, 0)))
        area = ns.xp.maximum(q * self.mean - above[index + 1], 0)
        tail = 1 - high
        root = ns.xp.sqrt(tail**2 + 2 * slope * area)
        back = 2 * area / ns.xp.maximum(tail + root, np.finfo(area.dtype).tiny)
        return ns.xp.clip(ns.xp.where(p <= 0.5, left + along, right - back), left, right)

    def _support(self, ns: Namespace, residual: bool) -> tuple[Any, Any]:
        return 0.0, self.knots[-1]
