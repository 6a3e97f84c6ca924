from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cpu_trees import LIMIT, ability, backend, opened, package
from cpu_trees import refusing as refusing
from cpu_trees import tree as tree
from lowjoule.control import Claim
from lowjoule.errors import DeviceError, UnknownNameError
from lowjoule.knobs import POWER_LIMIT, Setting
from lowjoule.testing.sysfs import FakeSysfs


def test_the_limit_is_written_in_whole_watts_and_the_one_found_is_put_back(
    tmp_path: Path,
) -> None:
    tree = FakeSysfs(tmp_path / "sys", [package(limit_w=125.375)])
    device = opened(tree)
    knob = device.space.knob(POWER_LIMIT)
    assert knob.default == 125.375
    assert knob.values[0] == 1.0
    assert knob.values[-1] == 300.0
    assert len(knob.values) == 301
    assert knob.latency_s == 1.0
    with Claim(device, "test") as claim:
        claim.apply(Setting({POWER_LIMIT: 100.0}))
        assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 100_000_000
    assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 125_375_000


def test_a_clamped_limit_is_shown_as_achieved(tree: FakeSysfs) -> None:
    tree.clamp("intel-rapl:0", 80.125, 260.0)
    device = opened(tree)
    applied = device.apply(Setting({POWER_LIMIT: 50.0}))
    assert applied.achieved == Setting({POWER_LIMIT: 80.125})
    assert not applied.exact
    device.space.knob(POWER_LIMIT).index(80.125)
    assert device.space.knob(POWER_LIMIT).default == 250.0


def test_a_limit_that_somebody_else_sets_later_can_be_put_back(tree: FakeSysfs) -> None:
    device = opened(tree)
    tree.path("intel-rapl:0", LIMIT).write_text("123456789\n")
    with Claim(device, "test") as claim:
        claim.apply(Setting({POWER_LIMIT: 100.0}))
    assert tree.whole(tree.path("intel-rapl:0", LIMIT)) == 123_456_789


@pytest.mark.parametrize(
    ("found_w", "max_w", "least_w", "domain"),
    [
        (250.5, 0.0, None, (1.0, 250.5, 251)),
        (250.0, None, None, (1.0, 250.0, 250)),
        (4095.0, 125.0, None, (1.0, 4095.0, 126)),
        (200.0, 225.5, 90.5, (91.0, 225.0, 135)),
        (0.5, 0.0, None, (0.5, 0.5, 1)),
    ],
)
def test_the_domain_keeps_to_what_the_processor_says(
    tmp_path: Path,
    found_w: float,
    max_w: float | None,
    least_w: float | None,
    domain: tuple[float, float, int],
) -> None:
    zone = package(limit_w=found_w, max_w=max_w, least_w=least_w)
    values = opened(FakeSysfs(tmp_path / "sys", [zone])).space.knob(POWER_LIMIT).values
    assert (values[0], values[-1], len(values)) == domain


@pytest.mark.usefixtures("refusing")
def test_without_permission_there_is_no_knob_and_the_command_is_said(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0", LIMIT)
    path.chmod(0o444)
    device = opened(tree)
    assert device.space.names == ()
    assert device.current() == Setting()
    told = ability(device, POWER_LIMIT)
    assert not told.works
    assert told.detail == "250 W is in force: Permission denied"
    assert told.cure is not None
    assert f"| sudo tee {path}" in told.cure
    with pytest.raises(UnknownNameError):
        device.apply(Setting({POWER_LIMIT: 100.0}))


def test_a_limit_in_a_read_only_tree_is_no_knob(tree: FakeSysfs) -> None:
    class ReadOnly(FakeSysfs):
        def refusal(self, path: Path) -> OSError:
            return OSError(errno.EROFS, "Read-only file system")

    device = opened(ReadOnly(tree.root.parent / "other" / "sys", tree.zones.values()))
    told = ability(device, POWER_LIMIT)
    assert device.space.names == ()
    assert told.cure is not None
    assert "container" in told.cure


def test_a_limit_locked_by_the_firmware_is_an_error_with_its_cure(tree: FakeSysfs) -> None:
    path = tree.path("intel-rapl:0", LIMIT)
    tree.refuse(path)
    device = opened(tree)
    with pytest.raises(DeviceError, match=f"sudo tee {path}.*firmware"):
        device.apply(Setting({POWER_LIMIT: 100.0}))
    assert device.current() == Setting({POWER_LIMIT: 250.0})


def test_a_limit_of_nothing_is_none(tmp_path: Path) -> None:
    device = opened(FakeSysfs(tmp_path / "sys", [package(limit_w=0.0)]))
    assert device.space.names == ()
    assert "no limit is in force" in ability(device, POWER_LIMIT).detail


def test_the_long_term_limit_is_told_by_its_name(tree: FakeSysfs) -> None:
    folder = tree.path("intel-rapl:0", "")
    (folder / "constraint_0_name").write_text("peak_power\n")
    (folder / "constraint_1_name").write_text("long_term\n")
    (folder / "constraint_1_power_limit_uw").write_text("180000000\n")
    device = opened(tree)
    device.apply(Setting({POWER_LIMIT: 100.0}))
    assert tree.whole(folder / "constraint_1_power_limit_uw") == 100_000_000
    assert tree.whole(folder / "constraint_0_power_limit_uw") == 250_000_000


def test_opening_and_asking_write_nothing(tree: FakeSysfs) -> None:
    device = opened(tree)
    device.abilities()
    device.read()
    device.current()
    backend(tree).available()
    assert tree.written == []
