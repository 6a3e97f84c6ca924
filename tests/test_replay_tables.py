from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.devices.replay import ReplayDevice, Table, parse_table, read_table
from lowjoule.errors import InvalidValueError, TableError, UnknownNameError
from lowjoule.knobs import Setting
from lowjoule.source import Source
from lowjoule.workloads import WorkUnit

ZEUS = """dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power
cifar100,shufflenetv2,512,adam,100,20.0,80.0
cifar100,shufflenetv2,512,adadelta,100,10.0,80.0
cifar100,shufflenetv2,512,adadelta,200,8.0,150.0
cifar100,shufflenetv2,256,adadelta,200,9.0,140.0
"""
PLAIN = "workload,power_limit_w,sm_clock_mhz,batch_size,time_s,energy_j\n"


def table(text: str, stem: str = "runs", **columns: str) -> Table:
    return parse_table(text.encode(), name=f"{stem}.csv", stem=stem, columns=columns)


def refused(text: str, **columns: str) -> str:
    with pytest.raises(TableError) as caught:
        table(text, **columns)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.cure
    return message


def test_a_zeus_trace_is_recognised_by_its_columns() -> None:
    found = table(ZEUS, stem="summary_power_v100")
    assert found.model == "NVIDIA V100"
    assert list(found.tasks) == ["cifar100/shufflenetv2/adam", "cifar100/shufflenetv2"]
    task = found.task("cifar100/shufflenetv2")
    assert task.unit is WorkUnit.EPOCH
    point = task.points[Setting({"power_limit": 200.0, "batch_size": 512})]
    assert (point.time_s, point.energy_j, point.windows) == (8.0, 1200.0, 1)
    assert any("adadelta" in note for note in found.notes)
    assert found.task("cifar100/shufflenetv2/adadelta") is task


def test_a_trace_without_the_optimizer_column_is_one_too() -> None:
    text = "dataset,network,batch_size,power_limit,time_per_epoch,average_power\na,b,8,100,1,50\n"
    assert list(table(text).tasks) == ["a/b"]


def test_the_published_default_or_the_largest_measured_below_it() -> None:
    device = ReplayDevice(table(ZEUS))
    workload = device.workload("cifar100/shufflenetv2")
    default = device.joint_space(workload).default
    assert default == Setting({"power_limit": 200.0, "batch_size": 512})
    assert not any("assumed" in note for note in device.notes)


def test_the_plain_format_with_units_in_the_names() -> None:
    text = PLAIN.replace("time_s,energy_j", "time_ms,energy_kj") + "job,250,1410,64,500,0.1\n"
    (task,) = table(text).tasks.values()
    setting = Setting({"power_limit": 250.0, "sm_clock": 1.41e9, "batch_size": 64})
    assert task.points[setting].time_s == pytest.approx(0.5)
    assert task.points[setting].energy_j == pytest.approx(100.0)


def test_power_times_time_where_there_is_no_energy() -> None:
    (task,) = table("power_limit_w,time_s,power_w\n100,2,75\n", stem="mine").tasks.values()
    assert task.name == "mine"
    assert task.points[Setting({"power_limit": 100.0})].energy_j == 150.0


def test_the_users_mapping_names_the_columns() -> None:
    text = "net,limit,sec,watts\nr50,100,2,75\nvit,100,3,75\n"
    found = table(text, workload="net", power_limit_w="limit", time_s="sec", power_w="watts")
    assert list(found.tasks) == ["r50", "vit"]
    text = "data,net,f,sec,watts\nimg,r50,1.2,2,75\n"
    found = table(text, workload="data+net", sm_clock_ghz="f", time_min="sec", power_w="watts")
    point = found.task("img/r50").points[Setting({"sm_clock": 1.2e9})]
    assert point.time_s == 120.0


def test_a_mapped_column_wins_over_the_formats_own() -> None:
    text = ZEUS.replace("time_per_epoch", "seconds")
    assert "looks like a Zeus power trace" in refused(text)
    found = table(text, time_s="seconds")
    assert found.format == "zeus-power"
    assert found.task("cifar100/shufflenetv2").unit is WorkUnit.EPOCH


def test_a_plain_table_is_not_taken_for_a_published_one() -> None:
    text = "workload,power_limit,batch_size,time_s,power_w\na,100,8,1,50\n"
    assert table(text).format == "plain"
    mapped = {"workload": "n", "power_limit_w": "l", "time_s": "t", "power_w": "p"}
    assert table("n,l,t,p\na,100,1,50\n", **mapped).format == "plain"


