"""`predict` and `evaluate` as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from called import Capture, found, refused
from lowjoule.cli.main import main
from prediction_made import limit_and_batch, made

BOARD = "NVIDIA A40"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four models on a board, one of them twice under two names."""
    path = tmp_path_factory.mktemp("tables") / "runs.csv"
    lines = ["device,workload,unit,power_limit_w,batch_size,time_s,energy_j"]
    names = ("alpha", "beta", "gamma/a", "gamma/b", "delta")
    for seed, name in enumerate(names):
        for point in made(limit_and_batch(), min(seed, 3), depart=0.02, noise=0.005).profile:
            limit, batch = point.setting["power_limit"], point.setting["batch_size"]
            figures = f"{limit:g},{batch},{point.time_s!r},{point.energy_j!r}"
            lines.append(f"{BOARD},{name},epoch,{figures}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saved(table: Path) -> Path:
    path = table.with_name("predictor.json")
    options = ["--device", "a40", "--tasks", str(table), "--save", str(path), "--json"]
    assert main(["predict", "resnet50", *options]) == 0
    return path


def test_a_board_that_is_not_here(saved: Path, capsys: Capture) -> None:
    value = found(capsys, "predict", "resnet50", "--device", "h100", "--predictor", str(saved))
    assert value["source"] == "predicted"
    assert value["calibrated"] is False
    assert {one["source"] for one in value["anchors"]} == {"simulated"}
    assert value["wanted"]
    assert any("simulated" in note for note in value["notes"])
    for one in value["frontier"]:
        low, high = one["time_interval_s"]
        assert low <= one["time_s"] <= high
    times = [one["time_s"] for one in value["frontier"]]
    energies = [one["energy_j"] for one in value["frontier"]]
    assert times == sorted(times)
    assert energies == sorted(energies, reverse=True)
    assert value["most"] == pytest.approx(0.8)


def test_the_page_shows_intervals_anchors_and_marks(
    saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "page.html"
    options = ("--device", "h100", "--predictor", str(saved), "--html", str(page))
    assert main(["predict", "resnet50", *options]) == 0
    text = page.read_text(encoding="utf-8")
    assert "PREDICTED" in text
    assert "(uncalibrated)" in text
    assert '<path class="ends"' in text
    assert '<path class="anchor"' in text
    assert "//" not in text.replace("http://www.w3.org", "")
    capsys.readouterr()
    assert main(["predict", "resnet50", "--device", "a40", "--predictor", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert "PREDICTED" in shown
    assert "uncalibrated" not in shown


def test_measured_anchors_replace_the_simulation(
    saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    anchors = tmp_path / "mine.csv"
    anchors.write_text(
        "workload,unit,power_limit_w,batch_size,time_s,energy_j\n"
        "resnet50,epoch,300,256,100,25000\nresnet50,epoch,180,256,120,20800\n"
    )
    options = ("--device", "a40", "--predictor", str(saved), "--anchors", str(anchors))
    knobs = ("--knobs", "power_limit,batch_size")
    value = found(capsys, "predict", "resnet50", *options, *knobs)
    assert value["work"]["unit"] == "epoch"
    assert {one["source"] for one in value["anchors"]} == {"replayed"}
    assert value["default"]["time_s"] == 100.0
    assert value["calibrated"] is None
    wanted = [(one["power_limit"], one["batch_size"]) for one in value["wanted"]]
    assert (300.0, 256) not in wanted
    assert (300.0, 64) in wanted
    # one that the catalogue does not know is what its anchors tell
    assert found(capsys, "predict", "mine", *options, *knobs)["workload"] == "mine"


def test_a_bound_inside_the_interval_needs_measuring(
    saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    options = ("predict", "resnet50", "--device", "a40", "--predictor", str(saved))
    value = found(capsys, *options, "--objective", "energy", "--constraint", "slowdown<=20%")
    assert value["needs_measuring"] is True
    sure = value["sure"]
    assert sure["time_interval_s"][1] <= 1.2 * value["default"]["time_s"] * (1 + 1e-9) or (
        sure["setting"] == value["default"]["setting"]
    )
    assert "slowdown" in refused(capsys, *options, "--constraint", "slowdown<=-90%")


def test_what_was_measured_of_it_is_an_anchor_and_teaches_nothing(
    table: Path, capsys: Capture
) -> None:
    options = ("--device", f"replay:{table}", "--tasks", str(table))
    value = found(capsys, "predict", "alpha", *options, "--knobs", "power_limit,batch_size")
    assert value["groups"] == 3
    assert len(value["anchors"]) == 3
    assert value["points"] == 36


def test_missing_pieces_are_one_sentence_with_the_cure(
    table: Path, saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    predict = ("predict", "resnet50", "--device")
    assert "h100" in refused(capsys, *predict, "h101", "--tasks", str(table))
    assert "nothing to learn from" in refused(capsys, *predict, "h100")
    assert "--tasks" in refused(capsys, *predict, "h100", "--predictor", str(saved), "--tasks", "x")
    assert "cannot be read" in refused(
        capsys, *predict, "h100", "--predictor", str(tmp_path / "no")
    )
    text = refused(capsys, *predict, "h100", "--predictor", str(saved), "--knobs", "precision")
    assert "precision cannot be predicted" in text
    lone = tmp_path / "lone.csv"
    rows = [row for row in table.read_text().splitlines() if "alpha" in row or "device," in row]
    lone.write_text("\n".join(rows) + "\n")
    assert "two other models" in refused(capsys, *predict, "h100", "--tasks", str(lone))
    nowhere = str(tmp_path / "nowhere" / "p.json")
    assert "nowhere" in refused(capsys, *predict, "h100", "--tasks", str(table), "--save", nowhere)


def test_the_evaluation_of_a_table_and_of_its_store_agree(
    table: Path, tmp_path: Path, capsys: Capture
) -> None:
    value = found(capsys, "evaluate", str(table), "--search", "linear")
    assert sorted({one["model"] for one in value["tasks"]}) == ["alpha", "beta", "delta", "gamma"]
    assert list(value["ways"]) == ["default", "offline choice", "linear"]
    assert value["groups"] == 3
    assert value["errors"]["power"]["mean"] < 0.2
    assert value["ways"]["linear"]["trials"] <= 9
    store = str(tmp_path / "own.sqlite")
    assert main(["import", str(table), "--store", store]) == 0
    capsys.readouterr()
    again = found(capsys, "evaluate", store, "--search", "linear")
    for one in ("throughput", "power"):
        assert again["errors"][one]["mean"] == pytest.approx(value["errors"][one]["mean"], rel=0.02)
    assert again["ways"]["linear"]["regret"] == pytest.approx(value["ways"]["linear"]["regret"])


def test_every_search_that_tune_knows_is_compared(table: Path, capsys: Capture) -> None:
    from lowjoule.cli.tune import SEARCHES

    value = found(capsys, "evaluate", str(table))
    refused_ones = [one for one in SEARCHES if any(f"no {one} search" in n for n in value["notes"])]
    assert set(value["ways"]) == {"default", "offline choice", *SEARCHES} - set(refused_ones)
    assert value["ways"]["exhaustive"]["regret"]["worst"] == pytest.approx(0.0)
    assert "linear" in refused(capsys, "evaluate", str(table), "--search", "linea")


def test_too_few_models_are_said_with_what_to_do(table: Path, capsys: Capture) -> None:
    text = refused(capsys, "evaluate", str(table), "--model", "a")
    assert "--model" in text
    assert "--leave-out" in refused(capsys, "evaluate", str(table), "--leave-out", "device")


def test_an_evaluation_in_the_terminal_and_as_a_page(
    table: Path, tmp_path: Path, capsys: Capture
) -> None:
    options = ("evaluate", str(table), "--search", "linear")
    assert main(list(options)) == 0
    seen = capsys.readouterr()
    assert "REPLAYED" in seen.out
    assert "1 of 4: 1 tasks of alpha" in seen.err
    page = tmp_path / "page.html"
    assert main([*options, "--html", str(page)]) == 0
    assert page.read_text(encoding="utf-8").count("<svg") == 3


def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    table: Path, capsys: Capture
) -> None:
    there = str(table.parent / "no folder" / "page")
    options = ("predict", "resnet50", "--device", "a40", "--tasks", str(table))
    for words in (
        (*options, "--html", there),
        (*options, "--save", there),
        ("evaluate", str(table), "--html", there),
    ):
        assert main(list(words)) == 2
        seen = capsys.readouterr()
        assert "nothing can be written to" in seen.err
        assert "learning from" not in seen.err
        assert "tasks of" not in seen.err
