from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowjoule.errors import InvalidValueError
from lowjoule.quantities import Unit, parse, show

UNITS = st.sampled_from(Unit)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(FINITE, st.floats(-1e7, 1e7), st.integers(-(10**9), 10**9).map(float))
PIECES = st.sampled_from(
    [*"019.eE+- hmsdkMWJB%µun_١²\n\0", "min", "Wh", "Hz", "GiB", "inf", "nan", "E+3"]
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("6h", Unit.SECOND, 21600.0),
        ("90min", Unit.SECOND, 5400.0),
        ("15ms", Unit.SECOND, 0.015),
        ("20us", Unit.SECOND, 2e-5),
        ("20µs", Unit.SECOND, 2e-5),
        ("3ns", Unit.SECOND, 3e-9),
        ("2 days", Unit.SECOND, 172800.0),
        ("1h30m", Unit.SECOND, 5400.0),
        ("1d 2h 3min 4s", Unit.SECOND, 93784.0),
        ("300W", Unit.WATT, 300.0),
        ("1.2kW", Unit.WATT, 1200.0),
        ("250 mW", Unit.WATT, 0.25),
        ("2kWh", Unit.JOULE, 7.2e6),
        ("3MJ", Unit.JOULE, 3e6),
        ("1.2GHz", Unit.HERTZ, 1.2e9),
        ("1410MHz", Unit.HERTZ, 1.41e9),
        ("40GB", Unit.BYTE, 4e10),
        ("16GiB", Unit.BYTE, 16.0 * 2**30),
        ("5%", Unit.RATIO, 0.05),
        ("0.05", Unit.RATIO, 0.05),
        ("300w", Unit.WATT, 300.0),
        ("1.2ghz", Unit.HERTZ, 1.2e9),
        ("2KWH", Unit.JOULE, 7.2e6),
        ("500%", Unit.RATIO, 5.0),
        ("1", Unit.RATIO, 1.0),
        ("-5 %", Unit.RATIO, -0.05),
        ("1.5M", Unit.COUNT, 1.5e6),
        ("300B", Unit.COUNT, 3e11),
        ("1e3", Unit.NONE, 1000.0),
        (" .5 ", Unit.NONE, 0.5),
        ("12", Unit.SECOND, 12.0),
    ],
)
def test_what_people_write_is_read(text: str, unit: Unit, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", Unit.SECOND),
        ("   ", Unit.SECOND),
        ("h", Unit.SECOND),
        ("5m", Unit.SECOND),  # metres, minutes or a thousandth: nobody knows
        ("5M", Unit.SECOND),
        ("300J", Unit.WATT),
        ("1e400", Unit.WATT),
        ("9" * 400, Unit.COUNT),
        ("inf", Unit.WATT),
        ("nan", Unit.RATIO),
        ("1_000", Unit.COUNT),
        ("٣٠٠W", Unit.WATT),
        ("²", Unit.NONE),
        ("5 % %", Unit.RATIO),
        ("5mw", Unit.WATT),
        ("5", Unit.RATIO),
        ("1e99999999999999999999%", Unit.RATIO),
        ("1.2.3", Unit.NONE),
        ("0x10", Unit.COUNT),
        ("-1h30m", Unit.SECOND),
        ("1,5W", Unit.WATT),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str, unit: Unit) -> None:
    with pytest.raises(InvalidValueError, match="write it like"):
        parse(text, unit)


def test_a_refusal_names_the_unit_and_keeps_long_text_short() -> None:
    with pytest.raises(InvalidValueError, match="'x' is not a quantity in watts; write it like"):
        parse("x", Unit.WATT)
    with pytest.raises(InvalidValueError, match="in hertz;"):
        parse("x", Unit.HERTZ)
    with pytest.raises(InvalidValueError, match="is not a plain number"):
        parse("x", Unit.NONE)
    with pytest.raises(InvalidValueError) as caught:
        parse("9" * 100_000 + "y", Unit.WATT)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.99999, Unit.SECOND, "1.00 s"),
        (1.0, Unit.SECOND, "1 s"),
        (0.0153, Unit.SECOND, "15.3 ms"),
        (2e-5, Unit.SECOND, "20 µs"),
        (599.4, Unit.SECOND, "599 s"),
        (599.9, Unit.SECOND, "10.0 min"),
        (600.0, Unit.SECOND, "10 min"),
        (86399.0, Unit.SECOND, "1.00 d"),
        (5400.0, Unit.SECOND, "1.50 h"),
        (90.0, Unit.COUNT, "90"),
        (131072.0, Unit.COUNT, "131072"),
        (1.5e6, Unit.COUNT, "1500000"),
        (300.0, Unit.WATT, "300 W"),
        (287.46, Unit.WATT, "287 W"),
        (999.96, Unit.WATT, "1.00 kW"),
        (1e-7, Unit.JOULE, "100 nJ"),
        (2.5e-3, Unit.JOULE, "2.50 mJ"),
        (3e18, Unit.JOULE, "3000 PJ"),
        (1.41e9, Unit.HERTZ, "1.41 GHz"),
        (0.05, Unit.RATIO, "5 %"),
        (-0.1234, Unit.RATIO, "-12.3 %"),
        (0.0, Unit.WATT, "0 W"),
        (-0.0, Unit.RATIO, "0 %"),
        (0.0, Unit.COUNT, "0"),
        (1e-12, Unit.RATIO, "1.00e-10 %"),
        (math.inf, Unit.WATT, "inf"),
        (-math.inf, Unit.WATT, "-inf"),
        (math.nan, Unit.WATT, "n/a"),
        (None, Unit.WATT, "n/a"),
    ],
)
def test_numbers_are_shown_with_sensible_digits(value: float | None, unit: Unit, text: str) -> None:
    assert show(value, unit) == text


@given(NUMBERS, UNITS, st.integers(2, 12))
@example(999.9999, Unit.WATT, 3)
@example(5e-324, Unit.JOULE, 3)
@example(1.7976931348623157e308, Unit.COUNT, 3)
@example(59.9999, Unit.SECOND, 2)
def test_what_is_shown_is_read_back_within_the_digits_printed(
    value: float, unit: Unit, digits: int
) -> None:
    try:
        back = parse(show(value, unit, digits), unit)
    except InvalidValueError:
        assert abs(value) > 1.7e306  # rounded, or a percentage, beyond what a float holds
        return
    # subnormal numbers have fewer digits than were asked for
    assert back == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits), abs=1e-300)


@given(NUMBERS, UNITS)
def test_what_is_shown_is_short(value: float, unit: Unit) -> None:
    assert len(show(value, unit)) <= 24


@given(st.floats(1.0, 1e14), st.floats(1.0, 1e14))
def test_a_larger_time_is_never_shown_as_a_smaller_one(a: float, b: float) -> None:
    low, high = sorted((a, b))
    shown = [parse(show(one, Unit.SECOND), Unit.SECOND) for one in (low, high)]
    assert shown[0] <= shown[1] * (1 + 1e-12)


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=8).map("".join)), UNITS)
def test_any_text_gives_a_finite_number_or_our_error(text: str, unit: Unit) -> None:
    try:
        value = parse(text, unit)
    except InvalidValueError:
        return
    assert math.isfinite(value)
