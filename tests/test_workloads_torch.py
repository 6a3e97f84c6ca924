from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from lowjoule.errors import InvalidValueError, MissingExtraError, UnknownNameError
from lowjoule.workloads import Workload, load

torch = pytest.importorskip("torch", reason="PyTorch is found, never a dependency")

Build = Callable[[str], Workload]
KEPT = 16.0  # bytes that Adam moves a parameter for its two moments


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("my_model", "my_package", "my_package.inner"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.fixture
def build(here: Path) -> Build:
    """Load the workload of a `build` function with the given body."""

    def loaded(body: str) -> Workload:
        head = "import torch\nfrom torch import nn\n"
        code = head + "def build():\n" + textwrap.indent(textwrap.dedent(body), "    ")
        (here / "my_model.py").write_text(code)
        return load("my_model:build")

    return loaded


def test_a_linear_layer_is_counted_as_by_hand(build: Build) -> None:
    work = build("return nn.Linear(10, 20), torch.randn(4, 10)")
    # forward 2*4*10*20; backward the weights' gradient alone, as the input needs none
    assert work.operations == 2 * (2 * 10 * 20)
    assert work.parameters == 220.0
    # weights and their gradients once; Adam: gradient and parameter 3 times 4 bytes, moments
    assert work.step_traffic_bytes == 880 + 880 + 220 * (3 * 4 + KEPT)
    # parameter, gradient, two moments
    assert work.memory_fixed_bytes == 220 * 16.0
    # floats a batch of 4: x 40 read twice, y 80 written, summed, its gradient read by two
    assert work.memory_traffic_bytes == 4 * (40 + 80 + 80 + 1 + 2 + 80 + 40 + 80) / 4
    assert (work.precision, work.compute_unit, work.precisions) == ("fp32", "vector", ("fp32",))
    assert work.training
    assert work.default_batch == 4
    assert work.description.startswith("Training of the Linear that my_model:build builds (/")
    assert torch.__version__ in work.sources[0]


def test_an_inference_is_forward_alone(build: Build) -> None:
    work = build("return nn.Linear(10, 20).eval(), torch.randn(4, 10)")
    assert work.operations == 2 * 10 * 20
    assert work.memory_traffic_bytes == 4 * (10 + 20)
    assert work.step_traffic_bytes == work.memory_fixed_bytes == 880.0
    assert work.memory_per_sample_bytes == 4 * (10 + 10 + 20)
    assert not work.training
    assert not work.knobs[0].changes_learning


def test_a_convolutional_network_is_counted_as_by_hand(build: Build) -> None:
    work = build(
        """
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 10),
        )
        return net, torch.randn(2, 3, 6, 6)
        """
    )
    first = 2 * 3 * 9 * 8 * 36  # no gradient of the image
    second = 2 * 8 * 9 * 16 * 1
    linear = 2 * 16 * 10
    assert work.operations == 2 * first + 3 * second + 3 * linear
    assert work.parameters == (27 * 8 + 8) + 16 + (72 * 16 + 16) + 170


def test_attention_is_counted_as_by_hand(build: Build) -> None:
    work = build(
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(16, 48, bias=False)
            def forward(self, x):
                batch, length, _ = x.shape
                q, k, v = self.project(x).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
                return nn.functional.scaled_dot_product_attention(q, k, v)
        return Attention(), torch.randn(3, 5, 16)
        """
    )
    project = 2 * 5 * 16 * 48
    product = 2 * 2 * 5 * 5 * 8  # two heads, scores of 5 x 5, width 8
    # two products forward; fused attention has five backward, the scores once more among them
    assert work.operations == 2 * project + (2 + 5) * product


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_an_encoder_in_eval_mode_takes_no_way_that_is_not_counted(build: Build) -> None:
    work = build(
        """
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 1).eval(), torch.randn(2, 7, 16)
        """
    )
    products = 2 * 7 * 16 * (3 * 16 + 16 + 32 + 32)
    attention = 2 * (2 * 2 * 7 * 7 * 8)
    assert work.operations == products + attention
    assert torch.backends.mha.get_fastpath_enabled()


def test_an_embedding_is_traffic_alone(build: Build) -> None:
    work = build("return nn.Embedding(100, 8).eval(), torch.randint(0, 100, (4, 6))")
    assert work.operations == 0.0
    # indices of 8 bytes; rows of 8 floats read and written, the rest of the table left alone
    assert work.memory_traffic_bytes == 6 * 8 + 2 * (6 * 8 * 4)
    assert work.parameters == 800.0


def test_recurrent_layers_are_counted(build: Build) -> None:
    work = build("return nn.LSTM(8, 16, batch_first=True).eval(), torch.randn(2, 5, 8)")
    assert work.operations == 5 * 2 * (4 * 16) * (8 + 16)


def test_traffic_of_weights_does_not_depend_on_the_example_batch(build: Build) -> None:
    one = build("return nn.Linear(10, 20), torch.randn(1, 10)")
    sys.modules.pop("my_model")
    many = build("return nn.Linear(10, 20), torch.randn(64, 10)")
    assert one.step_traffic_bytes == many.step_traffic_bytes
    assert one.operations == many.operations
    assert one.memory_fixed_bytes == many.memory_fixed_bytes


def test_a_module_of_any_size_is_counted_without_computing_it(build: Build) -> None:
    work = build(
        """
        with torch.device("meta"):
            net = nn.Linear(100_000, 100_000, bias=False, dtype=torch.bfloat16)
            return net, torch.randn(8, 100_000, dtype=torch.bfloat16)
        """
    )
    assert work.operations == 2 * 2e10
    assert work.memory_fixed_bytes == 1e10 * (2 + 2 + 8)
    assert (work.precision, work.compute_unit) == ("bf16", "tensor")


def test_frozen_parameters_do_not_learn(build: Build) -> None:
    work = build(
        """
        net = nn.Sequential(nn.Linear(10, 20).requires_grad_(False), nn.Linear(20, 5))
        return net, torch.randn(4, 10)
        """
    )
    assert work.operations == 2 * 10 * 20 + 2 * (2 * 20 * 5)
    assert work.memory_fixed_bytes == 4 * 220 + 16 * 105


def test_named_and_several_arguments_and_nested_outputs(build: Build) -> None:
    body = """
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            def forward(self, x, y):
                return {"loss": self.a(x).sum(), "rest": [(self.b(y), y)], "none": None}
        """
    named = build(body + "return Two(), {'x': torch.randn(2, 4), 'y': torch.randn(2, 4)}\n")
    sys.modules.pop("my_model")
    several = build(body + "return Two(), (torch.randn(2, 4), torch.randn(2, 4))\n")
    assert named.operations == several.operations == 4 * (2 * 4 * 4)


def test_without_an_example_batch_nothing_is_made_up(build: Build) -> None:
    work = build("return nn.Linear(10, 20)")
    assert work.operations is None
    assert work.memory_traffic_bytes is None
    assert work.memory_per_sample_bytes is None
    assert work.parameters == 220.0
    assert work.knobs == ()
    assert work.sources == ()


def test_what_cannot_be_traced_is_not_counted(build: Build) -> None:
    work = build(
        """
        def opaque(x): return x.clone()
        library = torch.library.Library("lowjoule_test", "FRAGMENT")
        library.define("opaque(Tensor x) -> Tensor")
        library.impl("opaque", opaque, "CPU")
        class Strange(nn.Module):
            def __init__(self):
                super().__init__()
                self.inside, self.library = nn.Linear(8, 8), library
            def forward(self, x):
                return self.inside(torch.ops.lowjoule_test.opaque(x))
        return Strange().eval(), torch.randn(4, 8)
        """
    )
    assert (work.operations, work.memory_traffic_bytes) == (None, None)
    assert work.memory_per_sample_bytes is None
    assert (work.parameters, work.precision, work.default_batch) == (72.0, "fp32", 4)
    assert "lowjoule_test::opaque" in work.sources[0]


def test_counting_leaves_no_trace(build: Build) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    enabled = torch.backends.mkldnn.enabled
    build(
        """
        with torch.random.fork_rng():
            return nn.Sequential(nn.LSTM(8, 16, batch_first=True)), torch.randn(2, 5, 8)
        """
    )
    assert torch.rand(1) == expected
    assert torch.backends.mkldnn.enabled == enabled
    assert torch.is_grad_enabled()


def test_prints_of_the_users_code_stay_off_standard_output(
    build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    build("print('building'); return nn.Linear(2, 2), torch.randn(1, 2)")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "building\n")


def test_a_function_in_a_package_and_a_class(here: Path) -> None:
    (here / "my_package").mkdir()
    (here / "my_package" / "inner.py").write_text(
        "import torch\n"
        "class Models:\n"
        "    @staticmethod\n"
        "    def small():\n"
        "        return torch.nn.Linear(2, 2), torch.randn(3, 2)\n"
    )
    assert load("my_package.inner:Models.small").default_batch == 3
    assert str(here) in sys.path


BROKEN = [
    ("raise RuntimeError('no weights\\nhere')", "my_model:build raised RuntimeError: no weights;"),
    ("import sys; sys.exit(3)", "my_model:build raised SystemExit: 3; mend it"),
    ("raise KeyError()", "my_model:build raised KeyError; mend it"),
    ("import nosuchthing", "my_model:build raised ModuleNotFoundError: No module named"),
    ("pass", "what my_model:build returned is None; return a torch.nn.Module"),
    ("return 3", "what my_model:build returned is of type int; return"),
    ("return torch.randn(2), nn.Linear(2, 2)", "returned is a tuple of Tensor, Linear; return"),
    ("return nn.Linear(2, 2), 1, 2", "returned is a tuple of Linear, int, int; return"),
    ("return nn.Linear(2, 2), 'x'", "is of type str without a batch of tensors; return a tensor"),
    ("return nn.Linear(2, 2), torch.tensor(1.0)", "without a batch of tensors"),
    ("return nn.Linear(2, 2), torch.randn(0, 2)", "without a batch of tensors"),
    (
        "return nn.Linear(2, 2), torch.randn(4, 3)",
        "does not run on its example batch \\(RuntimeError: mat1 and mat2 shapes cannot",
    ),
    (
        "return nn.Linear(2, 2).requires_grad_(False), torch.randn(4, 2)",
        "nothing in its output can be differentiated\\); .*eval\\(\\)",
    ),
    (
        "return nn.Identity(), torch.randint(0, 3, (4,))",
        "nothing in its output can be differentiated",
    ),
]


@pytest.mark.parametrize(("body", "message"), BROKEN)
def test_what_goes_wrong_is_said_in_one_sentence(build: Build, body: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        build(body)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (":build", "does not name a function of a module; write it like my_model:build"),
        ("my_model:", "does not name a function"),
        ("my_model:build()", "does not name a function"),
        ("my model:build", "does not name a function"),
        ("./my_model.py:build", "does not name a function"),
        ("my_model:a:b", "does not name a function"),
        ("no_such_module:build", "there is no module 'no_such_module' in .*run from its folder"),
        ("my_model.inner:build", "there is no module 'my_model.inner'"),
        ("my_model:biuld", "unknown function of my_model 'biuld'; did you mean 'build'"),
        ("my_model:number.real.x", "unknown function of my_model 'number.real.x'"),
        ("my_model:number", "my_model:number is of type int, not a function; name a function"),
    ],
)
def test_a_name_that_leads_nowhere(here: Path, spec: str, message: str) -> None:
    (here / "my_model.py").write_text("number = 3\ndef build(): pass\n")
    with pytest.raises((InvalidValueError, UnknownNameError), match=message):
        load(spec)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nosuchthing", "importing my_model raised ModuleNotFoundError: No module named"),
        ("1 / 0", "importing my_model raised ZeroDivisionError: division by zero; mend it"),
        ("def build(:", "importing my_model raised SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported(here: Path, code: str, message: str) -> None:
    (here / "my_model.py").write_text(code)
    with pytest.raises(InvalidValueError, match=message):
        load("my_model:build")


def test_without_pytorch_it_is_said_what_to_install(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (here / "my_model.py").write_text("import torch\n")
    with pytest.raises(MissingExtraError, match=r"needs PyTorch, .*never a dependency; install it"):
        load("my_model:build")
