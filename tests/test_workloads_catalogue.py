from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.errors import IncomparableError, InvalidValueError, UnknownNameError
from lowjoule.knobs import BATCH_SIZE, Scope
from lowjoule.workloads import Work, Workload, WorkUnit, load, names, parse_work

ENTRIES = tomllib.loads(
    files("lowjoule.workloads").joinpath("catalogue.toml").read_text(encoding="utf-8")
)
PRECISIONS = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8"}


def test_the_catalogue_spans_the_field() -> None:
    assert len(names()) >= 14
    assert len(set(names())) == len(names())
    wanted = {"resnet50", "shufflenetv2", "bert-base", "bert-large", "gpt2", "ncf", "dlrm", "gemm"}
    wanted |= {"gpt3-175b-stage", "llama-3.1-8b-prefill", "llama-3.1-8b-decode", "deepspeech2"}
    assert wanted | {"diffusion-unet", "vit-b16", "copy"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_every_entry_is_complete_and_sensible(name: str) -> None:
    workload = load(name)
    assert workload.name == name
    assert workload.operations is not None
    assert workload.memory_traffic_bytes is not None
    assert workload.memory_fixed_bytes is not None
    assert workload.memory_per_sample_bytes is not None
    assert workload.parameters is not None
    assert workload.operations >= 0
    assert 0 < workload.memory_traffic_bytes < 1e12
    assert 0 < workload.overhead_s < 0.1
    assert workload.half_batch >= 0
    assert workload.compute_unit in ("tensor", "vector")
    assert workload.precision in workload.precisions
    assert set(workload.precisions) <= PRECISIONS
    assert workload.description
    assert workload.sources
    assert workload.job is not None
    assert workload.job.unit is workload.unit


@pytest.mark.parametrize("name", names())
def test_the_weights_fit_and_the_default_batch_fits_a_large_board(name: str) -> None:
    workload = load(name)
    assert workload.memory_fixed_bytes is not None
    assert workload.memory_per_sample_bytes is not None
    assert workload.default_batch is not None
    width = 4.0 if workload.precision == "fp32" else 2.0
    assert workload.memory_fixed_bytes >= width * (workload.parameters or 0.0)
    need = workload.memory_fixed_bytes + workload.default_batch * workload.memory_per_sample_bytes
    assert need < 80e9


@pytest.mark.parametrize("name", names())
def test_the_batch_size_is_a_knob_of_powers_of_two(name: str) -> None:
    workload = load(name)
    (knob,) = workload.knobs
    assert knob.name == BATCH_SIZE
    assert knob.default == workload.default_batch == ENTRIES[name]["batch"]
    assert [knob.values[0], knob.values[-1]] == ENTRIES[name]["batch_range"]
    assert all(b == 2 * a for a, b in itertools.pairwise(map(float, knob.values)))
    # only a training learns otherwise with another batch
    assert knob.changes_learning == workload.training
    assert knob.scope is (Scope.RESTART if workload.training else Scope.STEP)


def test_a_training_does_three_times_the_forward_pass() -> None:
    assert load("resnet50").operations == pytest.approx(3 * 8.18e9)
    assert load("gemm").operations == pytest.approx(2 * 8192**3, rel=1e-4)
    assert load("copy").operations == 0.0


@pytest.mark.parametrize(
    ("name", "parameters", "tokens"),
    [
        ("bert-base", 85e6, 384),
        ("bert-large", 302e6, 384),
        ("gpt2", 124e6, 1024),
        ("gpt3-1.3b", 1.316e9, 2048),
        ("gpt3-175b-stage", 2.73e9, 2048),
        ("llama-3.1-8b-prefill", 7.5e9, 2048),
        ("llama-3.1-8b-decode", 7.5e9, 1),
    ],
)
def test_transformers_take_two_operations_a_parameter_and_token(
    name: str, parameters: float, tokens: int
) -> None:
    workload = load(name)
    assert workload.operations is not None
    forward = workload.operations / (3 if workload.training else 1)
    # attention adds to the rule, by less than a fifth at these lengths
    assert 0.9 < forward / (2 * parameters * tokens) < 1.2


def test_aliases_lead_to_the_same_workload() -> None:
    assert load("shufflenet") is load("shufflenetv2")
    assert load("bert").name == "bert-base"
    aliases = [alias for entry in ENTRIES.values() for alias in entry.get("aliases", ())]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & set(names())
    for alias in aliases:
        assert load(alias).name in names()


@pytest.mark.parametrize(
    ("name", "near"), [("resnet", "resnet50"), ("GPT2", "gpt2"), ("shufflnet", "shufflenet")]
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown workload '{name}'; did .*'{near}'"):
        load(name)


def test_signatures_tell_workloads_apart() -> None:
    assert len({load(name).signature for name in names()}) == len(names())


def test_a_signature_is_of_what_identifies() -> None:
    workload = load("resnet50")
    same = replace(
        workload,
        description="x",
        sources=("y",),
        job=Work(1.0, WorkUnit.SAMPLE),
        knobs=(),
        precisions=(),
        half_batch=8.0,
    )
    assert same.signature == workload.signature
    others = [
        replace(workload, name="x"),
        replace(workload, unit=WorkUnit.REQUEST),
        replace(workload, training=False),
        replace(workload, operations=1.0),
        replace(workload, operations=None),
        replace(workload, memory_traffic_bytes=1.0),
        replace(workload, step_traffic_bytes=1.0),
        replace(workload, parameters=1.0),
        replace(workload, overhead_s=1.0),
        replace(workload, half_batch=1.0),
        replace(workload, memory_fixed_bytes=1.0),
        replace(workload, memory_per_sample_bytes=1.0),
        replace(workload, compute_unit="vector"),
        replace(workload, precision="fp32"),
    ]
    assert len({one.signature for one in (workload, *others)}) == len(others) + 1


def test_a_signature_is_the_same_in_every_process() -> None:
    script = "from lowjoule.workloads import load; print(load('resnet50').signature, end='')"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == load("resnet50").signature
    assert len(done.stdout) == 16


def test_a_stored_signature_stays_readable() -> None:
    # profiles in stores out there are found by it: a change here loses them
    assert Workload(name="job").signature == "c8c1501bc9b2845f"


def test_a_workload_without_a_batch_has_no_default_batch() -> None:
    assert Workload(name="job").default_batch is None


def test_the_catalogue_is_read_without_torch() -> None:
    script = (
        "import sys; from lowjoule.workloads import load, names; [load(n) for n in names()];"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "quantity", "unit"),
    [
        ("100 epochs", 100.0, WorkUnit.EPOCH),
        ("1 epoch", 1.0, WorkUnit.EPOCH),
        ("1.5M samples", 1.5e6, WorkUnit.SAMPLE),
        ("300B tokens", 3e11, WorkUnit.TOKEN),
        ("90epochs", 90.0, WorkUnit.EPOCH),
        (" 2e3  steps ", 2000.0, WorkUnit.STEP),
        ("10k requests", 1e4, WorkUnit.REQUEST),
        ("7 iterations", 7.0, WorkUnit.ITERATION),
    ],
)
def test_amounts_of_work_are_read(text: str, quantity: float, unit: WorkUnit) -> None:
    assert parse_work(text) == Work(quantity, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "epochs",
        "100",
        "100 apples",
        "-3 epochs",
        "0 epochs",
        "nan epochs",
        "inf steps",
        "1e999 ",
        "epochs 100",
        "100 epochs epochs",
        "5W samples",
        "100 EPOCHS",
        "1e400 steps",
        "x steps",
    ],
)
def test_anything_else_is_not_an_amount(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"; (write it like|use a positive)"):
        parse_work(text)


@given(st.text(max_size=30))
def test_any_text_is_an_amount_or_our_error(text: str) -> None:
    try:
        assert parse_work(text).quantity > 0
    except InvalidValueError:
        return


@given(st.floats(1e-3, 1e5), st.sampled_from(WorkUnit))
def test_an_amount_is_read_back(quantity: float, unit: WorkUnit) -> None:
    work = Work(float(f"{quantity:g}"), unit)
    assert parse_work(str(work)) == work


def test_only_equal_units_compare_and_compose() -> None:
    sample, token = Work(6.0, WorkUnit.SAMPLE), Work(3.0, WorkUnit.TOKEN)
    assert sample.ratio(Work(3.0, WorkUnit.SAMPLE)) == 2.0
    assert sample + sample == sample * 2.0 == Work(12.0, WorkUnit.SAMPLE)
    for action in (lambda: sample.ratio(token), lambda: sample + token):
        with pytest.raises(IncomparableError, match=r"work in samples .* work in tokens"):
            action()
    for quantity in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidValueError, match="use a positive one"):
            Work(quantity, WorkUnit.SAMPLE)
    assert [str(Work(q, WorkUnit.EPOCH)) for q in (1.0, 90.0)] == ["1 epoch", "90 epochs"]
