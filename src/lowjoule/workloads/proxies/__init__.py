"""Proxies: small pieces of training and inference whose operations and bytes are known.

They run in PyTorch, on a GPU or a CPU, and stand for the work that a device will be given.
"""

from lowjoule.workloads.proxies.kernels import Attention, Convolution, Copy, Embedding, Gemm
from lowjoule.workloads.proxies.networks import (
    CnnInference,
    CnnTraining,
    TransformerInference,
    TransformerTraining,
)
from lowjoule.workloads.proxies.proxy import Counted, Proxy, Range, need_torch, workload_of

PROXIES: dict[str, type[Proxy]] = {
    kind.name: kind
    for kind in (
        Gemm,
        Convolution,
        Attention,
        Embedding,
        Copy,
        CnnTraining,
        TransformerTraining,
        CnnInference,
        TransformerInference,
    )
}
"""The proxies by name, in the order in which a benchmark runs them."""

__all__ = [
    "PROXIES",
    "Attention",
    "CnnInference",
    "CnnTraining",
    "Convolution",
    "Copy",
    "Counted",
    "Embedding",
    "Gemm",
    "Proxy",
    "Range",
    "TransformerInference",
    "TransformerTraining",
    "need_torch",
    "workload_of",
]
