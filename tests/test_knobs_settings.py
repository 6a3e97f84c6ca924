from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs import (
    BATCH_SIZE,
    MEMORY_CLOCK,
    MICRO_BATCH,
    POWER_LIMIT,
    PRECISION,
    SM_CLOCK,
    Applied,
    AtMost,
    Change,
    Divides,
    Knob,
    Privilege,
    Scope,
    Setting,
    Space,
    change_between,
    micro_batch_knob,
    parse_setting,
    show_setting,
    standard_knob,
)
from lowjoule.quantities import Unit

LIMIT = standard_knob(POWER_LIMIT, (100.0, 250.0, 400.0), 400.0, latency_s=0.1)
CLOCK = standard_knob(SM_CLOCK, (0.9e9, 1.335e9, 1.41e9), 1.41e9, latency_s=0.02)
BATCH = standard_knob(BATCH_SIZE, (32, 64, 128), 64)
KIND = standard_knob(PRECISION, ("fp32", "bf16"), "bf16")
SPACE = Space((LIMIT, CLOCK, BATCH, KIND))

VALUES = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["bf16", "fp32"]),
)
SETTINGS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), VALUES, max_size=4).map(Setting)


@given(SETTINGS, st.randoms(use_true_random=False))
def test_equal_values_in_any_order_are_one_setting(setting: Setting, random: object) -> None:
    items = list(setting.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    other = Setting(items)
    assert other == setting
    assert hash(other) == hash(setting)
    assert len({other, setting}) == 1
    assert list(other) == sorted(other)


@given(SETTINGS, SETTINGS)
def test_settings_are_equal_as_their_dictionaries_are(a: Setting, b: Setting) -> None:
    assert (a == b) == (dict(a) == dict(b))
    if a == b:
        assert hash(a) == hash(b)


@given(SETTINGS, SETTINGS)
def test_what_changed_is_what_leads_there(a: Setting, b: Setting) -> None:
    changed = a.changed(b)
    assert a.replace(**b.only(changed)) == a.replace(**b)
    assert all(name not in a or a[name] != b[name] for name in changed)


@given(SETTINGS)
def test_a_setting_survives_copies(setting: Setting) -> None:
    for other in (copy.copy(setting), copy.deepcopy(setting), pickle.loads(pickle.dumps(setting))):
        assert other == setting
        assert hash(other) == hash(setting)


def test_a_setting_from_another_process_is_found_among_ours() -> None:
    setting = Setting({POWER_LIMIT: 250.0, PRECISION: "bf16"})
    script = (
        "import pickle, sys; from lowjoule.knobs import Setting;"
        "s = pickle.load(sys.stdin.buffer);"
        "sys.exit(s not in {Setting({'precision': 'bf16', 'power_limit': 250.0})})"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(setting),
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=False,
    )
    assert done.returncode == 0


def test_a_setting_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        Setting({"a": 1})["a"] = 2  # type: ignore[index]


def test_asked_and_achieved() -> None:
    asked = Setting({POWER_LIMIT: 250.0})
    assert Applied(asked, asked).exact
    assert not Applied(asked, Setting({POWER_LIMIT: 240.0})).exact
    assert not Applied(asked, asked, enforced={POWER_LIMIT: 200.0}).exact


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"values": ()}, "has no values"),
        ({"values": (2.0, 1.0), "default": 1.0}, "ascending"),
        ({"values": (1.0, 1.0), "default": 1.0}, "ascending"),
        ({"values": (1.0, "x"), "default": 1.0}, "ascending"),
        ({"values": (math.nan,), "default": 1.0}, "ascending"),
        ({"values": (1.0, math.inf), "default": 1.0}, "ascending"),
        ({"values": ("x", "x"), "default": "x"}, "twice"),
        ({"default": 3.0}, "not among its values"),
        ({"latency_s": -1.0}, "latency"),
        ({"latency_s": math.nan}, "latency"),
    ],
)
def test_a_knob_that_makes_no_sense_is_refused(changes: dict[str, object], problem: str) -> None:
    good = Knob(name="k", unit=Unit.NONE, values=(1.0, 2.0), default=1.0)
    with pytest.raises(InvalidValueError, match=problem):
        replace(good, **changes)  # type: ignore[arg-type]


