"""The documentation runs: its shell examples, its links, its test command, its figures."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lowjoule.cli.main import cli, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest"
MAIN_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && "
    ".venv/bin/lowjoule tune --device sim:a100 --workload resnet50 --objective eds"
)


def examples(path: Path) -> list[str]:
    return [
        line.removeprefix("$ ")
        for block in re.findall(r"```console\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
        for line in block.splitlines()
        if line.startswith("$ lowjoule")
    ]


def shown_tables(path: Path) -> dict[str, str]:
    text = path.read_text("utf-8")
    return dict(re.findall(r'```text title="(\w+\.csv)"\n(.*?)```', text, re.DOTALL))


@pytest.mark.parametrize("path", [p for p in PAGES if examples(p)], ids=lambda p: p.stem)
def test_shell_examples_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in shown_tables(path).items():
        Path(name).write_text(table, encoding="utf-8")
    for example in examples(path):
        assert main(shlex.split(example)[1:]) == 0, (example, capsys.readouterr().err)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_pictures_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_every_public_name_is_listed() -> None:
    import lowjoule

    page = (ROOT / "docs" / "reference" / "lowjoule.md").read_text("utf-8")
    assert [n for n in lowjoule.__all__ if f"`{n}`" not in page and n != "__version__"] == []


def test_every_result_has_a_page_of_its_newest_run() -> None:
    newest = {one.stem[11:]: one.name for one in sorted((ROOT / "benchmarks/results").glob("*.md"))}
    shown = "".join(one.read_text("utf-8") for one in (ROOT / "docs" / "results").glob("*.md"))
    assert [name for name in newest.values() if f"benchmarks/results/{name}" not in shown] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    names = [str(page.relative_to(ROOT / "docs")) for page in PAGES]
    assert [name for name in names if f": {name}\n" not in navigation] == []


def test_the_pictures_are_those_that_the_script_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "pictures" / "draw.py"))
    monkeypatch.setitem(script["main"].__globals__, "HERE", tmp_path)
    script["main"]()
    drawn = {one.name: shape(one) for one in tmp_path.glob("*.svg")}
    assert drawn == {one.name: shape(one) for one in (ROOT / "docs" / "pictures").glob("*.svg")}


def shape(path: Path) -> tuple[list[str], list[str]]:
    """The words of a picture and how many marks it has: another machine may round otherwise."""
    tags = [one.tag for one in ElementTree.parse(path).iter()]
    words = re.findall(r"<(?:title|desc)[^>]*>([^<]+)<", path.read_text("utf-8"))
    return words, sorted(tags)


def test_results_that_are_named_exist() -> None:
    for path in TEXTS:
        for name in re.findall(r"benchmarks/results/[\w-]+\.md", path.read_text("utf-8")):
            assert (ROOT / name).is_file(), (path.name, name)


def test_the_two_commands_of_the_readme_are_those_that_are_checked() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert TEST_COMMAND in readme
    assert MAIN_COMMAND in readme
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text("utf-8")
    assert TEST_COMMAND in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    for name in cli.commands_at:
        assert f"`lowjoule {name}" in page


def test_every_json_field_of_tune_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert main(["tune", "--device", "sim:a100", "--workload", "gemm", "--json"]) == 0
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    value = json.loads(capsys.readouterr().out)
    fields = {*value, *value["chosen"], *value["history"][0]} - {"version"}
    assert [name for name in sorted(fields) if f"`{name}`" not in page] == []


def test_python_examples_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (ROOT / "README.md", *PAGES):
        for block in re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL):
            code = compile(block, path.name, "exec", dont_inherit=True)
            exec(code, {"__name__": path.stem})
    assert "Setting(" in capsys.readouterr().out
