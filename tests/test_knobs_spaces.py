from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError, UnknownNameError
from lowjoule.knobs import (
    BATCH_SIZE,
    MICRO_BATCH,
    AtMost,
    Divides,
    Knob,
    Rule,
    Setting,
    Space,
    micro_batch_knob,
    path,
    standard_knob,
    turnable,
)
from lowjoule.knobs.space import columns_of
from lowjoule.quantities import Unit


def knob(name: str, *values: float | int | str) -> Knob:
    return Knob(name=name, unit=Unit.NONE, values=values, default=values[-1])


def plainly(space: Space) -> list[Setting]:
    """All allowed settings, one at a time, by the words of the rules."""
    found = []
    for values in itertools.product(*(one.values for one in space.knobs)):
        setting = Setting(zip(space.names, values, strict=True))
        good = space.listed is None or setting in space.listed
        for rule in space.rules:
            if isinstance(rule, AtMost):
                good &= setting.number(rule.low) <= setting.number(rule.high)
            if isinstance(rule, Divides):
                good &= setting.number(rule.whole) % setting.number(rule.part) == 0
        if good:
            found.append(setting)
    return found


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    domains = st.sets(st.integers(1, 12), min_size=1, max_size=5)
    names = ("low", "middle", "high")
    knobs = [knob(name, *sorted(draw(domains))) for name in names]
    knobs.append(knob("kind", "x", "y"))
    possible: list[Rule] = [
        AtMost("low", "middle"),
        AtMost("middle", "high"),
        Divides("low", "high"),
    ]
    rules = draw(st.lists(st.sampled_from(possible), unique=True))
    space = Space(tuple(knobs), tuple(rules))
    every = plainly(space)
    if draw(st.booleans()) and every:
        listed = draw(st.sets(st.sampled_from(every)))
        return Space(space.knobs, space.rules, frozenset(listed))
    return space


@given(spaces())
def test_a_space_is_what_its_rules_and_list_leave_of_the_product(space: Space) -> None:
    expected = plainly(space)
    assert list(space) == expected
    assert len(space) == len(expected)
    table = space.columns()
    assert list(table) == list(space.names)
    for name, column in table.items():
        assert list(column) == [setting[name] for setting in expected]
        assert column.dtype.kind == ("U" if name == "kind" else "f")


@given(spaces(), st.integers(0, 13), st.integers(0, 13), st.integers(0, 13))
def test_membership_and_check_agree_with_the_list(space: Space, a: int, b: int, c: int) -> None:
    setting = Setting({"low": a, "middle": b, "high": c, "kind": "x"})
    inside = setting in plainly(space)
    assert (setting in space) == inside
    try:
        space.check(setting)
    except InvalidValueError:
        assert not inside
    else:
        assert inside


@given(spaces(), st.data())
def test_neighbours_are_inverse(space: Space, data: st.DataObject) -> None:
    if not len(space):
        return
    setting = data.draw(st.sampled_from(space.settings))
    name = data.draw(st.sampled_from(space.names))
    steps = data.draw(st.integers(-3, 3))
    other = space.neighbour(setting, name, steps)
    if other is not None:
        assert other in space
        assert set(setting.changed(other)) <= {name}
        assert space.neighbour(other, name, -steps) == setting
    line = space.line(setting, name)
    assert line == [one for one in plainly(space) if set(setting.changed(one)) <= {name}]


def test_what_is_not_a_whole_setting_is_not_in_a_space() -> None:
    space = Space((knob("a", 1, 2), knob("b", 1, 2)))
    assert Setting({"a": 1, "b": 2.0}) in space
    assert Setting({"a": 1}) not in space
    assert Setting({"a": 1, "b": 2, "c": 3}) not in space
    assert Setting({"a": 1, "c": 2}) not in space
    assert "a" not in space
    assert None not in space
    assert space.line(Setting({"a": 1, "b": 9}), "a") == []
    assert space.neighbour(Setting({"a": 1, "b": 9}), "a", 0) is None


