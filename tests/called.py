"""Commands called as a user does, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lowjoule.cli.main import main

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def found(capsys: Capture, *arguments: str) -> dict[str, Any]:
    value = json.loads(said(capsys, *arguments, "--json"))
    assert isinstance(value, dict)
    return value


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "Traceback" not in seen.err
    return seen.err.strip().splitlines()[-1]
