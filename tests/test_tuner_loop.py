from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loop_card import LoopCard, hot_after, slowness, warming
from lowjoule.clock import WallClock
from lowjoule.control import Claim
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.errors import IncomparableError, InvalidValueError, UnknownNameError
from lowjoule.knobs import Applied, Setting
from lowjoule.metering.ranks import rank_here
from lowjoule.tuning import Observation, Problem, Recommendation, Tuner
from lowjoule.tuning.progress import Gaps, Phase, Progress, samples_in
from lowjoule.workloads import Work, WorkUnit

JOB = "10M samples"
DEFAULT = Setting({"power_limit": 300.0, "sm_clock": 1.4e9})


def tuned(card: LoopCard, **options: object) -> Tuner:
    values = {"objective": "eds", "job": JOB, "samples_per_step": 32, "window_s": 4.0, **options}
    return Tuner(card, **values)  # type: ignore[arg-type]


def train(tuner: Tuner, card: LoopCard, steps: int = 10_000, **work: int) -> int:
    """Run a plain loop until the best is held; return how many steps it took."""
    for done in range(steps):
        if tuner.settled:
            return done
        card.work(**work)
        tuner.step()
    return steps


@pytest.mark.parametrize("seed", range(3))
def test_the_search_ends_at_the_optimum_and_puts_back_what_was_there(seed: int) -> None:
    card = LoopCard(seed=seed)
    with tuned(card) as tuner:
        steps = train(tuner, card)
        held = Setting(card.values)
        assert tuner.settled
        assert tuner.setting == held
        assert "the best, held" in tuner.status
    assert steps < 4000
    assert card.true_eds(held) <= card.best_eds() * 1.01
    assert Setting(card.values) == DEFAULT
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting == held
    assert result.default.setting == DEFAULT
    assert result.saving.net_energy_j > 0
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)
    assert result.chosen.uncertainty is not None


def test_everything_between_the_first_and_the_last_edge_is_in_the_account() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        card.work()
        tuner.step()  # from its end on the work counts
        begin_s, begin_j = card.clock.now_s(), card.energy_j
        train(tuner, card)
    result = tuner.result()
    assert result is not None
    spent_s, spent_j = card.clock.now_s() - begin_s, card.energy_j - begin_j
    assert result.saving.search_time_s == pytest.approx(spent_s, abs=0.2)
    assert result.saving.search_energy_j == pytest.approx(spent_j, abs=60.0)
    assert result.saving.search_work == pytest.approx(32 * spent_s / (0.04), rel=0.3)


def test_the_saving_is_what_the_same_job_takes_less_than_untuned() -> None:
    steps = 20_000
    spent_j = []
    result = None
    for tuning in (False, True):
        card = LoopCard()
        with tuned(card, job=None, rank=0 if tuning else 1) as tuner:
            for _ in range(steps):
                card.work()
                tuner.step()
            card.read()
        spent_j.append(card.energy_j)
        result = tuner.result() or result
    assert result is not None
    assert result.saving.job.quantity == pytest.approx(32 * steps, rel=0.001)
    saved_j = spent_j[0] - spent_j[1]
    assert saved_j > 0.1 * spent_j[0]
    assert result.saving.net_energy_j == pytest.approx(saved_j, abs=0.01 * spent_j[0])


def test_steps_give_the_batches_and_count_their_samples() -> None:
    card = LoopCard()
    batches = [np.zeros((16, 3)) for _ in range(3000)]
    seen = []
    with tuned(card, samples_per_step=None) as tuner:
        for batch in tuner.steps(batches):
            card.work(len(batch))
            seen.append(batch)
    assert all(a is b for a, b in zip(seen, batches, strict=True))
    result = tuner.result()
    assert result is not None
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 16, rel=0.02)


