"""Proxies of small networks, trained and used: operators of several kinds in a row.

Weights have the precision of the activations, and the optimiser is plain SGD, so that bytes can be
counted: a training step reads each weight forward and backward, writes its gradient, and reads
gradient and weight and writes the weight to learn. Of activations, see each network.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lowjoule.workloads.proxies.proxy import Counted, Proxy, Range

_STEP = 6.0  # times that a training step moves a weight
_RATE = 1e-6  # small: weights must stay finite through a million steps


class _Network(Proxy):
    """A network on an example, trained or not.

    `_made` returns the module and its input.
    """

    def __init__(self, batch: int, place: Any, kind: Any) -> None:
        import torch

        module, self._x = self._made(batch, place, kind)
        self._module = module.to(device=place, dtype=kind).train(self.training)
        for one in self._module.parameters():
            one.requires_grad_(self.training)
        with torch.no_grad():
            self._gradient = torch.full_like(self._module(self._x), 1e-3)
        learning = [one for one in self._module.parameters() if one.requires_grad]
        self._optimiser = torch.optim.SGD(learning, lr=_RATE) if learning else None

    @classmethod
    def _made(cls, batch: int, place: Any, kind: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    def step(self) -> None:
        """Go forward once, and where it trains backward, and learn."""
        output = self._module(self._x)
        if self._optimiser is not None:
            output.backward(self._gradient)
            self._optimiser.step()
            self._optimiser.zero_grad(set_to_none=True)


class _Cnn(_Network):
    """Three 3 x 3 convolutions with rectifiers and a classifier, on 32 x 32 images.

    Of a hidden activation a rectified convolution moves 4 times its size forward (written,
    rectified, read on) and 6 backward (gradient of the next layer written, weights' gradient
    reads it, the rectifier reads two and writes one, the own gradient read).
    """

    model = "proxy-cnn"
    on_gpu = Range(16, 512, 4096)
    on_cpu = Range(1, 8, 32)
    side: ClassVar[int] = 32
    channels: ClassVar[tuple[int, ...]] = (3, 64, 64, 128)
    classes: ClassVar[int] = 10

    @classmethod
    def _made(cls, batch: int, place: Any, kind: Any) -> tuple[Any, Any]:
        import torch
        from torch import nn

        layers: list[Any] = []
        for number, (inside, out) in enumerate(zip(cls.channels, cls.channels[1:], strict=False)):
            stride = cls._stride(number)
            layers.append(nn.Conv2d(inside, out, 3, padding=1, stride=stride, bias=False))
            layers.append(nn.ReLU())
        layers += [nn.Flatten(), nn.Linear(int(cls._hidden()[-1]), cls.classes, bias=False)]
        shape = (batch, cls.channels[0], cls.side, cls.side)
        return nn.Sequential(*layers), torch.randn(shape, device=place, dtype=kind)

    @classmethod
    def _stride(cls, number: int) -> int:
        return 2 if number == len(cls.channels) - 2 else 1

    @classmethod
    def _hidden(cls) -> list[float]:
        """Return the sizes of what the convolutions write."""
        sides = [cls.side // cls._stride(n) for n in range(len(cls.channels) - 1)]
        return [float(c * s**2) for c, s in zip(cls.channels[1:], sides, strict=True)]

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: backward costs twice forward, but for the image, without gradient."""
        hidden = cls._hidden()
        forward = [2 * 9.0 * c * h for c, h in zip(cls.channels, hidden, strict=False)]
        last = 2 * hidden[-1] * cls.classes
        weights = sum(9.0 * a * b for a, b in zip(cls.channels, cls.channels[1:], strict=False))
        weights += hidden[-1] * cls.classes
        image = float(cls.channels[0] * cls.side**2)
        if cls.training:
            operations = 2 * forward[0] + 3 * (sum(forward[1:]) + last)
            numbers = 2 * image + 10 * sum(hidden) + 3 * cls.classes
        else:
            operations = sum(forward) + last
            numbers = image + 4 * sum(hidden) + cls.classes
        return Counted(
            operations=operations,
            sample_bytes=numbers * width_bytes,
            step_bytes=(_STEP if cls.training else 1.0) * weights * width_bytes,
            parameters=weights,
        )


class CnnTraining(_Cnn):
    """A training step of the small convolutional network."""

    name = "proxy-cnn-training"
    description = "A training step of three convolutions on 32 x 32 images"
    training = True


class CnnInference(_Cnn):
    """The same forward alone."""

    name = "proxy-cnn-inference"
    description = "Inference of three convolutions on 32 x 32 images"


class _Transformer(_Network):
    """Two pre-norm blocks of width 512 with 8 heads, on 128 tokens.

    In units of the width, a token of a block moves 38 numbers forward (two norms 2 each, query,
    key and value 4, attention 4, projection 2, feed-forward 5 + 8 + 5, two sums 3 each) and 70
    backward: 4 less in the first block, whose input needs no gradient.
    """

    model = "proxy-transformer"
    on_gpu = Range(2, 64, 512)
    on_cpu = Range(1, 1, 4)
    blocks: ClassVar[int] = 2
    width: ClassVar[int] = 512
    heads: ClassVar[int] = 8
    tokens: ClassVar[int] = 128

    @classmethod
    def _made(cls, batch: int, place: Any, kind: Any) -> tuple[Any, Any]:
        import torch
        from torch import nn

        module = nn.Sequential(*(_block(cls.width, cls.heads) for _ in range(cls.blocks)))
        shape = (batch, cls.tokens, cls.width)
        return module, torch.randn(shape, device=place, dtype=kind)

    @classmethod
    def counted(cls, width_bytes: float) -> Counted:
        """Return the counts: attention forgets its scores, so backward makes them once more."""
        d, tokens = float(cls.width), float(cls.tokens)
        dense, attention = 24 * d * d, 4 * tokens * d
        weights = cls.blocks * (12 * d * d + 4 * d)
        if cls.training:
            operations, numbers = 3 * dense + 3.5 * attention, 108.0 - 4.0 / cls.blocks
        else:
            operations, numbers = dense + attention, 38.0
        return Counted(
            operations=cls.blocks * tokens * operations,
            sample_bytes=cls.blocks * tokens * numbers * d * width_bytes,
            step_bytes=(_STEP if cls.training else 1.0) * weights * width_bytes,
            parameters=weights,
        )


def _block(width: int, heads: int) -> Any:
    from torch import Tensor, nn
    from torch.nn.functional import gelu, scaled_dot_product_attention

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.all = nn.Linear(width, 3 * width, bias=False)
            self.projection = nn.Linear(width, width, bias=False)
            self.up = nn.Linear(width, 4 * width, bias=False)
            self.down = nn.Linear(4 * width, width, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            parts = self.all(self.norms[0](x)).unflatten(-1, (3, heads, -1))
            q, k, v = (one.transpose(1, 2) for one in parts.unbind(2))
            seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + self.projection(seen)
            return x + self.down(gelu(self.up(self.norms[1](x))))

    return Block()


class TransformerTraining(_Transformer):
    """A training step of the small Transformer."""

    name = "proxy-transformer-training"
    description = "A training step of two Transformer blocks of width 512 on 128 tokens"
    training = True


class TransformerInference(_Transformer):
    """The same forward alone."""

    name = "proxy-transformer-inference"
    description = "Inference of two Transformer blocks of width 512 on 128 tokens"
