"""The public surface is frozen: a change of it is made here on purpose, and in the changelog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import lowjoule
from lowjoule.cli.main import cli

SNAPSHOT = Path(__file__).parent / "snapshots" / "surface.txt"
HEAVY = (
    "sqlalchemy",
    "rich",
    "matplotlib",
    "torch",
    "pyarrow",
    "scipy",
    "sklearn",
    "click",
    "pynvml",
    "xgboost",
)


def surface() -> str:
    lines = ["# lowjoule.__all__", *lowjoule.__all__, ""]
    context = click.Context(cli)
    for name in sorted(cli.list_commands(context)):
        command = cli.get_command(context, name)
        assert command is not None
        lines.append(f"# lowjoule {name}")
        for parameter in command.params:
            words = " ".join([*parameter.opts, *parameter.secondary_opts])
            needed = " (required)" if parameter.required else ""
            lines.append(f"{words}{needed}")
        lines.append("")
    return "\n".join(lines)


def test_the_surface_is_as_recorded() -> None:
    assert surface() == SNAPSHOT.read_text(encoding="utf-8"), (
        "the public surface changed: if that is meant, write tests/snapshots/surface.txt anew "
        "(python tests/test_public_surface.py) and tell it in CHANGELOG.md"
    )


@pytest.mark.parametrize("name", lowjoule.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(lowjoule, name) is not None
    assert name in dir(lowjoule)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = lowjoule.nothing_here


@pytest.mark.parametrize(
    "module", ["lowjoule", "lowjoule.tuning", "lowjoule.prediction", "lowjoule.cli.main"]
)
def test_importing_is_light(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    allowed = {"click"} if module == "lowjoule.cli.main" else set()
    assert set(done.stdout.split()) <= allowed


if __name__ == "__main__":
    SNAPSHOT.parent.mkdir(exist_ok=True)
    SNAPSHOT.write_text(surface(), encoding="utf-8")