def test_epochs_shorter_than_a_sample_neither_starve_it_nor_lose_work() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for _epoch in range(3000):
            for _ in tuner.steps(range(2)):  # 70 ms; a sample takes 100 ms
                card.work()
            card.clock.sleep(0.5)
            if tuner.settled:
                break
        assert tuner.settled
        held = Setting(card.values)
    assert card.true_eds(held) <= card.best_eds() * 1.01
    result = tuner.result()
    assert result is not None
    # what is between two epochs is in neither time nor energy
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)
    assert result.default.power_w == pytest.approx(260.0, rel=0.02)


def test_pauses_do_not_count() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for step in range(10_000):
            if tuner.settled:
                break
            card.work()
            tuner.step()
            if step % 7 == 0:
                with tuner.paused(), tuner.paused():
                    card.work(200.0)
                    tuner.step()  # a validation that counts steps of its own
                    list(tuner.steps(range(3)))
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)
    assert result.default.power_w == pytest.approx(260.0, rel=0.02)


def test_a_gap_that_nobody_declared_is_left_out_and_said() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for step in range(10_000):
            if tuner.settled:
                break
            card.work()
            if step % 50 == 49:
                card.clock.sleep(30.0)
            tuner.step()
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)
    assert [note for note in result.notes if "left out as pauses" in note]


def test_a_loop_that_always_waits_is_measured_as_it_is() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for step in range(3000):
            for _ in range(2):
                card.work(1.0)
            card.clock.sleep(0.0 if step < 20 or step % 2 else 1.5)
            tuner.step()
    assert tuner.result() is not None


def test_the_loop_waits_for_a_read_a_sample_and_for_nothing_else() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        tick_looks = card.calls["read"]
        begin_s = card.clock.now_s()
        train(tuner, card)
        spent_s = card.clock.now_s() - begin_s
        reads = card.calls["read"] - tick_looks
        result = tuner.result()
        assert result is not None
        # a sample of 0.1 s takes an edge and the reasons; a trial two more edges
        assert reads <= 2 * spent_s / 0.1 + 2 * result.draws + 2
        for name in ("current", "apply"):
            assert card.calls[name] <= 12 * (result.draws + 1)
    assert max(card.calls.values()) < 10_000


def test_a_device_that_cannot_be_read_leaves_the_loop_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()
    with caplog.at_level(logging.WARNING), tuned(card) as tuner:
        train(tuner, card, 800)
        assert Setting(card.values) != DEFAULT
        card.silent = lambda: True
        assert train(tuner, card, 500) == 500
        assert Setting(card.values) == DEFAULT
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "the card is gone" in tuner.status
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting == DEFAULT


def test_one_reading_that_fails_costs_a_sample_only() -> None:
    card = LoopCard()
    fails = iter(range(10**9))
    card.silent = lambda: next(fails) % 40 == 39
    with tuned(card) as tuner:
        train(tuner, card)
        assert tuner.settled


def test_a_card_that_tells_neither_energy_nor_power_is_said_and_the_loop_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()
    card.counter = False
    with caplog.at_level(logging.WARNING), tuned(card) as tuner:
        assert train(tuner, card, 100) == 100
    assert len(caplog.records) == 1
    assert "neither energy nor power" in tuner.status
    assert tuner.result() is None
    assert card.writes == []


def test_settings_that_are_refused_are_failed_trials_and_the_search_goes_on() -> None:
    card = LoopCard()
    card.refuses = lambda setting: setting.get("sm_clock", 1.4e9) == 1e9
    with tuned(card) as tuner:
        train(tuner, card)
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting["sm_clock"] != 1e9


def test_a_setter_that_always_fails_ends_the_tuning_not_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()
    card.refuses = lambda setting: True
    with caplog.at_level(logging.WARNING), tuned(card) as tuner:
        assert train(tuner, card, 1000) == 1000
    assert len(caplog.records) == 1
    assert "refused" in tuner.status
    assert Setting(card.values) == DEFAULT


def test_what_someone_else_sets_is_left_alone_and_ends_the_tuning() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        train(tuner, card)
        card.values["power_limit"] = 275.0
        train_on(tuner, card, 1000)
        assert "someone else" in tuner.status
    assert card.values["power_limit"] == 275.0
    assert card.values["sm_clock"] == 1.4e9


