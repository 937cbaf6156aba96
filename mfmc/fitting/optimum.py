"""The maximum of a likelihood (optax), the errors of its parameters, and what a fit is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 400
TOLERANCE = 1e-7  # of the gradient of the mean log-likelihood


@dataclass(frozen=True)
class Fit:
    """One fitted law. parameters, standard_errors: by name, in the law's own units (an error is None where
    the information matrix is singular: the data do not determine the parameter); log_likelihood in natural
    logarithms; ks: largest distance between the fitted cdf and that of the data; continues: P(a turn
    follows), where fitted.
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


def minimise(loss: Callable, start: np.ndarray) -> tuple[np.ndarray, bool]:
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
    theta, _, gradient, _ = jax.lax.while_loop(
        unfinished, step, (theta, solver.init(theta), jnp.asarray(jnp.inf), 0)
    )
    return np.asarray(theta), bool(gradient <= 1e-4)


def standard_errors(loss: Callable, theta: np.ndarray, natural: Callable, count: int) -> list[float | None]:
    """Of the natural parameters, by the delta method; the information by central differences of the gradient.

    (Second derivatives of the incomplete gamma function are not available to automatic differentiation.)
    """
    gradient = jax.jit(jax.grad(loss))
    step = 1e-4
    rows = [
        (gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(theta.size)
    ]
    information = count * (np.array(rows) + np.array(rows).T) / 2
    jacobian = np.asarray(jax.jacobian(natural)(jnp.asarray(theta)))
    try:
        if not np.all(np.linalg.eigvalsh(information) > 1e-12 * count):
            raise np.linalg.LinAlgError
        covariance = jacobian @ np.linalg.solve(information, jacobian.T)
    except np.linalg.LinAlgError:
        return [None] * jacobian.shape[0]
    return [float(np.sqrt(max(v, 0.0))) for v in np.diag(covariance)]
