"""Loops that are written otherwise than the examples are."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from loop_card import LoopCard
from lowjoule.knobs import Setting
from lowjoule.tuning import Tuner

DEFAULT = Setting({"power_limit": 300.0, "sm_clock": 1.4e9})


def tuned(card: LoopCard, **options: object) -> Tuner:
    values = {
        "objective": "eds",
        "job": "10M samples",
        "samples_per_step": 32,
        "window_s": 4.0,
        **options,
    }
    return Tuner(card, **values)  # type: ignore[arg-type]


def checked(card: LoopCard, tuner: Tuner) -> None:
    """The best was found, what does not count did not, and all is put back."""
    assert Setting(card.values) == DEFAULT
    result = tuner.result()
    assert result is not None
    assert card.true_eds(result.chosen.setting) <= card.best_eds() * 1.01
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)
    assert result.default.power_w == pytest.approx(260.0, rel=0.02)


def test_epochs_of_one_step_and_empty_ones() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for epoch in range(4000):
            for _ in tuner.steps([] if epoch % 3 == 0 else [epoch]):
                card.work()
            card.clock.sleep(0.2)
            if tuner.settled:
                break
        assert tuner.settled
    checked(card, tuner)


def test_a_generator_for_a_loader_gives_up_nothing_and_is_asked_no_further() -> None:
    card = LoopCard()
    given = []

    def loader() -> Iterator[int]:
        for number in range(10_000):
            given.append(number)
            yield number

    batches = loader()
    seen = []
    with tuned(card) as tuner:
        while not tuner.settled:
            for batch in tuner.steps(batches):
                card.work()
                seen.append(batch)
                if len(seen) % 70 == 0:
                    break
    assert seen == given == list(range(len(seen)))
    checked(card, tuner)


def test_exceptions_that_the_loop_lives_through() -> None:
    """A batch that does not fit is skipped by the training, and what it took is left out."""
    card = LoopCard()
    with tuned(card) as tuner:
        for number in range(6000):
            if tuner.settled:
                break
            try:
                if number % 50 == 49:
                    raise MemoryError
                card.work()
            except MemoryError:
                continue
            tuner.step()
        assert tuner.settled
    checked(card, tuner)


def test_a_tuner_within_a_tuner_turns_nothing_and_the_outer_goes_on() -> None:
    card = LoopCard()
    with tuned(card) as outer:
        for number in range(6000):
            if outer.settled:
                break
            card.work()
            outer.step()
            if number == 100:
                with outer.paused(), tuned(card) as inner, outer:
                    for _ in inner.steps(range(5)):
                        card.work()
                assert "rank 0 tunes nothing" in inner.status
        assert outer.settled
    checked(card, outer)
    assert inner.result() is None


def test_two_tuners_one_after_the_other_and_one_used_twice() -> None:
    card = LoopCard()
    for tuner in (tuned(card), tuned(card)):
        with tuner:
            for _ in tuner.steps(range(6000)):
                card.work()
                if tuner.settled:
                    break
        checked(card, tuner)
    with tuner:
        for _ in tuner.steps(range(6000)):
            card.work()
            if tuner.settled:
                break
    checked(card, tuner)


def test_a_copy_turns_nothing() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        copy = pickle.loads(pickle.dumps(tuner))
        for batch in copy.steps([1, 2]):
            assert batch
        copy.step()
        with copy, copy.paused():
            pass
        assert "copy" in copy.status
        assert copy.result() is None
        assert tuner.status.startswith("measuring")


def test_a_callback_that_fails_is_logged_once_with_what_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()

    def accumulate(micro: int, passes: int) -> None:
        if micro < 32:
            raise RuntimeError("no room")

    with caplog.at_level(logging.WARNING), tuned(card, accumulate=accumulate) as tuner:
        for _ in range(4000):
            card.work()
            tuner.step()
    said = [one.getMessage() for one in caplog.records if "accumulate" in one.getMessage()]
    assert len(said) == 1
    assert "no room" in said[0]
    assert "micro_batch" in said[0]
    assert Setting(card.values) == DEFAULT


def test_a_wait_that_fails_is_logged_once_and_the_tuning_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()

    def wait() -> None:
        raise RuntimeError("the stream is gone")

    with caplog.at_level(logging.WARNING), tuned(card, sync=wait) as tuner:
        for _ in range(6000):
            if tuner.settled:
                break
            card.work()
            tuner.step()
        assert tuner.settled
    assert len(caplog.records) == 1
    assert "the stream is gone" in caplog.text
    checked(card, tuner)


WORKERS = """
import lowjoule as lj
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self, tuner): self.tuner = tuner
    def __len__(self): return 256
    def __getitem__(self, n): return torch.full((3,), float(n))

if __name__ == "__main__":
    device = lj.open_device("sim:rtx4090")
    total = 0.0
    for context in ("fork", "spawn"):
        with lj.Tuner(device, workload="resnet50", window_s=2.0) as tuner:
            loader = DataLoader(
                Numbers(tuner), batch_size=64, num_workers=2, multiprocessing_context=context
            )
            for epoch in range(3):
                for batch in tuner.steps(loader):
                    total += float(batch.sum())
            print(tuner.status.split()[0])
        print(device.current() == device.space.default)
    print(total)
"""


def test_workers_of_a_data_loader_leave_the_card_to_the_loop(
    tmp_path: pytest.TempPathFactory,
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"  # type: ignore[operator]
    script.write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[1] == words[3] == "True"
    assert set(words[:3:2]) <= {"measuring", "settling", "looking", "turning", "done"}
    assert float(words[4]) == 2 * 3 * 3 * sum(range(256))
    assert "Traceback" not in done.stderr


def test_a_workload_that_changes_is_tuned_again_for_the_price_that_is_said() -> None:
    """Half-way the loop gets heavier: each step takes a fixed cost of twelve passes more."""
    card = LoopCard()
    passes = 1
    changed_s = 0.0
    spans = []
    with tuned(card, retunes=1, job=None) as tuner:
        for _ in range(12_000):
            card.work(passes=passes)
            before = tuner.settled
            tuner.step()
            if tuner.settled and not before:
                first = tuner.result()
                spans.append((card.clock.now_s(), card.energy_j, first))
                changed_s = changed_s or card.clock.now_s() + 20.0
            if before and not tuner.settled:
                spans.append((card.clock.now_s(), card.energy_j, tuner.result()))
            if len(spans) == 1 and card.clock.now_s() > changed_s:
                passes = 13
            if len(spans) == 3:
                break
        noticed_s = spans[1][0] - changed_s
    assert 0.0 < noticed_s < 60.0
    (_, _, first), (begin_s, begin_j, _), (end_s, end_j, last) = spans
    assert first is not None
    assert last is not None
    assert any("tuned again" in note for note in last.notes)
    said_s = last.saving.search_time_s - first.saving.search_time_s
    said_j = last.saving.search_energy_j - first.saving.search_energy_j
    assert said_s == pytest.approx(end_s - begin_s, rel=0.03)
    assert said_j == pytest.approx(end_j - begin_j, rel=0.03)
    assert last.default.time_s == pytest.approx(0.001 + 13 * 0.001 / 32, rel=0.02)