def train_on(tuner: Tuner, card: LoopCard, steps: int) -> None:
    for _ in range(steps):
        card.work()
        tuner.step()


def test_a_setting_that_fell_back_is_set_again() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        train(tuner, card)
        train_on(tuner, card, 500)  # the first windows of what is held are told to the search
        held = Setting(card.values)
        assert held != DEFAULT
        card.values.update(DEFAULT)  # as a reload of the driver does
        train_on(tuner, card, 1000)
        assert Setting(card.values) == held
    result = tuner.result()
    assert result is not None
    assert any("dropped by the hardware" in note for note in result.notes)


def test_a_loop_that_stood_still_too_long_has_lost_its_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        train(tuner, card)
        monkeypatch.setattr(Claim, "touch", lambda self: False)  # as when the watchdog has acted
        train_on(tuner, card, 1)
        assert "no progress" in tuner.status
        assert Setting(card.values) == DEFAULT
        train_on(tuner, card, 10)
        assert Setting(card.values) == DEFAULT


def test_when_what_is_held_changes_it_is_tuned_again_a_bounded_number_of_times() -> None:
    card = LoopCard()
    with tuned(card, retunes=1) as tuner:
        train(tuner, card)
        before = tuner.result()
        card.heat = hot_after(card.clock.now_s() + 20.0, 1.3)
        train_on(tuner, card, 2000)
        train(tuner, card)
        after = tuner.result()
        assert before is not None
        assert after is not None
        assert after.draws > before.draws
        assert any("tuned again" in note for note in after.notes)
        # the figures compared are those of the new state, the price is that of both searches
        assert after.default.energy_j == pytest.approx(1.3 * before.default.energy_j, rel=0.03)
        assert after.saving.search_time_s > before.saving.search_time_s
        train_on(tuner, card, 200)  # a window of what is held, to compare with
        card.heat = hot_after(0.0, 2.0)
        train_on(tuner, card, 3000)
        last = tuner.result()
        assert last is not None
        assert last.draws == after.draws
        assert any("often enough" in note for note in last.notes)


class Odd:
    shape = ("many",)


def test_a_batch_that_cannot_be_counted_does_not_end_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()
    with caplog.at_level(logging.WARNING), tuned(card, samples_per_step=None) as tuner:
        assert len(list(tuner.steps([Odd()] * 10))) == 10
        assert tuner.status.startswith("measuring")
    assert caplog.records == []
    assert any("a step counts as one" in note for note in tuner.notes)


def test_what_is_held_without_change_is_not_tuned_again() -> None:
    card = LoopCard(noise=0.05)
    with tuned(card) as tuner:
        train(tuner, card)
        first = tuner.result()
        train_on(tuner, card, 10_000)
        last = tuner.result()
    assert first is not None
    assert last is not None
    assert first.draws == last.draws


def test_the_default_is_measured_again_and_the_drift_said() -> None:
    card = LoopCard(heat=warming(0.10, 60.0))
    with tuned(card, again_after=2) as tuner:
        train(tuner, card)
    result = tuner.result()
    assert result is not None
    asked = [trial.asked for trial in result.trials]
    assert asked.count(DEFAULT) >= 3
    (said,) = [note for note in result.notes if note.startswith("drift")]
    assert "energy" in said
    assert "+0.0% energy" not in said


def test_throttled_samples_are_repeated_after_a_cool_down_and_then_said() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        card.reasons = frozenset({"thermal"})
        train_on(tuner, card, 200)
        card.reasons = frozenset({"power"})  # what a limit asks for
        train(tuner, card)
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert not any("throttled" in note for note in result.notes)
    card = LoopCard()
    card.reasons = frozenset({"thermal"})
    with tuned(card) as tuner:
        train(tuner, card, 20_000)
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert any("throttled" in note for note in result.notes)


