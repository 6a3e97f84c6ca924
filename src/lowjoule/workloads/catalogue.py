"""The workloads that lowjoule knows by name, from `catalogue.toml`, and those of a module."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from lowjoule.errors import UnknownNameError
from lowjoule.knobs import BATCH_SIZE, Knob, Scope, standard_knob
from lowjoule.workloads.work import Work, WorkUnit
from lowjoule.workloads.workload import Workload

# A backward pass takes two products where the forward pass takes one: the gradient with respect
# to the input and to the weights.
_TRAINING_PASSES = 3.0


def names() -> tuple[str, ...]:
    """Return the names of the catalogue's workloads, in its order."""
    return tuple(_entries())


def load(name: str) -> Workload:
    """Return the workload called `name`, an alias of it, or the one that "module:function" builds.

    Raises `UnknownNameError` for a name that is not in the catalogue, and for a module what
    `lowjoule.workloads.torch_module.load_module` raises.
    """
    if ":" in name:
        from lowjoule.workloads.torch_module import load_module

        return load_module(name)
    known = {key: key for key in _entries()} | {
        alias: key for key, entry in _entries().items() for alias in entry.get("aliases", ())
    }
    if name not in known:
        raise UnknownNameError.among("workload", name, known)
    return _workload(known[name])


def batch_knob(default: int, low: int, high: int, *, training: bool) -> Knob:
    """Return the batch size's knob: the powers of two from `low` to `high`, and `default`.

    Between the steps of an inference the batch may change freely; a training learns otherwise.
    """
    powers = [2**n for n in range(high.bit_length()) if low <= 2**n <= high]
    knob = standard_knob(BATCH_SIZE, [*powers, default], default)
    return knob if training else replace(knob, scope=Scope.STEP, changes_learning=False)


@cache
def _entries() -> dict[str, dict[str, Any]]:
    import tomllib
    from importlib.resources import files

    text = files("lowjoule.workloads").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _workload(name: str) -> Workload:
    entry = dict(_entries()[name])
    entry.pop("aliases", None)
    training = bool(entry["training"])
    unit = WorkUnit(entry.pop("unit"))
    forward = float(entry.pop("forward_operations"))
    low, high = entry.pop("batch_range")
    return Workload(
        name=name,
        unit=unit,
        operations=forward * (_TRAINING_PASSES if training else 1.0),
        knobs=(batch_knob(entry.pop("batch"), low, high, training=training),),
        job=Work(float(entry.pop("job")), unit),
        precisions=tuple(entry.pop("precisions")),
        sources=tuple(entry.pop("sources")),
        **entry,
    )
