from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lowjoule.cli.main import cli, main
from lowjoule.errors import InvalidValueError

TABLE = """workload,unit,power_limit_w,batch_size,time_s,energy_j
job,epoch,100,32,30,3000
job,epoch,200,32,20,3200
job,epoch,300,32,18,4000
job,epoch,100,64,26,2500
job,epoch,200,64,16,2600
job,epoch,300,64,15,3600
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "runs.csv"
    path.write_text(TABLE)
    return f"replay:{path}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["tune", *arguments])


def tuned(*arguments: str) -> dict[str, Any]:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_json_is_an_interface(table: str) -> None:
    found = tuned("--device", table, "--knobs", "power_limit,batch_size", "--objective", "energy")
    assert found["source"] == "replayed"
    assert found["workload"] == "job"
    assert found["objective"] == "energy"
    assert found["work"] == {"quantity": 1.0, "unit": "epoch"}
    assert found["units"] == {"power_limit": "W", "batch_size": "count"}
    assert found["chosen"]["setting"] == {"batch_size": 64, "power_limit": 100}
    assert found["chosen"]["time_s"] == 26.0
    assert found["chosen"]["energy_j"] == 2500.0
    assert found["chosen"]["power_w"] == pytest.approx(2500 / 26)
    for side in ("default", "chosen"):
        expected = {"setting", "time_s", "energy_j", "power_w", "objective", "uncertainty"}
        assert set(found[side]) == expected
    assert found["trials"] <= found["draws"] == len(found["history"])
    spent = sum(one["energy_j"] for one in found["history"])
    assert found["search_energy_j"] == pytest.approx(spent)
    default, draws = found["default"]["energy_j"], found["draws"]
    saved = default * 100 - spent - 2500.0 * (100 - draws)
    assert found["net_energy_saving_j"] == pytest.approx(saved)
    assert 1 < found["break_even_work"] <= 100


def test_learning_is_left_alone_unless_it_is_named(table: str) -> None:
    found = tuned("--device", table, "--objective", "energy", "--default", "batch_size=32")
    assert found["default"]["setting"] == {"batch_size": 32, "power_limit": 300}
    assert found["chosen"]["setting"] == {"batch_size": 32, "power_limit": 100}


def test_a_zeus_cost_takes_the_largest_limit_of_the_device(table: str) -> None:
    found = tuned("--device", table, "--objective", "zeus:0.5", "--default", "batch_size=32")
    assert found["objective"] == "zeus:0.5@300W"
    assert found["default"]["objective"] == pytest.approx(0.5 * 4000 + 0.5 * 300 * 18)


def test_constraints_are_kept(table: str) -> None:
    options = ("--device", table, "--knobs", "power_limit,batch_size", "--objective", "energy")
    found = tuned(*options, "--default", "batch_size=64", "--constraint", "slowdown<=10%")
    assert found["chosen"]["setting"] == {"batch_size": 64, "power_limit": 200}
    assert found["constraints"] == ["slowdown<=10%"]


def test_a_default_that_breaks_a_constraint_is_left(table: str) -> None:
    found = tuned("--device", table, "--objective", "time", "--constraint", "power<=110W")
    assert found["chosen"]["setting"]["power_limit"] == 100


@pytest.mark.parametrize("search", ["linear", "exhaustive", "random", "just-in-time"])
def test_every_search_runs_and_the_seed_decides(table: str, search: str) -> None:
    options = ("--device", table, "--search", search, "--noise", "2%", "--seed", "4")
    assert tuned(*options) == tuned(*options)


def test_a_table_for_people(table: str) -> None:
    result = run("--device", table, "--job", "50 epochs")
    assert result.exit_code == 0
    assert "REPLAYED: job" in result.stdout
    assert "Over 50 epochs" in result.stdout
    assert "draw 1: power_limit=300 W" in result.stderr
    assert "draw" not in result.stdout.split("\n")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workload", "jib"), "job"),
        (("--objective", "enrgy"), "energy"),
        (("--constraint", "slowdwn<=5%"), "slowdown"),
        (("--knobs", "power_limt"), "power_limit"),
        (("--search", "liner"), "linear"),
        (("--job", "many"), "epochs"),
        (("--job", "5 tokens"), "epoch"),
        (("--window", "long"), "6h"),
        (("--window", "0s"), "positive window"),
        (("--draws", "5"), "random"),
        (("--noise", "lots"), "5%"),
        (("--default", "batch_size=48"), "64"),
        (("--constraint", "power<=1W"), "closest"),
    ],
)
def test_bad_input_is_one_sentence_with_the_cure(
    table: str, arguments: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--device", table, *arguments]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert said in seen.err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("constraint", "limit"),
    [
        ("peak_power<=240W", 200),
        ("peak_power<=150W", 100),
        ("p99<=55ms", 300),
        ("p99<=75ms", 200),
        ("memory<=20GB", 100),
    ],
)
def test_what_a_table_knows_beside_time_and_energy_bounds_a_search(
    tmp_path: Path, constraint: str, limit: int
) -> None:
    path = tmp_path / "serve.csv"
    path.write_text(
        "workload,unit,power_limit_w,time_s,energy_j,peak_power_w,latency_ms,memory_gb\n"
        "serve,request,100,1.3,120,110,90,10\n"
        "serve,request,200,1.0,150,230,70,10\n"
        "serve,request,300,0.9,240,330,50,10\n"
    )
    goal = "time" if constraint.startswith("peak") else "energy"
    found = tuned("--device", f"replay:{path}", "--objective", goal, "--constraint", constraint)
    assert found["chosen"]["setting"]["power_limit"] == limit


def test_memory_bounds_a_search_on_a_simulated_gpu() -> None:
    options = ("--device", "sim:a100", "--workload", "resnet50", "--knobs", "micro_batch")
    assert tuned(*options, "--objective", "time")["chosen"]["setting"]["micro_batch"] == 256
    found = tuned(*options, "--objective", "time", "--constraint", "memory<=14GB")
    assert found["chosen"]["setting"]["micro_batch"] < 256


def test_trials_are_kept_in_a_store(table: str, tmp_path: Path) -> None:
    from lowjoule.source import Source
    from lowjoule.store import Store

    place = str(tmp_path / "kept.sqlite")
    found = tuned("--device", "sim:a100", "--workload", "resnet50", "--store", place)
    with Store.open(place) as store:
        records = store.records()
    assert len(records) == found["draws"]
    assert {record.source for record in records} == {Source.SIMULATED}
    assert {record.achieved["batch_size"] for record in records} == {256}
    with pytest.raises(InvalidValueError, match="noise"):
        CliRunner().invoke(
            cli,
            ["tune", "--device", table, "--noise", "1%", "--store", place],
            catch_exceptions=False,
        )


def test_a_simulated_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = tuned("--device", "sim:a100", "--workload", "resnet50", "--seed", "1")
    assert found["source"] == "simulated"
    assert found["chosen"]["objective"] < 1.0
    assert found["default"]["objective"] == 1.0
    assert found["default"]["setting"]["batch_size"] == found["chosen"]["setting"]["batch_size"]


def test_the_trials_of_a_failed_search_are_kept(table: str, tmp_path: Path) -> None:
    from lowjoule.store import Store

    place = str(tmp_path / "kept.sqlite")
    options = ["--device", table, "--constraint", "power<=1W", "--store", place]
    assert main(["tune", *options]) == 2
    with Store.open(place) as store:
        assert len(store.records()) >= 1


def test_spreads_that_a_table_tells_become_the_uncertainty(tmp_path: Path) -> None:
    path = tmp_path / "sd.csv"
    path.write_text(
        "workload,unit,power_limit_w,time_s,energy_j,time_sd_s,energy_sd_j\n"
        "job,epoch,100,3.0,450,0.0,40\njob,epoch,200,2.0,900,0.0,40\n"
    )
    found = tuned("--device", f"replay:{path}", "--objective", "energy", "--search", "exhaustive")
    assert found["chosen"]["energy_j"] == 450.0
    assert found["chosen"]["uncertainty"] == pytest.approx(40.0, rel=0.01)


def test_an_exhaustive_search_without_repeats_does_not_claim_to_know_the_noise(table: str) -> None:
    options = ("--device", table, "--knobs", "power_limit,batch_size", "--search", "exhaustive")
    assert tuned(*options)["confidence"] is None


def test_a_search_does_not_repeat_what_repeats_to_the_last_digit(data: Path) -> None:
    table = data / "zeus_nsdi23" / "summary_power_v100.csv"
    found = tuned(
        *("--device", f"replay:{table}", "--workload", "librispeech/deepspeech2"),
        *("--knobs", "power_limit,batch_size", "--objective", "energy"),
        *("--constraint", "slowdown<=0%"),
    )
    asked = [json.dumps(one["asked"], sort_keys=True) for one in found["history"]]
    assert max(asked.count(one) for one in asked) <= 2