def test_an_exception_of_the_loop_passes_and_the_card_is_put_back() -> None:
    card = LoopCard()
    with pytest.raises(ZeroDivisionError), tuned(card) as tuner:  # noqa: PT012
        train(tuner, card, 800)
        assert Setting(card.values) != DEFAULT
        raise ZeroDivisionError
    assert Setting(card.values) == DEFAULT


def test_an_exception_within_steps_puts_the_card_back_at_once() -> None:
    card = LoopCard()
    at_exit = None
    try:
        with tuned(card) as tuner:
            for _ in tuner.steps(range(10_000)):
                card.work()
                if Setting(card.values) != DEFAULT:
                    raise ZeroDivisionError
    except ZeroDivisionError:
        at_exit = Setting(card.values)  # while the traceback still holds the generator
    assert at_exit == DEFAULT


def test_a_program_that_ends_within_a_loop_puts_the_card_back(tmp_path: Path) -> None:
    script = """
import sys
import lowjoule as lj
device = lj.open_device("sim:rtx4090")
kept = []
def run():
    tuner = lj.Tuner(device, workload="resnet50", samples_per_step=64, window_s=4.0)
    loop = tuner.steps(range(100_000))
    kept.append(loop)
    for _ in loop:
        if device.current() != device.space.default:
            print("changed", flush=True)
            if os.fork() == 0:
                sys.exit(0)
            os.wait()
            print("still", device.current() != device.space.default, flush=True)
            sys.exit(3)
import os
run()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.split() == ["changed", "still", "True"]
    after = open_device("sim:rtx4090")
    assert after.current() == after.space.default


def test_a_driver_that_never_answers_is_waited_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released, asked = threading.Event(), threading.Event()

    class Stuck(LoopCard):
        def apply(self, setting: Setting) -> Applied:
            asked.set()
            released.wait(30.0)
            return super().apply(setting)

    card = Stuck(clock=WallClock(), sample_s=1e-5, noise=0.0)
    with caplog.at_level(logging.WARNING), tuned(card, window_s=0.2, precision=0.5) as tuner:
        while not asked.is_set():
            card.work()
            tuner.step()
        monkeypatch.setattr("lowjoule.tuning.hand._JOIN_S", 0.05)
    assert "has not answered" in caplog.text
    released.set()
    for thread in threading.enumerate():
        if thread.name == "lowjoule-hand":
            thread.join(10.0)
    assert Setting(card.values) == DEFAULT  # put back as soon as it answers


def test_a_loop_that_is_left_early_puts_the_card_back() -> None:
    card = LoopCard()
    tuner = tuned(card)
    changed = False
    for _ in tuner.steps(range(10_000)):
        card.work()
        changed |= Setting(card.values) != DEFAULT
        if card.clock.now_s() > 60.0:
            break
    assert changed
    assert Setting(card.values) == DEFAULT
    with Claim(card, "the next"):
        pass


def test_a_break_within_a_with_pauses_only() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        for _epoch in range(400):
            for number, _ in enumerate(tuner.steps(range(50))):
                card.work()
                if number == 9:
                    break
            card.clock.sleep(5.0)
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert result.default.power_w == pytest.approx(260.0, rel=0.02)
    assert not any("pause" in note for note in result.notes)


def test_errors_of_a_loader_pass() -> None:
    def loader() -> Iterator[int]:
        yield 1
        raise OSError("the disk is full")

    card = LoopCard()
    with tuned(card) as tuner, pytest.raises(OSError, match="disk"):
        list(tuner.steps(loader()))


class Broken:
    def __init__(self, problem: Problem) -> None:
        pass

    def ask(self) -> Setting | None:
        raise RuntimeError("a fault of ours")

    def tell(self, observation: Observation) -> None:
        pass

    def recommend(self) -> Recommendation:
        raise RuntimeError("another")


def test_a_fault_of_ours_is_logged_once_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    card = LoopCard()
    with caplog.at_level(logging.WARNING), tuned(card, search=Broken) as tuner:
        assert train(tuner, card, 1000) == 1000
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "a fault of ours" in tuner.status


def test_a_device_that_is_held_by_another_is_not_tuned() -> None:
    card = LoopCard()
    with Claim(card, "somebody"), tuned(card) as tuner:
        assert train(tuner, card, 200) == 200
        assert "somebody" in tuner.status
    assert tuner.result() is None
    assert card.writes == []


def test_only_rank_0_of_a_node_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "9")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert rank_here() == 1
    card = LoopCard()
    with tuned(card) as tuner:
        assert train(tuner, card, 200) == 200
        with tuner.paused():
            pass
        assert list(tuner.steps([1, 2])) == [1, 2]
    assert card.calls == {"read": 0, "current": 0, "apply": 0}
    assert "rank 1" in tuner.status
    monkeypatch.setenv("LOCAL_RANK", "0")
    with tuned(card) as tuner:
        for _ in range(100):
            card.work()
            now_s = card.clock.now_s()
            tuner.push(Progress(work=32.0, time_s=now_s, phase=Phase.STEP, rank=1))
        assert tuner.status.startswith("measuring")
        assert tuner.result() is None


def test_each_rank_is_told_who_tunes_what(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    card = LoopCard()
    with caplog.at_level(logging.INFO, "lowjoule"):
        first, other = tuned(card, rank=0), tuned(card, rank=3)
    assert card.identity.uuid in first.notes[0]
    assert "3 other ranks of this node turn nothing" in first.notes[0]
    assert "rank 3 turns nothing" in other.status
    assert "rank 0" in other.status
    assert "each_rank=True" in other.status
    assert len(caplog.records) == 2


def test_ranks_with_a_card_each_tune_their_own() -> None:
    cards = [LoopCard(seed=seed) for seed in range(2)]
    ranks = [tuned(card, rank=n, each_rank=True) for n, card in enumerate(cards)]
    with ranks[0], ranks[1]:
        for card, tuner in zip(cards, ranks, strict=True):
            train(tuner, card)
            assert tuner.settled
            assert card.true_eds(Setting(card.values)) <= card.best_eds() * 1.01
    assert all(Setting(card.values) == DEFAULT for card in cards)


def test_ranks_that_name_one_card_do_not_fight() -> None:
    card = LoopCard()
    ranks = [tuned(card, rank=n, each_rank=True) for n in range(2)]
    with ranks[0], ranks[1]:
        for _ in range(200):
            card.work()
            for tuner in ranks:
                tuner.step()
        assert ranks[0].status.split()[0] in {"measuring", "settling", "turning"}
        assert "rank 1 tunes nothing" in ranks[1].status
        assert "one process turns a device" in ranks[1].status
    assert Setting(card.values) == DEFAULT


RANK = """
import os, sys
import lowjoule as lj
device = lj.open_device("sim:rtx4090")
with lj.Tuner(device, workload="resnet50", samples_per_step=64, window_s=2.0, each_rank=True) as t:
    print(t.status, flush=True)
    sys.stdin.readline()
