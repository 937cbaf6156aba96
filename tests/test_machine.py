"""What a run asks of the machine holds while it runs, and leaves nothing behind."""

from __future__ import annotations

import os
from dataclasses import fields
from types import SimpleNamespace

import jax
import numba
import pytest
from numba.core.caching import CompileResultCacheImpl

from mfmc.config.machine import prepared
from mfmc.config.schema import RuntimeSection
from mfmc.cores import cores
from mfmc.errors import InputError
from mfmc.lru.compiled import compiled


def runtime(**changes):
    every = dict.fromkeys((field.name for field in fields(RuntimeSection)), None)
    return SimpleNamespace(**every | {"precision": "float64", "platform": "auto"} | changes)


def all_that_a_run_may_change():
    return dict(os.environ), {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_platforms")}


@pytest.mark.parametrize("changes", [{"threads": 1}, {"devices": 1}, {"precision": "float32"}, {"platform": "cpu"}])
def test_a_run_leaves_the_process_as_it_was(changes, monkeypatch):
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    before = all_that_a_run_may_change()
    with prepared(runtime(**changes)):
        assert all_that_a_run_may_change() != before or changes == {"platform": "cpu"}
    assert all_that_a_run_may_change() == before


def test_a_run_that_is_refused_leaves_it_too():
    before = all_that_a_run_may_change()
    with pytest.raises(InputError, match=r"runtime\.devices=64"), prepared(runtime(devices=64, threads=1)):
        pass
    assert all_that_a_run_may_change() == before


def test_threads_bound_the_cores_in_use_whatever_already_runs(monkeypatch):
    """numba reads its environment again at every compilation, and refuses another size of its own pool."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    numba.get_num_threads()  # starts the pool
    seen = []
    for threads in (None, 1, None):
        with prepared(runtime(threads=threads)):
            seen.append(cores())
            assert numba.njit(lambda x: x + 1)(1) == 2
    assert seen == [cores(), 1, cores()]


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("1,4", 1), ("0", 1), ("many", None), ("100000", None)])
def test_the_environment_of_numpys_libraries_bounds_the_cores(value, expected, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    everything = cores()
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert cores() == (expected or everything)


def test_kernels_are_compiled_where_no_folder_can_keep_them(monkeypatch):
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    assert compiled(lambda x: x + 1)(1) == 2
