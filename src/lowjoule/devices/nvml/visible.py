"""Which boards CUDA shows to this process, and which of them the user means; no I/O.

CUDA_VISIBLE_DEVICES is read as CUDA's programming guide says: unset shows all boards, an empty
value none; identifiers are ordinals, UUIDs or MIG ids, abbreviated as far as they stay unique; an
invalid one hides itself and all that follow. Where the guide is silent, this is decided:

- an identifier that names the same board or MIG slice again hides all, as CUDA has been seen to do;
- the first identifier sets the form (ordinal, GPU-, MIG-); one of another form is invalid;
- of an ordinal with text behind it ("1gpu") the number counts, as C's `strtol` reads it.

Ordinals need an order. CUDA's own is by speed, which NVML does not know, so an ordinal is trusted
with CUDA_DEVICE_ORDER=PCI_BUS_ID, or where all boards are of one model: equal ones are taken to
be in the order of their PCI addresses. Otherwise it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lowjoule.devices.interface import Coverage
from lowjoule.errors import InvalidValueError, UnknownNameError

_ORDINAL = re.compile(r"\s*([+-]?[0-9]+)")
_OLD_SLICE = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/([0-9]+)/([0-9]+)\Z")
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_ORDER_CURE = "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name boards by UUID (nvidia-smi -L)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A MIG device of a board: its id, and the GPU and compute instance it is made of."""

    uuid: str
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board of this machine; `asleep` is "suspended by the kernel", so not asked further."""

    uuid: str
    pci_bus_id: str
    model: str
    slices: tuple[Slice, ...] = ()
    partitioned: bool = False
    asleep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A board that CUDA shows, whole or by some of its MIG slices."""

    board: Board
    slices: tuple[Slice, ...] = ()

    @property
    def coverage(self) -> Coverage:
        """What its energy is of: of a partitioned board it is all slices' together."""
        shared = self.board.partitioned or self.slices
        return Coverage.MIG_PARENT if shared else Coverage.GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The boards that CUDA shows, in its order where that is known, and those it hides."""

    seen: tuple[Seen, ...]
    hidden: tuple[Board, ...] = ()
    ordered: bool = True
    notes: tuple[str, ...] = ()


def pci_address(text: str) -> str | None:
    """Return a PCI bus id as "0000:3b:00.0", from any of its forms; None where it is none."""
    match = _PCI.match(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def visible(boards: Sequence[Board], devices: str | None, order: str | None) -> Visibility:
    """Return what CUDA shows of `boards`, given CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

    None is an unset variable. Raises `InvalidValueError` where ordinals are used and cannot be
    trusted.
    """
    known = sorted(boards, key=lambda board: _pci_key(board.pci_bus_id))
    models = {board.model for board in known}
    ordered = len(models) <= 1 or (order or "").strip() == "PCI_BUS_ID"
    if devices is None:
        return Visibility(seen=tuple(Seen(board=board) for board in known), ordered=ordered)
    entries = [entry.strip() for entry in devices.split(",")]
    form = _form(entries[0])
    if form == "ordinal" and not ordered and not _names_none(entries[0]):
        raise InvalidValueError(
            f"CUDA_VISIBLE_DEVICES={devices} counts boards of different models in CUDA's own "
            "order, which is not known",
            cure=_ORDER_CURE,
        )
    found, notes = _listed(entries, form, known)
    seen = _merged(found)
    shown = {one.board.uuid for one in seen}
    return Visibility(
        seen=seen,
        hidden=tuple(board for board in known if board.uuid not in shown),
        notes=tuple(f"CUDA_VISIBLE_DEVICES={devices}: {note}" for note in notes),
    )


def _listed(
    entries: Sequence[str], form: str, boards: Sequence[Board]
) -> tuple[list[tuple[Board, Slice | None]], list[str]]:
    """Return what the `entries` name up to the first invalid one, and what is odd about them."""
    found: list[tuple[Board, Slice | None]] = []
    for place, entry in enumerate(entries):
        one = _named(entry, boards) if _form(entry) == form else None
        if one is None:
            rest = entries[place + 1 :]
            if _names_none(entry) and (place == 0 or not rest):
                return found, []
            behind = f" and hides {', '.join(rest)}" if rest else ""
            return found, [f"{entry!r} names no board here{behind}"]
        if one in found:
            return [], [f"{entry!r} names the same again, so CUDA shows nothing"]
        found.append(one)
    return found, []


def _names_none(entry: str) -> bool:
    """Whether this is how people say that there shall be no board, or no more of them."""
    return entry in {"", "-1"}


def select(visibility: Visibility, wanted: str | Sequence[str | int] | None) -> tuple[Seen, ...]:
    """Return the visible boards that the user means, in the user's order, each once.

    `wanted` is a list, or a text with commas, of ordinals as CUDA counts here, UUIDs and MIG ids
    (abbreviated as far as unique) and PCI bus ids; None is all, an empty one none. Raises
    `UnknownNameError` for what names no visible board and `InvalidValueError` for an ordinal
    where CUDA's order is not known.
    """
    if wanted is None:
        return visibility.seen
    if isinstance(wanted, str):
        wanted = wanted.split(",") if wanted.strip() else []
    chosen: dict[str, Seen] = {}
    for name in wanted:
        one = _chosen(visibility, str(name).strip())
        before = chosen.get(one.board.uuid)
        if before is None or not one.slices:
            chosen[one.board.uuid] = one
        elif before.slices:
            both = tuple(dict.fromkeys((*before.slices, *one.slices)))
            chosen[one.board.uuid] = Seen(board=one.board, slices=both)
    return tuple(chosen.values())


def _chosen(visibility: Visibility, name: str) -> Seen:
    if re.fullmatch(r"[0-9]+", name):
        if not visibility.ordered:
            raise InvalidValueError(
                f"GPU {name} is not known: CUDA counts boards of different models in an order of "
                "its own",
                cure=_ORDER_CURE,
            )
        if int(name) < len(visibility.seen):
            return visibility.seen[int(name)]
        raise _unknown(visibility, name)
    if _form(name) in {"ordinal", "nothing"} and pci_address(name) is None:
        raise _unknown(visibility, name)  # CUDA reads "1gpu" as 1; nothing is turned by a guess
    address = pci_address(name)
    boards = [one.board for one in visibility.seen]
    if address is not None:
        found = [one for one in visibility.seen if one.board.pci_bus_id == address]
    else:
        # people copy upper-case UUIDs from elsewhere
        prefix = name[:4].upper() + name[4:].lower()
        named = _named(prefix.replace("MIG-gpu-", "MIG-GPU-"), boards)
        found = [] if named is None else [_seen_as(visibility, *named)]
    if not found:
        raise _unknown(visibility, name)
    return found[0]


def _seen_as(visibility: Visibility, board: Board, piece: Slice | None) -> Seen:
    if piece is not None:
        return Seen(board=board, slices=(piece,))
    return next(one for one in visibility.seen if one.board == board)


def _unknown(visibility: Visibility, name: str) -> UnknownNameError:
    hidden = {board.uuid for board in visibility.hidden}
    hidden |= {board.pci_bus_id for board in visibility.hidden}
    if any(name and one.startswith(name) for one in hidden) or pci_address(name) in hidden:
        return UnknownNameError(
            f"GPU {name} is there but CUDA_VISIBLE_DEVICES hides it",
            cure="add it to CUDA_VISIBLE_DEVICES, or unset that",
        )
    return UnknownNameError.among("visible GPU", name, [one.board.uuid for one in visibility.seen])


def _form(entry: str) -> str:
    if entry.startswith("MIG-"):
        return "slice"
    if entry.startswith("GPU-"):
        return "uuid"
    return "ordinal" if _ORDINAL.match(entry) else "nothing"


def _named(entry: str, boards: Sequence[Board]) -> tuple[Board, Slice | None] | None:
    """Return the board, or board and slice, that `entry` names alone; None for none or several."""
    form = _form(entry)
    if form == "ordinal":
        match = _ORDINAL.match(entry)
        number = int(match[1]) if match else -1
        return (boards[number], None) if 0 <= number < len(boards) else None
    if form == "uuid":
        return _only([(board, None) for board in boards if board.uuid.startswith(entry)])
    if form == "nothing":
        return None
    pairs = [(board, piece) for board in boards for piece in board.slices]
    old = _OLD_SLICE.match(entry)
    if old is None:
        return _only([(board, piece) for board, piece in pairs if piece.uuid.startswith(entry)])
    place = (int(old[2]), int(old[3]))
    return _only(
        [
            (board, piece)
            for board, piece in pairs
            if board.uuid.startswith(old[1])
            and (piece.gpu_instance, piece.compute_instance) == place
        ]
    )


def _only(
    found: Sequence[tuple[Board, Slice | None]],
) -> tuple[Board, Slice | None] | None:
    return found[0] if len(found) == 1 else None


def _merged(found: Sequence[tuple[Board, Slice | None]]) -> tuple[Seen, ...]:
    """Return one entry a board: several slices of it have one energy between them."""
    slices: dict[str, list[Slice]] = {}
    boards = {board.uuid: board for board, _ in found}
    for board, piece in found:
        slices.setdefault(board.uuid, []).extend([] if piece is None else [piece])
    return tuple(Seen(board=board, slices=tuple(slices[uuid])) for uuid, board in boards.items())


def _pci_key(pci_bus_id: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in re.split(r"[:.]", pci_bus_id))