"""


def test_processes_of_a_node_turn_a_card_one_at_a_time() -> None:
    """A claim holds for the whole machine: whoever comes second leaves the card alone."""
    command, pipe = [sys.executable, "-c", RANK], subprocess.PIPE
    said = []
    with contextlib.ExitStack() as ended:
        for rank in range(2):
            made = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                text=True,
                env={**os.environ, "LOCAL_RANK": str(rank)},
            )
            ended.callback(made.communicate, "")
            assert made.stdout is not None
            said.append(made.stdout.readline())
    assert said[0].startswith("measuring")
    assert said[1].startswith("rank 1 tunes nothing")
    assert "process" in said[1]


def test_events_alone_drive_a_tuner() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        tuner.push(Progress(work=0.0, time_s=card.clock.now_s(), phase=Phase.RESUME))
        for _ in range(10_000):
            if tuner.settled:
                break
            card.work()
            tuner.push(Progress(work=32.0, time_s=card.clock.now_s()))
        assert tuner.settled


def test_a_micro_batch_is_turned_between_steps_with_what_makes_a_step() -> None:
    card = LoopCard()
    state = {"micro": 16, "passes": 2}
    calls = []

    def accumulate(micro: int, passes: int) -> None:
        calls.append((micro, passes))
        state.update(micro=micro, passes=passes)

    options = {"knobs": ["micro_batch"], "accumulate": accumulate, "micro_batch": 16}
    with tuned(card, **options) as tuner:
        for _ in range(10_000):
            if tuner.settled:
                break
            card.work(32.0, passes=3 * state["passes"])
            tuner.step()
        assert tuner.settled
        assert state == {"micro": 16, "passes": 2}  # the fewest passes, none larger was tried
    assert calls
    assert all(micro * passes == 32 and micro <= 16 for micro, passes in calls)
    assert card.writes == []


def test_a_callback_that_fails_is_a_failed_trial() -> None:
    card = LoopCard()
    seen = []

    def accumulate(micro: int, passes: int) -> None:
        seen.append(micro)
        if micro == 8:
            raise RuntimeError("no such micro-batch")

    with tuned(card, accumulate=accumulate) as tuner:
        train(tuner, card)
        assert tuner.settled
    assert seen == [] or seen[-1] == 32
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting["micro_batch"] != 8


def test_a_slow_setter_does_not_hold_the_loop_up() -> None:
    """The driver answers only when the loop has gone on for a hundred steps more."""
    released, asked = threading.Event(), threading.Event()

    class Slow(LoopCard):
        def apply(self, setting: Setting) -> Applied:
            asked.set()
            assert released.wait(30.0)
            return super().apply(setting)

    card = Slow(clock=WallClock(), sample_s=1e-5, noise=0.0)
    with tuned(card, window_s=0.2, precision=0.5) as tuner:
        for _ in range(5000):
            card.work()
            tuner.step()
            if asked.is_set():
                break
        assert asked.is_set()
        assert tuner.status.startswith("turning")
        for _ in range(100):
            card.work()
            tuner.step()
        assert card.writes == []
        released.set()
    assert Setting(card.values) == DEFAULT
    assert not [one for one in threading.enumerate() if one.name == "lowjoule-hand"]


def test_a_simulated_gpu_takes_the_place_of_the_card() -> None:
    device = open_device("sim:a100", OpenOptions(seed=1))
    with Tuner(device, workload="resnet50", samples_per_step=256, job="100M samples") as tuner:
        for _ in tuner.steps(range(10_000)):
            if tuner.settled:
                break
        assert tuner.settled
    result = tuner.result()
    assert result is not None
    assert result.identity.source.value == "simulated"
    assert result.chosen.objective < 0.98
    assert result.saving.net_energy_j > 0
    assert device.current() == device.space.default


def test_a_setting_that_is_dropped_again_and_again_ends_the_tuning() -> None:
    card = LoopCard()
    with tuned(card) as tuner:
        train(tuner, card)
        train_on(tuner, card, 500)
        for _ in range(20):
            card.values.update(DEFAULT)
            train_on(tuner, card, 250)
        assert "does not hold" in tuner.status


class Queue:
    """A device that runs behind the loop: steps are launched at once, and done later."""

    def __init__(self, card: LoopCard, depth: int) -> None:
        self.card, self.depth = card, depth
        self.launched = self.finished = self.waits = 0

    def launch(self) -> None:
        """Launch a step; the device is `depth` steps behind."""
        self.launched += 1
        if self.launched - self.finished > self.depth:
            self._run_one()

    def _run_one(self) -> None:
        self.card.work()
        self.finished += 1

    def wait(self) -> None:
        self.waits += 1
        while self.finished < self.launched:
            self._run_one()

    def module(self) -> types.ModuleType:
        """Return a `torch` that knows of this device alone."""
        queue = self

        class Event:
            def record(self, stream: object) -> None:
                self.at = queue.launched

            def query(self) -> bool:
                return queue.finished >= self.at

        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
            is_initialized=lambda: True,
            device_count=lambda: 1,
            synchronize=lambda number: queue.wait(),
            current_stream=lambda number: None,
            Event=Event,
        )
        torch._C = types.SimpleNamespace(  # type: ignore[attr-defined]
            _cuda_hasPrimaryContext=lambda number: True
        )
        return torch


@pytest.mark.parametrize("sync", ["auto", None])
def test_work_that_is_only_queued_is_not_counted_as_done(
    monkeypatch: pytest.MonkeyPatch, sync: str | None
) -> None:
    """Epochs of 20 steps, of which the device is 8 behind: without a wait 40 % are not seen."""
    card = LoopCard(noise=0.0)
    queue = Queue(card, depth=8)
    monkeypatch.setitem(sys.modules, "torch", queue.module())
    with tuned(card, sync=sync, search=Still) as tuner:
        for _ in range(40):
            for _ in tuner.steps(range(20)):
                queue.launch()
            queue.wait()  # the loss is read, outside of what counts
    result = tuner.result()
    assert result is not None
    error = result.default.time_s / (0.001 + 0.001 / 32) - 1.0
    assert error == pytest.approx(0.0 if sync else -0.4, abs=0.05 if sync is None else 0.02)


def test_between_the_edges_of_a_trial_a_loop_waits_for_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = LoopCard()
    queue = Queue(card, depth=8)
    monkeypatch.setitem(sys.modules, "torch", queue.module())
    with tuned(card) as tuner:
        for _ in range(6000):
            queue.launch()
            tuner.step()
            if tuner.settled:
                break
        assert tuner.settled
        waits = queue.waits
    result = tuner.result()
    assert result is not None
    assert waits <= 2 * result.draws + 2  # where a window opens; there are 40 samples in each
    assert result.default.time_s == pytest.approx(0.001 + 0.001 / 32, rel=0.02)


class Still:
    """Asks for nothing: the default is held."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def ask(self) -> Setting | None:
        return None

    def tell(self, observation: Observation) -> None:
        self.last = observation

    def recommend(self) -> Recommendation:
        assert self.last.time_s is not None
        assert self.last.energy_j is not None
        return Recommendation(
            setting=self.problem.default,
            time_s=self.last.time_s,
            energy_j=self.last.energy_j,
            objective=1.0,
            uncertainty=None,
        )


