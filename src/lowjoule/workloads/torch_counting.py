"""What one step of a `torch.nn.Module` does: operations, traffic and memory, counted as it runs.

Operations are counted by PyTorch's own `torch.utils.flop_counter.FlopCounterMode`: those of
matrix products, convolutions and attention, a multiply-add as two; elementwise work and look-ups
are traffic alone. Traffic is what each operator of the eager module reads and writes, which a
compiler may lower by fusing some.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_OWN = frozenset({"aten", "prim", "prims"})


@dataclass(slots=True)
class Counts:
    """One step on one example batch, in operations and bytes.

    `weight_bytes` is the part of `traffic_bytes` that reads parameters and writes their
    gradients. `saved_bytes` is what a training keeps for its backward pass, `working_bytes` the
    most that one operator holds; both without parameters. `operators` counts those that move
    data, each a kernel launch. `opaque` names operators that are not PyTorch's own (packed
    quantised layers, kernels of other libraries): what they do inside cannot be told.
    """

    operations: float = 0.0
    traffic_bytes: float = 0.0
    weight_bytes: float = 0.0
    saved_bytes: float = 0.0
    working_bytes: float = 0.0
    operators: int = 0
    opaque: set[str] = field(default_factory=set)
    seen: set[int] = field(default_factory=set, repr=False)


def count(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Counts:
    """Run one step of `module` and return its counts; backward too where it is in training mode.

    Raises whatever the module raises, and `ValueError` where a module in training mode gives
    nothing to differentiate.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    parameters = list(module.parameters())
    weights = {_storage(p) for p in parameters}
    counts = Counts()
    counter = FlopCounterMode(display=False, custom_mapping=_cpu_attention())
    keep: list[Any] = []  # a freed tensor's storage may come back under another's identity

    def pack(tensor: Any) -> Any:
        if _storage(tensor) not in weights | counts.seen:
            counts.seen.add(_storage(tensor))
            counts.saved_bytes += tensor.untyped_storage().nbytes()
            keep.append(tensor)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with _countable(module), counter, _traffic_mode(counts, weights):
        if not module.training:
            with torch.no_grad():
                module(*args, **kwargs)
        else:
            with hooks:
                output = module(*args, **kwargs)
            _backward(output)
            counts.weight_bytes += sum(_bytes(p.grad) for p in parameters if p.grad is not None)
    counts.operations = float(counter.get_total_flops())
    return counts


def count_step(step: Callable[[], object]) -> Counts:
    """Run `step` and return the operations and the traffic of all that PyTorch does in it."""
    from torch.utils.flop_counter import FlopCounterMode

    counts = Counts()
    counter = FlopCounterMode(display=False, custom_mapping=_cpu_attention())
    with counter, _traffic_mode(counts, set()):
        step()
    counts.operations = float(counter.get_total_flops())
    return counts


def tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors in nested tuples, lists and mappings, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors(one)


def _backward(output: Any) -> None:
    losses = [t.sum() for t in tensors(output) if t.requires_grad]
    if not losses:
        raise ValueError("nothing in its output can be differentiated")
    sum(losses[1:], start=losses[0]).backward()


@contextlib.contextmanager
def _countable(module: Any) -> Iterator[None]:
    """Keep PyTorch from taking fused ways on the CPU that its counter does not know."""
    import torch

    fast = torch.backends.mha.get_fastpath_enabled()
    recurrent = any(isinstance(one, torch.nn.RNNBase) for one in module.modules())
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        if recurrent:
            was = torch._C._get_mkldnn_enabled()
            stack.callback(torch._C._set_mkldnn_enabled, was)
            torch._C._set_mkldnn_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


def _cpu_attention() -> dict[Any, Callable[..., int]]:
    """Return how the CPU's fused attention is counted: as the counter does the GPU's."""
    import torch
    from torch.utils import flop_counter

    name = "_scaled_dot_product_flash_attention_for_cpu"
    kinds = ((name, flop_counter.sdpa_flop), (f"{name}_backward", flop_counter.sdpa_backward_flop))

    def counted(flop: Callable[..., int]) -> Callable[..., int]:
        def raw(*args: Any, **kwargs: Any) -> int:
            return flop(*args, **kwargs)

        # `flop` takes the tensors' shapes itself: the counter is not to do it once more
        raw._get_raw = True  # type: ignore[attr-defined]
        return raw

    return {getattr(torch.ops.aten, kind): counted(flop) for kind, flop in kinds}


def _traffic_mode(counts: Counts, weights: set[int]) -> Any:
    """Return a context that adds what each operator reads and writes to `counts`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class TrafficMode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func.namespace not in _OWN:
                counts.opaque.add(str(func._schema.name))
            read = list(tensors([args, kwargs or {}]))
            written = list(tensors(result))
            if _moves(func, read, written):
                _add(counts, weights, _read(func, read, written), written)
            return result

    return TrafficMode()


def _moves(func: Any, read: list[Any], written: list[Any]) -> bool:
    """Whether an operator touches data, rather than making a view or room."""
    if not written or "empty" in func._schema.name:
        return False
    sources = {_storage(tensor) for tensor in read}
    return bool(func._schema.is_mutable) or any(_storage(t) not in sources for t in written)


def _read(func: Any, read: list[Any], written: list[Any]) -> list[Any]:
    """Return what an operator really reads: of its table, a look-up no more than it gives."""
    return [*written, *read[1:]] if func._schema.name == "aten::embedding" else read


def _add(counts: Counts, weights: set[int], read: list[Any], written: list[Any]) -> None:
    moved = sum(_bytes(tensor) for tensor in (*read, *written))
    of_weights = sum(_bytes(tensor) for tensor in read if _storage(tensor) in weights)
    counts.traffic_bytes += moved
    counts.weight_bytes += of_weights
    counts.working_bytes = max(counts.working_bytes, moved - of_weights)
    counts.operators += 1


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes(tensor: Any) -> float:
    return float(tensor.numel() * tensor.element_size())


def bytes_of(many: Iterable[Any]) -> float:
    """Return the bytes of some tensors' elements."""
    return sum(_bytes(tensor) for tensor in many)