def test_the_nearest_value_is_the_lower_on_a_tie() -> None:
    assert LIMIT.nearest(175.0) == 100.0
    assert LIMIT.nearest(176.0) == 250.0
    assert LIMIT.nearest(-1e9) == 100.0
    with pytest.raises(InvalidValueError, match="has names"):
        KIND.nearest(1.0)


@given(
    st.sampled_from([Unit.WATT, Unit.HERTZ, Unit.COUNT, Unit.SECOND, Unit.RATIO, Unit.BYTE]),
    st.sets(st.floats(1e-6, 1e12), min_size=1, max_size=8),
)
def test_a_knob_reads_back_every_value_that_it_shows(unit: Unit, values: set[float]) -> None:
    ordered = tuple(sorted(values))
    apart = all(b > a * (1 + 1e-9) for a, b in itertools.pairwise(ordered))
    knob = Knob(name="k", unit=unit, values=ordered, default=ordered[0])
    for value in ordered if apart else ():
        assert knob.parse(knob.show(value)) == value


def test_knobs_read_what_people_write() -> None:
    assert LIMIT.parse("0.25kW") == 250.0
    assert CLOCK.parse("1335 MHz") == 1.335e9
    assert CLOCK.parse("1.335GHz") == 1.335e9
    assert BATCH.parse("64") == 64
    assert KIND.parse(" bf16 ") == "bf16"
    with pytest.raises(InvalidValueError, match="power_limit cannot be 251 W; it takes 100 W, 250"):
        LIMIT.parse("251W")
    with pytest.raises(InvalidValueError, match="precision cannot be fp8; it takes fp32, bf16"):
        KIND.parse("fp8")


def test_a_long_domain_is_described_by_its_ends() -> None:
    knob = standard_knob(BATCH_SIZE, range(1, 100), 1)
    assert knob.describe() == "1, 2 ... 99"


def test_the_standard_knobs() -> None:
    assert (LIMIT.unit, LIMIT.scope, LIMIT.changes_learning) == (Unit.WATT, Scope.LIVE, False)
    assert (CLOCK.unit, CLOCK.privilege) == (Unit.HERTZ, Privilege.ADMINISTRATOR)
    assert standard_knob(MEMORY_CLOCK, (1e9,), 1e9).unit is Unit.HERTZ
    assert (BATCH.scope, BATCH.changes_learning) == (Scope.RESTART, True)
    assert (KIND.scope, KIND.changes_learning) == (Scope.RESTART, True)
    assert standard_knob(BATCH_SIZE, (64, 32, 64), 32).values == (32, 64)
    assert standard_knob(PRECISION, ("fp32", "bf16", "fp32"), "fp32").values == ("fp32", "bf16")
    other = standard_knob("fan", (1.0, 2.0), 1.0)
    assert (other.unit, other.scope, other.privilege) == (Unit.NONE, Scope.LIVE, Privilege.NONE)


def test_a_micro_batch_keeps_the_global_batch() -> None:
    knob = micro_batch_knob(12)
    assert knob.values == (1, 2, 3, 4, 6, 12)
    assert (knob.name, knob.default, knob.scope) == (MICRO_BATCH, 12, Scope.STEP)
    assert not knob.changes_learning
    assert micro_batch_knob(12, default=3).default == 3
    with pytest.raises(InvalidValueError, match="not among its values"):
        micro_batch_knob(12, default=5)
    with pytest.raises(InvalidValueError, match="global batch of 0"):
        micro_batch_knob(0)


@given(st.integers(1, 5000))
def test_micro_batches_are_all_divisors(batch: int) -> None:
    assert micro_batch_knob(batch).values == tuple(n for n in range(1, batch + 1) if batch % n == 0)