class Lucky:
    """Holds what looked best in the last window that it was told, as luck would have it."""

    def __init__(self, problem: Problem) -> None:
        self.told: list[Observation] = []
        self.left = [DEFAULT.replace(power_limit=100.0), DEFAULT.replace(power_limit=200.0)]

    def ask(self) -> Setting | None:
        return self.left.pop(0) if self.left else None

    def tell(self, observation: Observation) -> None:
        lucky = observation.asked["power_limit"] == 100.0 and not any(
            one.asked == observation.asked for one in self.told
        )
        energy_j = 1e-3 if lucky else observation.energy_j
        self.told.append(replace(observation, energy_j=energy_j))

    def recommend(self) -> Recommendation:
        means: dict[Setting, list[float]] = {}
        for one in self.told:
            means.setdefault(one.asked, []).append((one.energy_j or 0.0) + 200 * (one.time_s or 0))
        best = min(means, key=lambda setting: means[setting][-1])
        last = next(one for one in reversed(self.told) if one.asked == best)
        assert last.time_s is not None
        assert last.energy_j is not None
        return Recommendation(
            setting=best, time_s=last.time_s, energy_j=last.energy_j, objective=0.5, uncertainty=0.1
        )


def test_what_was_picked_by_luck_is_left_when_it_is_seen_for_longer() -> None:
    card = LoopCard()
    held: list[Setting | None] = []
    with tuned(card, search=Lucky) as tuner:
        for _ in range(3000):
            card.work()
            tuner.step()
            if tuner.settled and (not held or held[-1] != tuner.setting):
                held.append(tuner.setting)
    limits = [one["power_limit"] for one in held if one is not None]
    assert limits == [100.0, 200.0]
    result = tuner.result()
    assert result is not None
    assert result.chosen.setting["power_limit"] == 200.0
    assert result.draws == 4  # and the default once more, to compare with
    # the figures of the chosen one are those of the many windows in which it was held
    assert result.chosen.time_s * 32 == pytest.approx(
        0.032 * slowness(limits_of(200)) + 0.001, 0.01
    )


