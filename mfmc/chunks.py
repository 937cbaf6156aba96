"""Finished chunks of replications on disk, so that an interrupted run continues where it was.

A chunk is a function of the simulation, its arguments (the key among them) and its indices. Files are named
by exactly these, hence one folder may hold those of many simulations and of several processes at once.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Chunks:
    """A folder of finished chunks. It belongs to one version of the code on one kind of device."""

    folder: Path

    def of(self, simulate: Callable, arguments: Any) -> Chunks:
        """The chunks of one simulation with these arguments."""
        leaves, structure = jax.tree_util.tree_flatten(arguments)
        digest = hashlib.sha256(f"{simulate.__module__}.{simulate.__qualname__} {structure}".encode())
        for leaf in leaves:
            array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
            digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
        return Chunks(self.folder / digest.hexdigest()[:16])

    def read(self, indices: np.ndarray, structure: Callable[[], Any]) -> Any | None:
        """These replications' result if it is there and whole; `structure()` is the kind of tree it is."""
        try:
            with np.load(self._path(indices)) as stored:
                leaves = [stored[f"arr_{i}"] for i in range(len(stored.files))]
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        return jax.tree_util.tree_unflatten(structure(), leaves)

    def once(self, function: Callable[..., Any], *arguments: Any, like: Any) -> Any:
        """`function(*arguments)`, a tree of the kind of `like`: taken from here, else computed and kept here."""
        own, whole = self.of(function, arguments), np.zeros(1, dtype=int)
        result = own.read(whole, lambda: jax.tree_util.tree_structure(like))
        if result is None:
            result = function(*arguments)
            own.write(whole, result)
        return result

    def write(self, indices: np.ndarray, result: Any) -> None:
        """Keep a result: under a temporary name until it is on disk, so that no half of it ever counts."""
        path = self._path(indices)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
        with temporary.open("wb") as file:
            np.savez(file, *jax.tree_util.tree_leaves(result))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def clear(self) -> None:
        """Forget all: the run is over, or starts over."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()  # if no other run has unfinished work there

    def _path(self, indices: np.ndarray) -> Path:
        return self.folder / f"{indices[0]}-{indices[-1]}.npz"


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
