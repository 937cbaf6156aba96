"""Replications in chunks: bounded memory, every core or device busy, results that do not depend on either.

Replication i draws from `fold_in(key, i)` alone, so chunks, devices and restarts leave no trace in the results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from mfmc.chunks import Chunks
from mfmc.cores import cores
from mfmc.errors import BufferOverflow

#: f(arguments, replication indices, sizes) -> (pytree of arrays [indices, ..], overflow flags [indices])
Simulation = Callable[..., tuple[Any, jax.Array]]

#: Replications of a chunk at most.
_LARGEST_CHUNK = {"cpu": 2048, "gpu": 1 << 16}
#: Buffers of a chunk on a CPU: larger ones leave the caches, and XLA then splits every step among its threads, which
#: costs more than it gains where they have chunks of their own (measured: half the speed at 10 times this).
_CPU_CHUNK_BYTES = 76 << 20
#: Large chunks are multiples of this, so that they can be worked on in equal parts.
_EQUAL_PARTS = 64


@dataclass(frozen=True)
class Replicator:
    """How replications are run. None of this changes their results."""

    memory_gib: float = 1.0  # bounds the buffers of all chunks in flight
    chunk: int | None = None  # replications at a time; None: as many as the memory allows
    devices: tuple[jax.Device, ...] = ()  # shared among these by shard_map; empty: JAX's first device
    progress: Callable[[int], Any] | None = None  # told of every chunk's size when it is done
    chunks: Chunks | None = None  # finished chunks are kept here, and taken from here
    notice: Callable[[str], Any] = warnings.warn  # told, in a line, when memory did not suffice

    def run(
        self, simulate: Simulation, arguments: Any, sizes: Any, replications: int, bytes_each: int,
        grow: Callable[[Any], Any],
    ) -> Any:
        """Results of replications 0 .. replications - 1 as NumPy arrays.

        `sizes` is static and hashable. Buffers have fixed sizes; a chunk that overflows them is drawn again, bit for
        bit, with `grow(sizes)`, and so are the chunks after it.
        """
        used = self.devices or (jax.local_devices()[0],)
        devices = len(used)
        in_flight = self._in_flight()
        affordable = int(self.memory_gib * 2**30 / in_flight / max(bytes_each, 1))
        most = min(affordable, _LARGEST_CHUNK.get(self.platform, 1 << 16) * devices)
        if self.platform == "cpu":
            most = min(most, _CPU_CHUNK_BYTES // bytes_each * devices)
        most = max(1, most)
        # As many chunks as fill every round, so that no core waits for the last one.
        rounds = -(-replications // (most * in_flight))
        chunk = self.chunk or -(-replications // (rounds * in_flight))
        unit = devices * (_EQUAL_PARTS if self.chunk is None and chunk > _EQUAL_PARTS * devices else 1)
        chunk = unit * -(-chunk // unit)
        kept = self.chunks.of(simulate, arguments) if self.chunks else None
        arguments = jax.device_put(arguments, used[0] if devices == 1 else None)
        serving = _Serving(simulate, arguments, self.devices, kept, grow, sizes)
        results: list[Any] = []
        done = 0
        while done < replications:
            try:
                with ThreadPoolExecutor(in_flight) as pool:
                    starts = range(done, replications, chunk)
                    chunks = [np.arange(i, min(i + chunk, replications)) for i in starts]
                    for indices, result in zip(chunks, pool.map(partial(serving.one, chunk), chunks)):
                        results.append(result)
                        done += len(indices)
                        if self.progress:
                            self.progress(len(indices))
            except (MemoryError, jax.errors.JaxRuntimeError) as error:
                if not out_of_memory(error) or chunk == devices:
                    raise
                chunk = devices * max(1, chunk // devices // 2)
                self.notice(
                    f"out of memory: goes on with chunks of {chunk} replications (runtime.memory_gib bounds them)"
                )
        return jax.tree_util.tree_map(lambda *parts: np.concatenate(parts), *results)

    def _in_flight(self) -> int:
        if len(self.devices) > 1:
            return 1
        return cores() if self.platform == "cpu" else 2

    @property
    def platform(self) -> str:
        """That of the devices in use: cpu, gpu, .."""
        return (self.devices or jax.local_devices())[0].platform


@dataclass
class _Serving:
    """One simulation on its way: chunks from disk where they are kept, else computed."""

    simulate: Simulation
    arguments: Any
    devices: tuple[jax.Device, ...]
    kept: Chunks | None
    grow: Callable[[Any], Any]
    sizes: Any  # that served so far

    def one(self, chunk: int, indices: np.ndarray) -> Any:
        """The result of these replications, at most `chunk`."""
        # All chunks have one shape, so that one program serves them all.
        padded = jnp.asarray(np.resize(indices, chunk))
        if self.kept and (found := self.kept.read(indices, partial(self._structure, padded))) is not None:
            return found
        for _ in range(8):
            attempt = self.sizes
            result, overflow = _program(self.simulate, attempt, self.devices)(self.arguments, padded)
            if not bool(np.any(overflow)):
                result = jax.tree_util.tree_map(lambda x: np.asarray(x)[: len(indices)], result)
                if self.kept:
                    self.kept.write(indices, result)
                return result
            if self.sizes == attempt:
                self.sizes = self.grow(attempt)
        raise BufferOverflow(
            f"replications {indices[0]} to {indices[-1]} overflow even buffers of {self.sizes}; "
            "choose a shorter horizon or a smaller capacity"
        )

    def _structure(self, padded: jax.Array) -> Any:
        shapes, _ = _program(self.simulate, self.sizes, self.devices).eval_shape(self.arguments, padded)
        return jax.tree_util.tree_structure(shapes)


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


@lru_cache(maxsize=64)
def _program(simulate: Simulation, sizes: Any, devices: tuple[jax.Device, ...]) -> Any:
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
