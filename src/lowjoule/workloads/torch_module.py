"""Workloads from "module:function", a function of the user's that builds a `torch.nn.Module`.

The function returns the module, or the module and an example batch for it: a tensor, a tuple of
arguments or a dict of named ones, whose first dimension is the batch. A module in training mode
(PyTorch's default) is counted forward and backward, one in `eval()` mode forward only. One step
runs where the module is; under `torch.device("meta")` nothing is computed, however large it is.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from lowjoule.errors import InvalidValueError, MissingExtraError, UnknownNameError
from lowjoule.knobs import Knob
from lowjoule.workloads.catalogue import batch_knob
from lowjoule.workloads.torch_counting import Counts, bytes_of, count, tensors
from lowjoule.workloads.workload import Workload

# Estimates: a kernel's launch takes some microseconds (host and gap on the device). Adam keeps two
# fp32 moments; once a step it reads the gradient, reads and writes the parameter and both moments.
_LAUNCH_S = 4e-6
_ADAM_STATE_BYTES = 8.0
_ADAM_TRAFFIC_BYTES = 16.0
_ADAM_PASSES = 3.0
_LARGEST_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Built:
    """What the user's function returned: the module, and the example batch where there is one."""

    module: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None

    @property
    def batch(self) -> int | None:
        """The first dimension of the first tensor of the example, None without one."""
        sizes = (int(t.shape[0]) for t in tensors([self.args, self.kwargs or {}]) if t.dim())
        return next(sizes, None)


def load_module(spec: str) -> Workload:
    """Return the workload of the module that `spec` ("module:function") builds.

    Imports the module and calls the function: the user's own code runs, its prints go to
    standard error. As `python -m` would, this first puts the current directory on `sys.path`.
    Without an example batch, or with operators that are not PyTorch's own, operations and traffic
    are not known and stay None.

    Raises `MissingExtraError` without PyTorch, `UnknownNameError` for a missing module or
    function, and `InvalidValueError` where the user's code fails or returns something else.
    """
    module_name, path = _split(spec)
    _need_torch(spec)
    function = _find(module_name, path)
    with contextlib.redirect_stdout(sys.stderr):
        built = _built(spec, _call(spec, function))
        counts = None if built.batch is None else _counted(spec, built)
    return _workload(spec, built, counts)


def _need_torch(spec: str) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            f"the workload {spec} needs PyTorch, which is used where found, never a dependency",
            cure="install it as pytorch.org says for this machine",
        ) from None


def _split(spec: str) -> tuple[str, str]:
    module_name, _, path = spec.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise InvalidValueError(
            f"{spec[:80]!r} does not name a function of a module",
            cure="write it like my_model:build, without .py and brackets",
        )
    return module_name, path


def _find(module_name: str, path: str) -> Callable[[], Any]:
    here: Any = _import(module_name)
    for part in path.split("."):
        if not hasattr(here, part):
            known = [name for name in dir(here) if not name.startswith("_")]
            raise UnknownNameError.among(f"function of {module_name}", path, known)
        here = getattr(here, part)
    if not callable(here):
        raise InvalidValueError(
            f"{module_name}:{path} is {_named(here)}, not a function",
            cure="name a function without arguments that builds the module",
        )
    return here  # type: ignore[no-any-return]


def _import(name: str) -> ModuleType:
    folder = os.getcwd()
    if "" not in sys.path and folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UnknownNameError(
                f"there is no module {name!r} in {folder} or on PYTHONPATH",
                cure="run from its folder",
            ) from error
        raise _failed(f"importing {name}", error) from error
    except (Exception, SystemExit) as error:
        raise _failed(f"importing {name}", error) from error


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}".rstrip(": .")


def _failed(what: str, error: BaseException) -> InvalidValueError:
    return InvalidValueError(f"{what} raised {_told(error)}", cure="mend it and run it again")