def limits_of(watts: float) -> Setting:
    return DEFAULT.replace(power_limit=float(watts))


def test_a_simulated_gpu_turns_the_micro_batch_of_the_loop() -> None:
    device = open_device("sim:rtx4090", OpenOptions(default={"batch_size": "64"}))
    calls = []
    with Tuner(
        device,
        workload="resnet50",
        samples_per_step=64,
        knobs=["micro_batch", "sm_clock"],
        accumulate=lambda micro, passes: calls.append((micro, passes)),
    ) as tuner:
        for _ in tuner.steps(range(10_000)):
            if tuner.settled:
                break
        assert tuner.settled
        assert tuner.setting is not None
        assert tuner.setting["micro_batch"] == 64  # passes have a price
    assert calls
    assert all(micro * passes == 64 for micro, passes in calls)
    assert calls[-1] == (64, 1)


def test_misuse_is_said_at_construction() -> None:
    card = LoopCard()
    with pytest.raises(UnknownNameError, match="power_limt"):
        tuned(card, knobs=["power_limt"])
    with pytest.raises(IncomparableError):
        tuned(card, job=Work(1.0, WorkUnit.TOKEN))
    with pytest.raises(InvalidValueError, match="samples_per_step"):
        tuned(card, accumulate=print, samples_per_step=None)
    with pytest.raises(InvalidValueError, match="multiple"):
        tuned(card, accumulate=print, micro_batch=24)
    with pytest.raises(InvalidValueError, match="whole job"):
        tuned(card, constraints=["deadline<=1h"], job=None)
    with pytest.raises(InvalidValueError, match="at least one"):
        tuned(card, samples_per_step=0)
    with pytest.raises(InvalidValueError, match="no device is named"):
        Tuner()
    device = open_device("sim:a100")
    with pytest.raises(InvalidValueError, match="no workload is named"):
        Tuner(device)
    with pytest.raises(InvalidValueError, match="cannot be turned within"):
        Tuner(device, workload="resnet50", knobs=["batch_size"])
    with pytest.raises(InvalidValueError, match="the loop's batch is 64"):
        Tuner(device, workload="resnet50", samples_per_step=64, accumulate=print)


