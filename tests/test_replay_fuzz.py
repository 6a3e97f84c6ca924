from __future__ import annotations

import csv
import io

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lowjoule.devices.replay import ReplayDevice, parse_table
from lowjoule.errors import LowjouleError
from lowjoule.knobs import Setting
from lowjoule.workloads import Work

ZEUS = b"""dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power
cifar100,shufflenetv2,512,adam,100,20.0,80.0
cifar100,shufflenetv2,512,adadelta,100,10.0,80.0
imagenet,resnet50,256,adadelta,200,9.0,140.0
"""
PLAIN = b"""workload,unit,power_limit_w,sm_clock_mhz,batch_size,time_s,energy_j,repeat,work
a,sample,200,1000,8,1.0,100,1,1
a,sample,200,1000,8,1.0,101,2,1
b,step,100,900,16,1.6,78,1,10
b,step,100,900,32,1.6,78,1,10
"""
LIMITS = b"""window_name,elapsed_time,gpu0_energy,gpu1_energy
optimizer_300,1,100,200
optimizer_200,2,200,210
"""
PIECES = [b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b",", b"\n", b"\r", b'"', b"-1", b"nan", b"1e999"]
PIECES += [
    b"inf",
    b"0",
    b"1e308",
    b"1e-320",
    b"9" * 400,
    b"time_s",
    b"1_0",
    "٣".encode(),
    b" ",
    b"{",
]


def take(content: bytes, columns: dict[str, str] | None = None) -> None:
    """Read a table and run all of it: only errors of ours may come, and no figure may be wrong."""
    try:
        found = parse_table(content, name="t.csv", stem="t", columns=columns)
        device = ReplayDevice(found)
        for name in device.workload_names():
            workload = device.workload(name)
            profile = device.survey(workload)
            assert (profile.time_s > 0).all()
            assert (profile.energy_j > 0).all()
            assert device.joint_space(workload).default in device.joint_space(workload)
            device.submit(workload, Work(1.0, workload.unit), Setting())
    except LowjouleError as caught:
        error = caught
    else:
        return
    assert error.cure
    assert "\n" not in str(error)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_only_raise_our_errors(content: bytes) -> None:
    take(content)


@settings(max_examples=300)
@given(st.data())
def test_mutated_tables_only_raise_our_errors(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([ZEUS, PLAIN, LIMITS])))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 12)))
        content[start:end] = data.draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)))
    take(bytes(content))


@settings(max_examples=300)
@given(st.data())
def test_tables_with_a_changed_cell_only_raise_our_errors(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([ZEUS, PLAIN, LIMITS])).decode()
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(rows) - 1))
        column = data.draw(st.integers(0, len(rows[row]) - 1))
        number = st.floats().map(str)
        rows[row][column] = data.draw(st.one_of(number, st.text(max_size=8), number))
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    take(out.getvalue().encode("utf-8", "surrogatepass"))


@given(
    st.dictionaries(
        st.sampled_from(["time_s", "time_ms", "workload", "power_w", "sm_clock_mhz", "x", ""]),
        st.sampled_from(["time_per_epoch", "dataset+network", "optimizer", "batch_size", "+", ""]),
        max_size=4,
    )
)
@example({"workload": "dataset+network"})
def test_mappings_only_raise_our_errors(columns: dict[str, str]) -> None:
    take(ZEUS, columns)


POSITIVE = st.floats(1e-6, 1e9)


@given(
    st.dictionaries(
        st.tuples(st.integers(50, 700), st.integers(1, 4096)),
        st.tuples(POSITIVE, POSITIVE),
        min_size=1,
        max_size=20,
    )
)
def test_a_written_table_is_read_back_exactly(
    points: dict[tuple[int, int], tuple[float, float]],
) -> None:
    out = io.StringIO()
    rows = [(*key, repr(time_s), repr(energy_j)) for key, (time_s, energy_j) in points.items()]
    header = ("power_limit_w", "batch_size", "time_s", "energy_j")
    csv.writer(out).writerows([header, *rows])
    task = parse_table(out.getvalue().encode(), name="t.csv", stem="t").task()
    read = {
        (setting["power_limit"], setting["batch_size"]): (point.time_s, point.energy_j)
        for setting, point in task.points.items()
    }
    assert read == points
