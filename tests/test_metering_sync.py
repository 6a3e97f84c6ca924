"""Waiting for devices that run behind the program.

PyTorch's CUDA and CuPy are stand-ins that keep to what their documentation says; JAX is the real
one, on its CPU, where it is installed.
"""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import pytest

from lowjoule.metering.sync import mark, synchronise

FRAMEWORKS = ("torch", "cupy", "jax", "jax._src.xla_bridge")


@dataclass
class Stream:
    """A queue of work: what is queued is done when `run` says so."""

    queued: int = 0
    finished: int = 0

    def run(self) -> None:
        self.finished = self.queued


@dataclass
class Card:
    """A device with a stream, which is opened by whoever synchronises it."""

    live: bool = True
    stream: Stream = field(default_factory=Stream)
    waited: int = 0

    def synchronize(self) -> None:
        self.live = True
        self.waited += 1
        self.stream.run()


class Event:
    def __init__(self, **_: Any) -> None:
        self._stream: Stream | None = None
        self._at = 0

    def record(self, stream: Stream) -> None:
        self._stream, self._at = stream, stream.queued

    def query(self) -> bool:
        return self._stream is None or self._stream.finished >= self._at

    @property
    def done(self) -> bool:
        return self.query()


def torch_of(cards: list[Card], *, initialised: bool = True) -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: initialised,
        device_count=lambda: len(cards),
        current_device=lambda: 0,
        synchronize=lambda number: cards[number].synchronize(),
        current_stream=lambda number: cards[number].stream,
        Event=Event,
    )
    torch._C = types.SimpleNamespace(  # type: ignore[attr-defined]
        _cuda_hasPrimaryContext=lambda number: cards[number].live
    )
    return torch


def cupy_of(cards: list[Card], current: int = 0) -> types.ModuleType:
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
        runtime=types.SimpleNamespace(getDevice=lambda: current),
        driver=types.SimpleNamespace(ctxGetCurrent=lambda: 4711 if cards[current].live else 0),
        Device=lambda number: cards[number],
        Event=Event,
        get_current_stream=lambda: cards[current].stream,
    )
    return cupy


@pytest.fixture(autouse=True)
def _none_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FRAMEWORKS:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("initialised", [True, False])
def test_only_devices_with_a_context_are_waited_for_and_none_is_opened(
    monkeypatch: pytest.MonkeyPatch, initialised: bool
) -> None:
    cards = [Card(), Card(live=False), Card()]
    monkeypatch.setitem(sys.modules, "torch", torch_of(cards, initialised=initialised))
    assert synchronise("auto") == ""
    assert [card.waited for card in cards] == ([1, 0, 1] if initialised else [0, 0, 0])
    assert not cards[1].live


def test_without_a_way_to_ask_only_the_current_device_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = [Card(), Card()]
    torch = torch_of(cards)
    del torch._C
    monkeypatch.setitem(sys.modules, "torch", torch)
    synchronise("auto")
    assert [card.waited for card in cards] == [1, 0]


@pytest.mark.parametrize("live", [True, False])
def test_cupy_is_waited_for_where_its_device_has_a_context(
    monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    cards = [Card(live=False), Card(live=live)]
    monkeypatch.setitem(sys.modules, "cupy", cupy_of(cards, current=1))
    assert synchronise("auto") == ""
    assert [card.waited for card in cards] == [0, int(live)]


@pytest.mark.parametrize("make", [torch_of, cupy_of], ids=["torch", "cupy"])
def test_a_mark_is_done_when_what_was_queued_before_it_is(
    monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    card = Card()
    name = "torch" if make is torch_of else "cupy"
    monkeypatch.setitem(sys.modules, name, make([card]))
    assert mark("auto") is None  # nothing is queued
    card.stream.queued += 1
    behind = mark("auto")
    assert behind is not None
    assert not behind.done()
    card.stream.queued += 5  # what comes later is no matter
    card.stream.finished = 1
    assert behind.done()
    assert card.waited == 0


def test_a_callable_cannot_be_looked_at_later_and_is_called() -> None:
    calls: list[int] = []
    assert mark(lambda: calls.append(1)) is None
    assert mark(None) is None
    assert calls == [1]


def test_a_framework_that_fails_is_said_and_costs_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_of([Card()])
    torch.cuda.is_initialized = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert "torch" in synchronise("auto")
    assert mark("auto") is None


JAX = """
import sys
import jax, jax.numpy as jnp
from lowjoule.metering.sync import mark, synchronise
assert synchronise("auto") == "" and mark("auto") is None
bridge = sys.modules["jax._src.xla_bridge"]
assert not bridge._backends, "asking has opened a device"
step = jax.jit(lambda a: (jnp.tanh(a @ a @ a @ a @ a @ a), a.sum()))
x = jnp.ones((1200, 1200))
jax.block_until_ready(step(x))
for _ in range(3):
    x, loss = step(x)
behind = mark("auto")
early = behind is not None and not behind.done()
last = loss
x, loss = step(x)  # the arrays of the mark are dropped by the loop
while not behind.done():
    pass
assert last.is_ready()
y, loss = step(x)
assert synchronise("auto") == ""
assert y.is_ready() and loss.is_ready()
assert mark("auto") is None
given = jax.jit(lambda a: a + 1, donate_argnums=0)
z = jnp.zeros((2000, 2000))
for _ in range(3):
    z = given(z)
found = mark("auto")
z = given(z)
while found is not None and not found.done():
    pass
print("early", early)
"""


def test_jax_is_waited_for_and_marked() -> None:
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", JAX], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["early", "True"]
