"""NVIDIA GPUs under the name "nvml": "nvml:GPU-8932f937", "nvml:0000:3b:00.0", "nvml:0"."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lowjoule.devices.interface import Ability
from lowjoule.devices.nvml.boards import inventory, woken
from lowjoule.devices.nvml.device import NvmlDevice
from lowjoule.devices.nvml.driver import DRIVER, Driver
from lowjoule.devices.nvml.visible import Board, Seen, Visibility, select, visible
from lowjoule.devices.registry import Available, OpenOptions
from lowjoule.errors import DeviceError, InvalidValueError, LowjouleError, MissingExtraError

_MODULE = "@module"
_LOG = "see the kernel's log (dmesg | grep Xid)"
_NAMES = "name boards by UUID (nvidia-smi -L)"
_SHORT = 12  # "GPU-8932f937"


class NvmlBackend:
    """Opens the NVIDIA GPUs that CUDA shows to this process.

    A board is named by UUID or MIG id (abbreviated as far as unique), by PCI bus id, or by the
    ordinal that it has for CUDA here; "@module" behind it takes energy and power of the whole
    module. `root` is where /sys and /proc are found.
    """

    def __init__(self, driver: Driver = DRIVER, root: Path = Path("/")) -> None:
        self._driver = driver
        self._root = root

    def available(self) -> tuple[Available, ...]:
        """Return the visible boards, waking none; none at all without a driver.

        Where the kernel has a driver that cannot be reached from here, one entry says why.
        """
        try:
            found = inventory(self._driver, self._root)
        except (DeviceError, MissingExtraError) as error:
            return _unreachable(error, self._root)
        try:
            shown = _visibility(found.boards)
            notes = (*found.notes, *shown.notes)
        except InvalidValueError as error:
            shown = Visibility(seen=tuple(Seen(board=one) for one in found.boards), ordered=False)
            notes = (*found.notes, f"which of them CUDA shows is not known: {error}")
        if shown.hidden:
            hidden = ", ".join(board.uuid[:_SHORT] for board in shown.hidden)
            notes = (*notes, f"CUDA_VISIBLE_DEVICES hides {hidden}")
        return tuple(
            _available(one, notes if place == 0 else ()) for place, one in enumerate(shown.seen)
        )

    def abilities(self) -> tuple[Ability, ...]:
        """Return what is not opened here although it is there, and why; wakes no board."""
        try:
            found = inventory(self._driver, self._root)
        except (DeviceError, MissingExtraError):
            return ()  # `available` says what there is to say
        try:
            shown = _visibility(found.boards)
        except InvalidValueError as error:
            why = Ability(name="order", works=False, detail=error.problem, cure=error.cure)
            return (why, *_odd(found.notes, _LOG))
        cure = "add it to CUDA_VISIBLE_DEVICES, or unset that"
        hidden = tuple(
            Ability(
                name=f"nvml:{board.uuid}",
                works=False,
                detail=f"{board.model} at {board.pci_bus_id}: CUDA_VISIBLE_DEVICES hides it",
                cure=cure,
            )
            for board in shown.hidden
        )
        return (*hidden, *_odd(found.notes, _LOG), *_odd(shown.notes, _NAMES))

    def open(self, argument: str, options: OpenOptions) -> NvmlDevice:
        """Open the board that `argument` names.

        Raises `UnknownNameError` where it names none that is visible, `InvalidValueError` where
        it names several or an ordinal that cannot be trusted, and `DeviceError`.
        """
        if options.default:
            raise InvalidValueError(
                f"defaults ({', '.join(options.default)}) are given for nvml:{argument}, which "
                "has its own",
                cure="turn its knobs instead",
            )
        module = argument.endswith(_MODULE)
        (seen,) = self.select([argument.removesuffix(_MODULE)])
        return NvmlDevice(seen, module=module, driver=self._driver, root=self._root)

    def select(self, wanted: str | Sequence[str | int] | None) -> tuple[Seen, ...]:
        """Return the visible boards that `wanted` means (see `visible.select`), awake.

        Raises what `open` raises.
        """
        boards = inventory(self._driver, self._root).boards
        try:
            shown = _visibility(boards)
        except InvalidValueError:
            # what is named by itself needs no order
            if wanted is None or any(str(one).strip().isdigit() for one in _list(wanted)):
                raise
            shown = Visibility(seen=tuple(Seen(board=one) for one in boards), ordered=False)
        chosen = select(shown, wanted)
        return tuple(
            replace(one, board=woken(self._driver, one.board)) if one.board.asleep else one
            for one in chosen
        )


def _odd(notes: Sequence[str], cure: str) -> tuple[Ability, ...]:
    return tuple(Ability(name="GPUs", works=False, detail=note, cure=cure) for note in notes)


def _list(wanted: str | Sequence[str | int]) -> Sequence[str | int]:
    return wanted.split(",") if isinstance(wanted, str) else wanted


def _visibility(boards: Sequence[Board]) -> Visibility:
    environment = os.environ
    return visible(
        boards, environment.get("CUDA_VISIBLE_DEVICES"), environment.get("CUDA_DEVICE_ORDER")
    )


def _unreachable(error: LowjouleError, root: Path) -> tuple[Available, ...]:
    if not (root / "proc/driver/nvidia/version").exists():
        return ()
    return (Available(spec="nvml:0", title="NVIDIA driver", remark=f"out of reach: {error}"),)


def _available(seen: Seen, notes: Sequence[str]) -> Available:
    board = seen.board
    said = [board.pci_bus_id]
    if board.asleep:
        said.append("asleep")
    if board.partitioned or seen.slices:
        said.append("divided by MIG: its energy is that of all slices")
    # a board that sleeps may not tell its UUID
    name = board.pci_bus_id if board.uuid.startswith("asleep-") else board.uuid
    return Available(
        spec=f"nvml:{name}",
        title=board.model,
        remark="; ".join((*said, *notes)),
        asleep=board.asleep,
    )
