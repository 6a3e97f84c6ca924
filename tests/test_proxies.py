"""The benchmark's proxies: their counts are those that PyTorch counts as they run."""

from __future__ import annotations

import pytest

from lowjoule.workloads.proxies import PROXIES, Proxy, workload_of
from lowjoule.workloads.torch_counting import count_step

torch = pytest.importorskip("torch", reason="PyTorch is found, never a dependency")

# operators whose numbers are not all of the width of the network: statistics of norms and softmax
_BYTES = {"proxy-transformer-training": 0.02, "proxy-transformer-inference": 0.02}


@pytest.mark.parametrize("kind", PROXIES.values(), ids=lambda kind: kind.name)
def test_its_counts_are_exact(kind: type[Proxy]) -> None:
    work = workload_of(kind, "fp32", gpu=False)
    assert work.operations is not None
    assert work.memory_traffic_bytes is not None
    for batch in (1, 3):
        proxy = kind(batch, torch.device("cpu"), torch.float32)
        proxy.step()
        found = count_step(proxy.step)
        assert found.operations == work.operations * batch
        expected = work.memory_traffic_bytes * batch + work.step_traffic_bytes
        tolerance = _BYTES.get(kind.name, 0.005)
        assert found.traffic_bytes == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("kind", PROXIES.values(), ids=lambda kind: kind.name)
def test_parameters_are_those_of_the_module(kind: type[Proxy]) -> None:
    proxy = kind(1, torch.device("cpu"), torch.float32)
    module = getattr(proxy, "_module", None)
    if module is not None:
        assert kind.counted(4.0).parameters == sum(p.numel() for p in module.parameters())


def test_a_training_learns_and_an_inference_does_not() -> None:
    for name in ("cnn", "transformer"):
        for mode in ("training", "inference"):
            proxy = PROXIES[f"proxy-{name}-{mode}"](1, torch.device("cpu"), torch.float32)
            module = proxy._module  # type: ignore[attr-defined]
            before = [one.clone() for one in module.parameters()]
            for _ in range(3):
                proxy.step()
            moved = [bool((a != b).any()) for a, b in zip(before, module.parameters(), strict=True)]
            assert any(moved) is (mode == "training")
            assert all(bool(one.isfinite().all()) for one in module.parameters())


def test_precision_halves_the_bytes_and_not_the_operations() -> None:
    for kind in PROXIES.values():
        wide, narrow = (workload_of(kind, p, gpu=True) for p in ("fp32", "bf16"))
        assert wide.operations == narrow.operations
        assert wide.step_traffic_bytes == 2 * narrow.step_traffic_bytes
        assert wide.signature != narrow.signature
        batch = narrow.knobs[0]
        assert (batch.values[0], batch.default) == (kind.on_gpu.least, kind.on_gpu.default)