def test_the_unit_of_work_comes_from_a_column_or_a_name() -> None:
    text = "power_limit_w,time_s,energy_j,unit\n100,1,5,tokens\n"
    assert table(text).task().unit is WorkUnit.TOKEN
    text = "power_limit_w,time_per_epoch,average_power\n100,1,5\n"
    assert table(text).task().unit is WorkUnit.EPOCH
    text = "power_limit_w,time_s,energy_j\n100,1,5\n"
    assert any("unit of work" in note for note in table(text).notes)
    assert "'fortnight'" in refused("power_limit_w,time_s,energy_j,unit\n100,1,5,fortnight\n")


def test_figures_of_an_amount_of_work_become_those_of_one_unit() -> None:
    text = "power_limit_w,time_s,energy_j,work,unit\n100,10,500,20,sample\n"
    (point,) = table(text).task().points.values()
    assert (point.time_s, point.energy_j) == (0.5, 25.0)


def test_steps_of_several_batch_sizes_are_counted_in_samples() -> None:
    text = PLAIN.strip() + ",unit\na,100,1000,10,1,50,step\na,100,1000,20,1.5,80,step\n"
    task = table(text).task()
    assert task.unit is WorkUnit.SAMPLE
    assert [point.time_s for point in task.points.values()] == [0.1, 0.075]


def test_repeated_measurements_become_windows_of_one_point() -> None:
    text = "power_limit_w,time_s,energy_j,repeat\n100,1,50,1\n100,3,70,2\n200,1,90,1\n"
    low, high = table(text).task().points.values()
    assert (low.time_s, low.energy_j, low.windows) == (2.0, 60.0, 2)
    assert low.time_sd_s == pytest.approx(2**0.5)
    assert low.energy_sd_j == pytest.approx(10 * 2**0.5)
    assert (high.windows, high.time_sd_s) == (1, None)


def test_other_columns_are_carried_or_ignored_with_a_note() -> None:
    text = "power_limit_w,time_s,energy_j,peak_power_w,wait_power_w,mood\n100,1,50,90,,good\n"
    found = table(text)
    (point,) = found.task().points.values()
    assert (point.peak_power_w, point.wait_power_w) == (90.0, None)
    assert any("mood" in note for note in found.notes)
    profile = found.profile("runs")
    assert profile.source is Source.REPLAYED
    assert profile.work.unit is WorkUnit.ITERATION


def test_quotes_bom_crlf_and_blank_lines_are_fine() -> None:
    text = '\ufeff"power_limit_w",time_s,energy_j\r\n\r\n 100 ,"1",50\r\n\r\n'
    assert len(table(text).task().points) == 1


GOOD = "a,100,1000,8,1,50\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (PLAIN, "no rows"),
        (PLAIN + GOOD + GOOD.replace(",1,50", ",-1,50"), "line 3 has -1 as time"),
        (PLAIN + GOOD.replace(",1,50", ",0,50"), "line 2 has 0 as time"),
        (PLAIN + GOOD.replace(",1,50", ",1,nan"), "'nan' in column 'energy_j'"),
        (PLAIN + GOOD.replace(",1,50", ",1,inf"), "not a finite number"),
        (PLAIN + GOOD.replace(",1,50", ",1,1e999"), "not a finite number"),
        (PLAIN + GOOD.replace(",1,50", ",1,1e300"), "out of range"),
        (PLAIN + GOOD.replace(",1,50", ",1_0,50"), "'1_0'"),
        (PLAIN + GOOD.replace(",1,50", ",fast,50"), "'fast' in column 'time_s'"),
        (PLAIN + GOOD.replace(",1,50", ",,50"), "line 2 has no time"),
        (PLAIN + GOOD.replace(",1,50", ",1,"), "neither energy nor power"),
        (PLAIN + GOOD.replace("a,100", "a,"), "no power_limit"),
        (PLAIN + GOOD.replace("a,100", ",100"), "names no workload"),
        (PLAIN + GOOD.replace("1000,8", "1000,8.5"), "positive whole number"),
        (PLAIN.replace("_mhz", "") + GOOD, "sm_clock_mhz=NAME"),
        (PLAIN + GOOD + GOOD, "lines 2 and 3 both measure a at"),
        (PLAIN + GOOD + "a,100,1000\n", "line 3 has 3 fields and the header 6"),
        (PLAIN + 'a,100,"1000,8,1,50\n', "not CSV"),
        (PLAIN.replace("energy_j", "time_ms") + GOOD, "for the same thing"),
        (PLAIN.replace("energy_j", "time_s") + GOOD, "two columns called 'time_s'"),
        (PLAIN.replace("energy_j", "joules") + GOOD, "--column energy_j=NAME"),
        (PLAIN.replace("time_s", "seconds") + GOOD, "--column time_s=NAME"),
        ("a,time_s,energy_j\n1,1,1\n", "any knob"),
        ("power_limit_w;time_s;energy_j\n1;1;1\n", "no column for time"),
        ("power_limit_w,time_s,energy_j,power_w\n1,1,1,1000\n", "power x time is 1000 J"),
        ("power_limit_w,time_s,energy_j,device\n1,1,1,x\n2,1,1,y\n", "one device a table"),
        ("power_limit_w,time_s,energy_j,unit\n1,1,1,step\n2,1,1,epoch\n", "one unit"),
    ],
)
def test_a_doubtful_table_is_refused_with_the_place_and_the_cure(text: str, says: str) -> None:
    assert says in refused(text)


