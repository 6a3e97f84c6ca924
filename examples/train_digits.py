"""A small network learns handwritten digits, tuned while it learns.

    python examples/train_digits.py                      trained twice: as it is, and tuned
    python examples/train_digits.py --no-tune            as it is
    python examples/train_digits.py --device nvml:0      the GPU itself, where it may be set

Without a GPU a simulated one takes its place: the network is trained on the CPU, and beside it
the simulated card runs `--workload` with the same batches, in real time. What is tuned is the
card alone, so the weights learned are the same to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterable, Iterator

import torch
from sklearn.datasets import load_digits
from torch import nn

import lowjoule as lj
from lowjoule.reports.tuning import tuning_sentences, tuning_table

BATCH = 64
Batch = tuple[torch.Tensor, torch.Tensor]


class Digits:
    """The data that come with scikit-learn: 1797 images of 8 x 8, a fifth kept for the test."""

    def __init__(self, place: torch.device) -> None:
        bunch = load_digits()
        order = torch.randperm(len(bunch.target), generator=torch.Generator().manual_seed(0))
        images = torch.tensor(bunch.images[order.numpy()], dtype=torch.float32)[:, None] / 16
        labels = torch.tensor(bunch.target[order.numpy()])
        cut = len(labels) * 4 // 5
        self.train = (images[:cut].to(place), labels[:cut].to(place))
        self.test = (images[cut:].to(place), labels[cut:].to(place))

    def __len__(self) -> int:
        return len(self.train[1]) // BATCH * BATCH

    def batches(self, epoch: int) -> Iterator[Batch]:
        images, labels = self.train
        random = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(labels), generator=random)[: len(self)]
        for rows in order.to(labels.device).split(BATCH):
            yield images[rows], labels[rows]


class Plain:
    """What the tuner is to the loop when nothing is tuned."""

    def steps(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        return batches


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def train(digits: Digits, place: torch.device, epochs: int, tuner: Plain | lj.Tuner) -> nn.Module:
    """A plain training loop: the tuner is in one line of it."""
    model = network().to(place)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for images, labels in tuner.steps(digits.batches(epoch)):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
    return model


def accuracy(model: nn.Module, digits: Digits) -> float:
    images, labels = digits.test
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).float().mean())


def fingerprint(model: nn.Module) -> str:
    """Return a hash of all weights, bit by bit."""
    state = hashlib.sha256()
    for weights in model.state_dict().values():
        state.update(weights.cpu().numpy().tobytes())
    return state.hexdigest()[:16]


def show(title: str, model: nn.Module, digits: Digits) -> None:
    print(f"{title}: accuracy {accuracy(model, digits):.4f}, weights {fingerprint(model)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a network on digits, tuned meanwhile.")
    parser.add_argument("--device", default="sim:rtx4090", help="what is tuned, like nvml:0")
    parser.add_argument("--workload", default="resnet50", help="what a simulated device runs")
    parser.add_argument("--knobs", default="sm_clock", help="what is turned, with commas between")
    parser.add_argument("--objective", default="eds")
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--window", type=float, default=1.5, help="the longest trial, in seconds")
    parser.add_argument("--no-tune", action="store_true", help="train only, untuned")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    simulated = chosen.device.startswith("sim:")
    torch.set_num_threads(1)  # a sum in another order is another sum
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats with it only
    torch.use_deterministic_algorithms(True)
    place = torch.device("cpu" if simulated else "cuda")
    digits = Digits(place)
    plain = train(digits, place, chosen.epochs, Plain())
    show("untuned", plain, digits)
    if chosen.no_tune:
        return
    with lj.Tuner(
        device=chosen.device,
        workload=chosen.workload,
        objective=chosen.objective,
        knobs=chosen.knobs.split(","),
        samples_per_step=BATCH,
        job=f"{chosen.epochs * len(digits)} samples",
        window_s=chosen.window,
    ) as tuner:
        tuned = train(digits, place, chosen.epochs, tuner)
        print(f"at the end: {tuner.status}")
    show("tuned", tuned, digits)
    same = fingerprint(tuned) == fingerprint(plain)
    print(f"the weights are {'the same to the last bit' if same else 'different'}")
    result = tuner.result()
    if result is None:
        print(f"there was nothing to compare: {tuner.status}")
        return
    from rich.console import Console

    Console().print(tuning_table(result))
    print("\n".join(tuning_sentences(result)))


if __name__ == "__main__":
    main()