def _call(spec: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise _failed(spec, error) from error


def _built(spec: str, returned: Any) -> Built:
    import torch

    module, example = returned, None
    if isinstance(returned, tuple) and len(returned) == 2:
        module, example = returned
    if not isinstance(module, torch.nn.Module):
        raise InvalidValueError(
            f"what {spec} returned is {_named(returned)}",
            cure="return a torch.nn.Module, or the module and an example batch",
        )
    if example is None:
        return Built(module)
    if isinstance(example, Mapping):
        built = Built(module, kwargs=example)
    else:
        built = Built(module, tuple(example) if isinstance(example, list | tuple) else (example,))
    if built.batch is None or built.batch < 1:
        raise InvalidValueError(
            f"the example batch of {spec} is {_named(example)} without a batch of tensors",
            cure="return a tensor, a tuple or a dict of tensors, batch first",
        )
    return built


def _named(value: Any) -> str:
    if isinstance(value, tuple):
        return "a tuple of " + (", ".join(type(one).__name__ for one in value[:4]) or "nothing")
    return "None" if value is None else f"of type {type(value).__name__}"


def _counted(spec: str, built: Built) -> Counts:
    try:
        return count(built.module, built.args, built.kwargs or {})
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"the module of {spec} does not run on its example batch ({_told(error)})",
            cure="return a batch that it takes, and a module in eval() mode if it does not learn",
        ) from error


def _workload(spec: str, built: Built, counts: Counts | None) -> Workload:
    module = built.module
    parameters = list(module.parameters())
    learning = [p for p in parameters if p.requires_grad and module.training]
    precision = _precision(parameters)
    states = _ADAM_STATE_BYTES * _elements(learning)
    bare = Workload(
        name=spec,
        training=bool(module.training),
        parameters=_elements(parameters),
        memory_fixed_bytes=bytes_of([*parameters, *module.buffers(), *learning]) + states,
        compute_unit="vector" if precision in ("fp32", "fp64") else "tensor",
        precision=precision,
        precisions=(precision,),
        description=f"{'Training' if module.training else 'Inference'} of the "
        f"{type(module).__name__} that {spec} builds{_where(spec)}",
    )
    if counts is None:
        return bare
    if counts.opaque:
        unknown = f"not counted: what {', '.join(sorted(counts.opaque))} do inside is not known"
        return replace(bare, knobs=(_batches(built, bare),), sources=(unknown,))
    return _with_counts(bare, built, counts, learning)


def _batches(built: Built, bare: Workload) -> Knob:
    batch = built.batch or 1
    return batch_knob(batch, 1, max(_LARGEST_BATCH, batch), training=bare.training)


def _with_counts(bare: Workload, built: Built, counts: Counts, learning: list[Any]) -> Workload:
    import torch

    batch = built.batch or 1
    example = bytes_of(tensors([built.args, built.kwargs or {}]))
    optimiser = _ADAM_PASSES * bytes_of(learning) + _ADAM_TRAFFIC_BYTES * _elements(learning)
    return replace(
        bare,
        operations=counts.operations / batch,
        memory_traffic_bytes=(counts.traffic_bytes - counts.weight_bytes) / batch,
        step_traffic_bytes=counts.weight_bytes + optimiser,
        overhead_s=counts.operators * _LAUNCH_S,
        memory_per_sample_bytes=(max(counts.saved_bytes, example) + counts.working_bytes) / batch,
        knobs=(_batches(built, bare),),
        sources=(f"counted by PyTorch {torch.__version__} on a batch of {batch}",),
    )


def _where(spec: str) -> str:
    file = getattr(sys.modules.get(spec.partition(":")[0]), "__file__", None)
    return f" ({file})" if file else ""


def _elements(parameters: list[Any]) -> float:
    return float(sum(parameter.numel() for parameter in parameters))


def _precision(parameters: list[Any]) -> str:
    """Return the precision of most parameters, fp32 where there are none."""
    sizes: dict[str, int] = {}
    for parameter in parameters:
        kind = str(parameter.dtype).removeprefix("torch.")
        sizes[kind] = sizes.get(kind, 0) + parameter.numel()
    kind = max(sizes, key=lambda name: sizes[name]) if sizes else "float32"
    short = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16"}
    return short.get(kind, "fp8" if kind.startswith("float8") else kind)
