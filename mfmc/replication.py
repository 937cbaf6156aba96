"""Replications in chunks: bounded memory, every core or device busy, results that do not depend on either.

Replication i draws from `fold_in(key, i)` alone, so chunks, devices and restarts leave no trace in the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from mfmc.errors import BufferOverflow

#: f(arguments, replication indices, sizes) -> (pytree of arrays [indices, ..], overflow flags [indices])
Simulation = Callable[..., tuple[Any, jax.Array]]

_LARGEST_CHUNK = 2048


@dataclass(frozen=True)
class Replicator:
    """How replications are run. None of this changes their results."""

    memory_gib: float = 1.0  # bounds the buffers of all chunks in flight
    threads: int | None = None  # chunks in flight; None: a core each on a CPU, 2 on other devices
    chunk: int | None = None  # replications at a time; None: as many as the memory allows
    devices: tuple[jax.Device, ...] = ()  # shared among these by shard_map; empty: JAX's default device
    progress: Callable[[int], Any] | None = None  # told of every chunk's size when it is done

    def run(
        self, simulate: Simulation, arguments: Any, sizes: Any, replications: int, bytes_each: int,
        grow: Callable[[Any], Any],
    ) -> Any:
        """Results of replications 0 .. replications - 1 as NumPy arrays.

        `sizes` is static and hashable. Buffers have fixed sizes; a chunk that overflows them is drawn again, bit for
        bit, with `grow(sizes)`, and so are the chunks after it.
        """
        devices = max(1, len(self.devices))
        in_flight = self._in_flight()
        affordable = int(self.memory_gib * 2**30 / in_flight / max(bytes_each, 1))
        share = -(-replications // (in_flight * devices)) * devices
        chunk = self.chunk or min(affordable, share, _LARGEST_CHUNK * devices)
        chunk = devices * max(1, chunk // devices)
        chunks = [np.arange(i, min(i + chunk, replications)) for i in range(0, replications, chunk)]
        arguments = jax.device_put(arguments, None if self.devices else jax.local_devices()[0])
        largest = [sizes]  # the sizes that served so far

        def one(indices: np.ndarray) -> Any:
            # All chunks have one shape, so that one program serves them all.
            padded = jnp.asarray(np.resize(indices, chunk))
            for _ in range(8):
                attempt = largest[0]
                result, overflow = _program(simulate, attempt, self.devices)(arguments, padded)
                if not bool(np.any(overflow)):
                    return jax.tree_util.tree_map(lambda x: np.asarray(x)[: len(indices)], result)
                if largest[0] == attempt:
                    largest[0] = grow(attempt)
            raise BufferOverflow(
                f"replications {indices[0]} to {indices[-1]} overflow even buffers of {largest[0]}; "
                "choose a shorter horizon or a smaller capacity"
            )

        results = []
        with ThreadPoolExecutor(in_flight) as pool:
            for indices, result in zip(chunks, pool.map(one, chunks)):
                results.append(result)
                if self.progress:
                    self.progress(len(indices))
        return jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *results)

    def _in_flight(self) -> int:
        if len(self.devices) > 1:
            return 1
        if self.threads:
            return self.threads
        return len(os.sched_getaffinity(0)) if jax.default_backend() == "cpu" else 2


@lru_cache(maxsize=64)
def _program(simulate: Simulation, sizes: Any, devices: tuple[jax.Device, ...]) -> Callable:
    """`simulate` at these sizes, compiled once: on one device, or with the replications sharded over several."""
    function = partial(simulate, sizes=sizes)
    if len(devices) <= 1:
        return jax.jit(function)
    mesh = Mesh(np.array(devices), ("replication",))
    everywhere, split = PartitionSpec(), PartitionSpec("replication")
    # No replication collectives occur inside, so the check of what varies over the mesh has nothing to find.
    return jax.jit(
        jax.shard_map(
            function, mesh=mesh, in_specs=(everywhere, split), out_specs=(split, split), check_vma=False
        )
    )