def test_a_change_takes_what_its_dearest_knob_takes() -> None:
    start = SPACE.default
    assert change_between(start, start, SPACE) == Change()
    assert change_between(start, start.replace(sm_clock=0.9e9), SPACE) == Change(
        (SM_CLOCK,), Scope.LIVE, 0.02, Privilege.ADMINISTRATOR, False
    )
    both = change_between(start, Setting({SM_CLOCK: 0.9e9, POWER_LIMIT: 100.0}), SPACE)
    assert (both.scope, both.latency_s) == (Scope.LIVE, 0.1)
    restart = change_between(start, start.replace(batch_size=32, power_limit=100.0), SPACE)
    assert set(restart.names) == {BATCH_SIZE, POWER_LIMIT}
    assert (restart.scope, restart.latency_s) == (Scope.RESTART, 0.1)
    assert restart.changes_learning
    assert change_between(start, Setting({BATCH_SIZE: 32}), SPACE).privilege is Privilege.NONE
    with pytest.raises(UnknownNameError, match="unknown knob 'fan'"):
        change_between(start, Setting({"fan": 1.0}), SPACE)


def test_a_setting_is_read_from_text() -> None:
    assert parse_setting("power_limit=250W,batch_size=64", SPACE) == Setting(
        {POWER_LIMIT: 250.0, BATCH_SIZE: 64}
    )
    assert parse_setting(" sm_clock = 1335 MHz , precision=fp32 ", SPACE) == Setting(
        {SM_CLOCK: 1.335e9, PRECISION: "fp32"}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write it like power_limit=400W,sm_clock=1.410GHz"),
        ("power_limit", "does not give a knob a value"),
        ("power_limit=", "does not give a knob a value"),
        ("=250W", "does not give a knob a value"),
        ("power_limit=250W,", "does not give a knob a value"),
        ("power_limit=250W,power_limit=100W", "given twice"),
        ("power_limt=250W", "did you mean 'power_limit'"),
        ("power_limit=250J", "write it like 300W"),
        ("power_limit=260W", "power_limit cannot be 260 W"),
    ],
)
def test_a_setting_that_says_nothing_sensible_is_refused(text: str, message: str) -> None:
    with pytest.raises((InvalidValueError, UnknownNameError), match=message):
        parse_setting(text, SPACE)


def test_a_whole_setting_must_keep_the_rules() -> None:
    space = Space((BATCH, micro_batch_knob(128)), (Divides(MICRO_BATCH, BATCH_SIZE),))
    assert parse_setting("micro_batch=128", space) == Setting({MICRO_BATCH: 128})
    with pytest.raises(InvalidValueError, match="micro_batch must divide batch_size"):
        parse_setting("batch_size=64,micro_batch=128", space)


def test_a_setting_is_shown_in_the_order_of_its_space() -> None:
    assert show_setting(SPACE.default, SPACE) == (
        "power_limit=400 W, sm_clock=1.410 GHz, batch_size=64, precision=bf16"
    )
    assert show_setting(Setting({"fan": 3, BATCH_SIZE: 32}), SPACE) == "batch_size=32, fan=3"


@given(st.sampled_from(SPACE.settings), st.sets(st.sampled_from(SPACE.names), min_size=1))
def test_what_is_shown_is_read_back(setting: Setting, names: set[str]) -> None:
    part = setting.only(names)
    assert parse_setting(show_setting(part, SPACE), SPACE) == part


@given(st.text(max_size=30))
def test_any_text_is_a_setting_or_our_error(text: str) -> None:
    try:
        setting = parse_setting(text, SPACE)
    except (InvalidValueError, UnknownNameError):
        return
    assert all(value in SPACE.knob(name).values for name, value in setting.items())


def test_rules_say_what_they_want() -> None:
    assert AtMost("a", "b").reason() == "a must not exceed b"
    assert Divides("a", "b").reason() == "a must divide b"
