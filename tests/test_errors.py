from __future__ import annotations

import inspect
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule import errors
from lowjoule.errors import InvalidValueError, LowjouleError, MissingExtraError, UnknownNameError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, LowjouleError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_one_sentence_of_problem_and_cure(kind: type[LowjouleError]) -> None:
    error = kind("the limit is 700 W", cure="use at most 400 W")
    assert str(error) == "the limit is 700 W; use at most 400 W"
    assert (error.problem, error.cure, error.exit_code) == (
        "the limit is 700 W",
        "use at most 400 W",
        2,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_back_from_another_process_as_it_was(kind: type[LowjouleError]) -> None:
    error = pickle.loads(pickle.dumps(kind("a", cure="b")))
    assert type(error) is kind
    assert (error.problem, error.cure, str(error)) == ("a", "b", "a; b")


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(InvalidValueError, ValueError)
    assert issubclass(UnknownNameError, LookupError)
    assert issubclass(MissingExtraError, ImportError)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    error = UnknownNameError.among("workload", "resnet5", ["bert", "resnet50", "gpt2"])
    assert str(error) == "unknown workload 'resnet5'; did you mean 'resnet50'?"


def test_a_name_like_no_other_is_answered_with_what_there_is() -> None:
    error = UnknownNameError.among("knob", "zzz", ["sm_clock", "power_limit"])
    assert error.cure == "known are power_limit, sm_clock"
    many = UnknownNameError.among("knob", "zzz", [f"knob{n:03}" for n in range(30)])
    assert many.cure.endswith("knob019, ...")
    assert UnknownNameError.among("knob", "zzz", []).cure == "no knob is known here"


def test_case_is_forgiven_in_the_answer() -> None:
    error = UnknownNameError.among("workload", "BERT", ["Bert", "resnet50"])
    assert error.cure == "did you mean 'Bert'?"


@given(st.text(max_size=30), st.lists(st.text(max_size=10), max_size=40))
def test_any_name_gets_an_answer(name: str, known: list[str]) -> None:
    error = UnknownNameError.among("thing", name, known)
    assert "; " in str(error)
    assert len(error.problem) < 200


def test_a_missing_extra_says_how_to_get_it() -> None:
    error = MissingExtraError.of("matplotlib", "plot", "a picture")
    assert str(error) == (
        "a picture needs matplotlib, which is not installed; pip install 'lowjoule[plot]'"
    )