def test_check_says_what_is_wrong() -> None:
    space = Space((knob("a", 1, 2), knob("b", 1, 2)), (AtMost("a", "b"),))
    cases: list[tuple[dict[str, float], str]] = [
        ({"a": 1}, "no value for \\['b'\\]; give one for every knob"),
        ({"a": 3, "b": 1}, "a cannot be 3; it takes 1, 2"),
        ({"a": 2, "b": 1}, "is not allowed; a must not exceed b"),
    ]
    for values, message in cases:
        with pytest.raises(InvalidValueError, match=message):
            space.check(Setting(values))
    with pytest.raises(UnknownNameError, match="unknown knob 'c'"):
        space.check(Setting({"a": 1, "b": 1, "c": 1}))
    with pytest.raises(InvalidValueError, match="choose a listed one"):
        Space(space.knobs, (), frozenset()).check(Setting({"a": 1, "b": 1}))
    with pytest.raises(InvalidValueError, match="named twice"):
        Space((knob("a", 1), knob("a", 2)))


def test_a_space_without_knobs_has_one_setting() -> None:
    assert list(Space(())) == [Setting()]
    assert Setting() in Space(())
    assert Space((), (AtMost("a", "b"),)).columns() == {}


def test_listed_settings_of_other_knobs_or_values_do_not_count() -> None:
    listed = frozenset(Setting(one) for one in ({"a": 2}, {"a": 9}, {"b": 1}, {"a": 1, "b": 1}))
    assert list(Space((knob("a", 1, 2),), (), listed)) == [Setting({"a": 2})]


def test_holding_knobs() -> None:
    space = Space((knob("a", 1, 2, 3), knob("b", 1, 2)), (AtMost("a", "b"),))
    held = space.fixed(a=2)
    assert list(held) == [Setting({"a": 2, "b": 2})]
    assert held.default == Setting({"a": 2, "b": 2})
    assert list(space.free(["a"])) == [Setting({"a": 1, "b": 2}), Setting({"a": 2, "b": 2})]
    with pytest.raises(InvalidValueError, match="a cannot be 4"):
        space.fixed(a=4)
    with pytest.raises(UnknownNameError, match="unknown knob 'c'"):
        space.fixed(c=4)
    with pytest.raises(UnknownNameError, match="unknown knob 'c'"):
        space.free(["c"])


def test_holding_a_knob_keeps_what_it_is() -> None:
    batch = standard_knob(BATCH_SIZE, (32, 64), 32, latency_s=2.0)
    held = Space((batch,)).fixed(batch_size=64).knob(BATCH_SIZE)
    assert (held.values, held.default) == ((64,), 64)
    assert (held.scope, held.latency_s, held.changes_learning) == (batch.scope, 2.0, True)


def test_a_large_space_is_counted_and_asked_without_its_settings() -> None:
    space = Space(tuple(knob(name, *range(50)) for name in "abcd"))
    assert len(space.fixed(a=0)) == 125_000
    assert Setting({"a": 1, "b": 2, "c": 3, "d": 4}) in space
    assert "settings" not in vars(space)
    assert "_index" not in vars(space)
    columns = space.fixed(a=7).columns()
    assert columns["a"].shape == (125_000,)
    assert np.all(columns["a"] == 7)


RULES: dict[str, tuple[Rule, ...]] = {
    "none": (),
    "chain": (AtMost("low", "middle"), AtMost("middle", "high")),
    "divides": (Divides("low", "high"),),
    "both": (AtMost("low", "middle"), Divides("low", "high")),
}
VALUES = st.integers(1, 12)


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@given(data=st.data())
def test_a_path_keeps_every_step_valid_and_ends_at_the_goal(
    rules: tuple[Rule, ...], data: st.DataObject
) -> None:
    space = Space(tuple(knob(name, *range(1, 7)) for name in ("low", "middle", "high")), rules)
    start, goal = (data.draw(st.sampled_from(space.settings)) for _ in range(2))
    there = path(start, goal, rules, space.knobs)
    back = path(goal, start, rules, space.knobs)
    for first, last, way in ((start, goal, there), (goal, start, back)):
        assert all(step in space for step in way)
        assert all(len(a.changed(b)) == 1 for a, b in itertools.pairwise([first, *way]))
        assert (way[-1] if way else first) == last


