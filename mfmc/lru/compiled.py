"""What numba compiles: kernels without the interpreter's lock, kept on disk between runs where that is possible."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit


def compiled(function: Callable) -> Callable:
    """The function, to be compiled when it is first called.

    numba refuses to keep programs where neither the package's folder nor the user's cache can be written (containers,
    compute nodes); every process then compiles its own.
    """
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