def test_a_step_outside_of_a_with_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    card = LoopCard()
    tuner = tuned(card)
    with caplog.at_level(logging.WARNING):
        train(tuner, card, 10)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (np.zeros((8, 3)), 8),
        ([np.zeros((8, 3)), np.zeros(8)], 8),
        ((np.zeros((8, 3)), np.zeros(8)), 8),
        ({"input_ids": np.zeros((4, 128))}, 4),
        (["a text", "another"], 2),
        ([1, 2, 3], 3),
        ([[1, 2], [3, 4]], 2),
        ("a text", None),
        (7, None),
        ({}, None),
        ([], None),
        (np.float64(1.0), None),
    ],
    ids=str,
)
def test_samples_are_counted_where_they_can_be_seen(batch: object, count: float | None) -> None:
    assert samples_in(batch) == count


def test_a_gap_is_far_longer_than_steps_usually_are() -> None:
    gaps = Gaps()
    now_s = 0.0
    for _ in range(20):
        now_s += 0.01
        assert gaps.length_s(now_s) is None
    assert gaps.length_s(now_s + 0.5) is None  # a stall: below a second
    assert gaps.length_s(now_s + 3.0) == pytest.approx(2.5)
    gaps.forget()
    assert gaps.length_s(now_s + 100.0) is None