@pytest.mark.parametrize("column", ["network", "power_limit", "time_per_epoch", "average_power"])
def test_a_missing_column_of_a_known_format_is_named_with_its_mapping(column: str) -> None:
    message = refused(ZEUS.replace(column, "other", 1))
    assert f"no column {column!r}" in message
    ours = {
        "network": "workload",
        "power_limit": "power_limit_w",
        "time_per_epoch": "time_s",
        "average_power": "power_w",
    }[column]
    assert f"--column {ours}=NAME" in message
    table(ZEUS.replace(column, "other", 1), **{ours: "other"} if ours != "workload" else WORKLOAD)


WORKLOAD = {"workload": "dataset+other"}


def test_several_missing_columns_are_named_together() -> None:
    message = refused("workload,sm_clock_mhz,x\na,1000,1\n")
    assert "time" in message
    assert "energy or power" in message


def test_a_mapping_is_checked() -> None:
    with pytest.raises(TableError, match=r"no column 'secs' for time_s; did you mean 'sec'"):
        table("power_limit_w,sec,energy_j\n1,1,1\n", time_s="secs")
    with pytest.raises(UnknownNameError, match="time_s"):
        table("power_limit_w,sec,energy_j\n1,1,1\n", tme_s="sec")


def test_another_encoding_is_named_with_its_line() -> None:
    with pytest.raises(TableError, match=r"line 2: byte \d+ is not UTF-8"):
        parse_table(PLAIN.encode() + b"caf\xe9,1,1000,8,1,1\n", name="x.csv", stem="x")
    with pytest.raises(TableError, match="UTF-8"):
        parse_table(PLAIN.encode("utf-16"), name="x.csv", stem="x")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(PLAIN + GOOD)
    with pytest.raises(TableError, match=r"did you mean .*runs\.csv"):
        open_device(f"replay:{tmp_path}/run.csv")
    with pytest.raises(TableError, match="check the path"):
        read_table(tmp_path / "no" / "such.csv")
    with pytest.raises(TableError, match="directory"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="null"):
        read_table("runs\0.csv")


def test_other_figures_for_a_study_have_another_identity() -> None:
    found = table(PLAIN + GOOD + GOOD.replace("100", "200"))
    other = found.with_figures("a", time_s=[1.0, 2.0], energy_j=[3.0, 4.0])
    assert [point.energy_j for point in other.task("a").points.values()] == [3.0, 4.0]
    assert other.digest != found.digest
    assert any("not those of the file" in note for note in other.notes)
    for wrong in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(InvalidValueError):
            found.with_figures("a", time_s=wrong, energy_j=[1.0, 1.0])


def test_the_default_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "summary_power_p100.csv"
    path.write_text(ZEUS)
    options = OpenOptions(default={"batch_size": "256", "power_limit": "200W"})
    device = open_device(f"replay:{path}", options)
    assert isinstance(device, ReplayDevice)
    workload = device.workload("cifar100/shufflenetv2")
    assert device.joint_space(workload).default == Setting({"batch_size": 256, "power_limit": 200})


def test_repeated_rows_that_tell_a_spread_are_pooled_by_their_windows() -> None:
    text = (
        "workload,repeat,power_limit_w,time_s,energy_j,time_sd_s,windows,peak_power_w\n"
        "job,a,100,2.0,100,0.5,10,300\njob,b,100,2.2,110,0.5,10,400\n"
    )
    table = parse_table(text.encode(), name="t.csv", stem="t")
    (point,) = table.tasks["job"].points.values()
    assert point.windows == 20
    assert point.time_s == pytest.approx(2.1)
    # within: 18 x 0.5^2, between: 20 x 0.1^2, over 19 degrees of freedom
    assert point.time_sd_s == pytest.approx(math.sqrt((18 * 0.25 + 20 * 0.01) / 19))
    assert point.peak_power_w == 400.0
