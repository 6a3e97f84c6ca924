"""Proxies of one operator: what inference spends its time in."""

from __future__ import annotations

from typing import Any, ClassVar

from lowjoule.workloads.proxies.proxy import Counted, Proxy, Range


class Gemm(Proxy):
    """A dense layer: (batch, 4096) x (4096, 4096)."""

    name = "proxy-gemm"
    description = "A matrix product of batch x 4096 x 4096"
    on_gpu = Range(16, 4096, 16384)
    on_cpu = Range(1, 16, 64)
    width: ClassVar[int] = 4096

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        self._x = torch.randn(batch, self.width, device=place, dtype=kind)
        self._w = torch.randn(self.width, self.width, device=place, dtype=kind)

    def step(self) -> None:
        """Multiply once."""
        self._x @ self._w

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: 2 n^2 operations a sample, the weights once a step."""
        n = float(cls.width)
        return Counted(
            operations=2 * n * n,
            sample_bytes=2 * n * width_bytes,
            step_bytes=n * n * width_bytes,
            parameters=n * n,
        )


class Convolution(Proxy):
    """A 3 x 3 convolution of 64 channels at 56 x 56, as in a ResNet."""

    name = "proxy-convolution"
    description = "A 3 x 3 convolution of 64 to 64 channels at 56 x 56"
    on_gpu = Range(4, 128, 512)
    on_cpu = Range(1, 2, 8)
    channels: ClassVar[int] = 64
    side: ClassVar[int] = 56

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        shape = (batch, self.channels, self.side, self.side)
        self._x = torch.randn(shape, device=place, dtype=kind)
        shape = (self.channels, self.channels, 3, 3)
        self._w = torch.randn(shape, device=place, dtype=kind)

    def step(self) -> None:
        """Convolve once."""
        from torch.nn.functional import conv2d

        conv2d(self._x, self._w, padding=1)

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: each of the outputs takes 9 multiply-adds a channel."""
        weights = 9.0 * cls.channels**2
        pixels = float(cls.side**2)
        return Counted(
            operations=2 * weights * pixels,
            sample_bytes=2 * cls.channels * pixels * width_bytes,
            step_bytes=weights * width_bytes,
            parameters=weights,
        )


class Attention(Proxy):
    """Fused attention of 16 heads of 64 over 512 tokens."""

    name = "proxy-attention"
    description = "Scaled dot-product attention, 16 heads of 64 over 512 tokens"
    on_gpu = Range(1, 32, 256)
    on_cpu = Range(1, 1, 4)
    heads: ClassVar[int] = 16
    tokens: ClassVar[int] = 512
    head_width: ClassVar[int] = 64

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        shape = (batch, self.heads, self.tokens, self.head_width)
        self._q, self._k, self._v = (torch.randn(shape, device=place, dtype=kind) for _ in range(3))

    def step(self) -> None:
        """Attend once."""
        from torch.nn.functional import scaled_dot_product_attention

        scaled_dot_product_attention(self._q, self._k, self._v)

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: two products of tokens^2 x width; scores stay on the chip."""
        width = float(cls.heads * cls.head_width)
        return Counted(
            operations=4 * cls.tokens**2 * width,
            sample_bytes=4 * cls.tokens * width * width_bytes,
            step_bytes=0.0,
            parameters=0.0,
        )


class Embedding(Proxy):
    """64 look-ups a sample in a table of a million rows of 64, larger than caches."""

    name = "proxy-embedding"
    description = "64 look-ups in a table of 1,048,576 rows of 64"
    matrix = False
    on_gpu = Range(64, 4096, 65536)
    on_cpu = Range(16, 256, 2048)
    rows: ClassVar[int] = 2**20
    width: ClassVar[int] = 64
    looked_up: ClassVar[int] = 64

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        self._table = torch.zeros(self.rows, self.width, device=place, dtype=kind)
        self._at = torch.randint(self.rows, (batch, self.looked_up), device=place)

    def step(self) -> None:
        """Look up once."""
        from torch.nn.functional import embedding

        embedding(self._at, self._table)

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: rows read and written, and indices of 8 bytes; no arithmetic."""
        each = 2 * cls.width * width_bytes + 8.0
        return Counted(
            operations=0.0,
            sample_bytes=cls.looked_up * each,
            step_bytes=0.0,
            parameters=float(cls.rows * cls.width),
        )


class Copy(Proxy):
    """A copy of a million numbers a sample: memory and nothing else."""

    name = "proxy-copy"
    description = "A copy of 1,048,576 numbers"
    matrix = False
    on_gpu = Range(1, 64, 512)
    on_cpu = Range(1, 8, 32)
    numbers: ClassVar[int] = 2**20

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        self._x = torch.zeros(batch, self.numbers, device=place, dtype=kind)

    def step(self) -> None:
        """Copy once."""
        self._x.clone()

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: every number is read and written."""
        return Counted(
            operations=0.0,
            sample_bytes=2 * cls.numbers * width_bytes,
            step_bytes=0.0,
            parameters=0.0,
        )
