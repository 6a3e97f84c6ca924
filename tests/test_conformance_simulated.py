from __future__ import annotations

from pathlib import Path

import pytest

from lowjoule.devices.interface import WorkDevice
from lowjoule.devices.registry import OpenOptions, open_device
from lowjoule.testing import WorkDeviceConformance


class _OnOwnBoard(WorkDeviceConformance):
    """A board whose state no other test sees."""

    @pytest.fixture(autouse=True)
    def own_board(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LOWJOULE_SIMULATED", str(tmp_path))

    spec = ""

    def open(self, seed: int = 0) -> WorkDevice:
        device = open_device(self.spec, OpenOptions(seed=seed))
        assert isinstance(device, WorkDevice)
        return device


class TestSimulatedA100(_OnOwnBoard):
    spec = "sim:a100"
    name = "resnet50"


class TestSimulatedT4(_OnOwnBoard):
    spec = "sim:t4"
    name = "bert-base"


class TestSimulatedMi300x(_OnOwnBoard):
    spec = "sim:mi300x"
    name = "llama-3.1-8b-decode"
