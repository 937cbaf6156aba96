"""One namespace for numpy and JAX, so that every formula of a law is written once.

Concrete numbers go through numpy and scipy in float64, whatever `jax_enable_x64` says; as soon as one value
is a JAX array or a tracer, the same formula runs in `jax.numpy` and can be jitted, mapped and differentiated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special

from mfmc.errors import InputError


@dataclasses.dataclass(frozen=True)
class Namespace:
    """`xp` (array functions), `special` (special functions), and what numpy and JAX spell differently."""

    xp: ModuleType
    special: ModuleType

    @property
    def is_jax(self) -> bool:
        return self.xp is jnp

    def floats(self, value: Any) -> Any:
        """`value` as an array of the default float type (a float array keeps its own type in JAX)."""
        if not self.is_jax:
            return np.asarray(value, dtype=np.float64)
        value = jnp.asarray(value)
        return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)

    def either(self, condition: Any, yes: Callable, no: Callable) -> Any:
        """`where(condition, yes(), no())`, which numpy computes one-sidedly when all conditions agree."""
        if not self.is_jax and (condition.all() or not condition.any()):
            return yes() if condition.all() else no()
        return self.xp.where(condition, yes(), no())

    def loop(self, unfinished: Callable, step: Callable, state: tuple) -> tuple:
        """`while unfinished(state): state = step(state)`."""
        if self.is_jax:
            return jax.lax.while_loop(unfinished, step, state)
        while unfinished(state):
            state = step(state)
        return state


NUMPY = Namespace(np, scipy.special)
JAX = Namespace(jnp, jax.scipy.special)


def namespace(*values: Any) -> Namespace:
    """JAX if any leaf of any value is a JAX array or tracer, else numpy."""
    return JAX if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values)) else NUMPY


def pytree(cls: type) -> type:
    """Register a frozen dataclass as a JAX pytree whose fields are all data.

    Unlike `jax.tree_util.register_dataclass`, unflattening does not call the constructor: a gradient with
    respect to a law is a tree of the same type whose "mean" may be negative, and must not be refused as a bad
    parameter.
    """
    names = tuple(field.name for field in dataclasses.fields(cls))
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in names)

    def flatten(tree: Any) -> tuple[tuple, None]:
        return tuple(getattr(tree, name) for name in names), None

    def flatten_with_keys(tree: Any) -> tuple[tuple, None]:
        return tuple(zip(keys, flatten(tree)[0])), None

    def unflatten(_: None, leaves: Iterable) -> Any:
        tree: Any = object.__new__(cls)
        for name, leaf in zip(names, leaves):
            object.__setattr__(tree, name, leaf)
        return tree

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def parameter(law: Any, name: str, allowed: str, accept: Callable[[float], bool]) -> None:
    """Check one scalar parameter of `law` and store it as a float; JAX values stay as they are, tracers
    unchecked.

    Raises InputError with one line that names the law, the parameter, its value and what is `allowed`.
    """
    value = getattr(law, name)
    if isinstance(value, jax.core.Tracer):
        return
    try:
        number = float(value) if np.ndim(value) == 0 else None
    except (TypeError, ValueError):
        number = None
    if number is None or not np.isfinite(number) or not accept(number):
        raise InputError(f"{type(law).__name__}: {name}={value!r} is not allowed; give {allowed}")
    if not isinstance(value, jax.Array):
        object.__setattr__(law, name, number)


def positive(law: Any, name: str, meaning: str) -> None:
    """Check and store a parameter that must be above 0."""
    parameter(law, name, f"a finite number above 0, {meaning}", lambda value: value > 0)