@given(data=st.data())
def test_bounds_in_a_chain_need_no_detour(data: st.DataObject) -> None:
    rules = RULES["chain"]
    start, goal = (
        Setting(
            zip(("low", "middle", "high"), sorted(data.draw(st.tuples(*[VALUES] * 3))), strict=True)
        )
        for _ in range(2)
    )
    assert len(path(start, goal, rules)) == len(start.changed(goal))


def test_a_path_through_another_value_where_no_order_is_valid() -> None:
    rules = (Divides(MICRO_BATCH, BATCH_SIZE),)
    knobs = (
        standard_knob(MICRO_BATCH, (1, 2, 3), 1),
        standard_knob(BATCH_SIZE, (4, 9), 4),
        standard_knob("fan", (1, 2), 1),
    )
    start = Setting({MICRO_BATCH: 2, BATCH_SIZE: 4, "fan": 1})
    goal = Setting({MICRO_BATCH: 3, BATCH_SIZE: 9})
    assert path(start, goal, rules, knobs) == [
        start.replace(micro_batch=1),
        start.replace(micro_batch=1, batch_size=9),
        start.replace(micro_batch=3, batch_size=9),
    ]
    with pytest.raises(InvalidValueError, match="micro_batch must divide batch_size"):
        path(start, goal, rules)
    with pytest.raises(InvalidValueError, match="no order of changes leads"):
        path(start, Setting({MICRO_BATCH: 3, BATCH_SIZE: 4}), rules, knobs)


def test_no_path_where_nothing_changes() -> None:
    here = Setting({"a": 1, "b": 2})
    assert path(here, here) == []
    assert path(here, Setting({"a": 1})) == []
    assert path(here, Setting({"a": 3})) == [Setting({"a": 3, "b": 2})]


def test_many_knobs_find_their_order_soon() -> None:
    names = [f"k{n:02}" for n in range(12)]
    rules = tuple(AtMost(a, b) for a, b in itertools.pairwise(names))
    start, goal = (Setting(dict.fromkeys(names, value)) for value in (1.0, 2.0))
    assert len(path(start, goal, rules)) == 12
    assert [next(iter(a.changed(b))) for a, b in itertools.pairwise(path(start, goal, rules))] == (
        names[-2::-1]
    )


def test_columns_of_settings() -> None:
    assert columns_of([]) == {}
    table = columns_of([Setting({"a": 1, "b": "x"}), Setting({"a": 2.5, "b": "yy"})])
    assert list(table["a"]) == [1.0, 2.5]
    assert list(table["b"]) == ["x", "yy"]


def test_a_batch_that_is_turned_runs_whole_unless_the_micro_batch_is_named() -> None:
    batch = standard_knob("batch_size", (32, 64, 128), 64)
    space = Space((batch, micro_batch_knob(64)), (Divides("micro_batch", "batch_size"),))
    assert turnable(space).names == ("batch_size", "micro_batch")
    assert turnable(space).knob("batch_size").values == (64,)
    assert turnable(space, ["batch_size"]).names == ("batch_size",)
    assert len(turnable(space, ["batch_size"])) == 3
    assert turnable(space, ["batch_size", "micro_batch"]).names == ("batch_size", "micro_batch")
    listed = Space(space.knobs, listed=frozenset([space.default]))
    assert turnable(listed, ["batch_size"]).names == ("batch_size", "micro_batch")
    with pytest.raises(UnknownNameError):
        turnable(space, ["batchsize"])
