"""Which boards CUDA shows, and which the user means, in all the forms that people write."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowjoule.devices.interface import Coverage
from lowjoule.devices.nvml.visible import Board, Slice, Visibility, pci_address, select, visible
from lowjoule.errors import InvalidValueError, UnknownNameError

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-8a0b1c2d-0000-4106-c12f-000000000001"
C = "GPU-12345678-0000-4106-c12f-000000000002"
MIG_1 = "MIG-11111111-aaaa-5106-c12f-000000000001"
MIG_2 = "MIG-12222222-aaaa-5106-c12f-000000000002"


def board(uuid: str, bus: str, model: str = "H100", **more: object) -> Board:
    return Board(uuid=uuid, pci_bus_id=f"0000:{bus}:00.0", model=model, **more)  # type: ignore[arg-type]


# deliberately not in the order of their addresses
BOARDS = (board(C, "c1"), board(A, "3b"), board(B, "5e"))
SLICES = (
    Slice(uuid=MIG_1, gpu_instance=1, compute_instance=0),
    Slice(uuid=MIG_2, gpu_instance=2, compute_instance=0),
)
SLICED = (board(A, "3b", slices=SLICES, partitioned=True), board(B, "5e"))
MIXED = (board(A, "3b", "T4"), board(B, "5e", "H100"))


def seen(result: Visibility) -> list[str]:
    return [one.board.uuid for one in result.seen]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (None, [A, B, C]),
        ("", []),
        ("  ", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0", [A]),
        ("2,0", [C, A]),
        (" 1 , 0 ", [B, A]),
        ("0,2,-1,1", [A, C]),
        ("0,7,1", [A]),
        ("7,0", []),
        ("0,", [A]),
        ("0,,1", [A]),
        ("0,0", []),
        ("0,1,0", []),
        ("1gpu,0", [B, A]),
        ("0-2", [A]),
        ("+1", [B]),
        ("none", []),
        (A, [A]),
        (f"{B},{A}", [B, A]),
        ("GPU-8932f937", [A]),
        ("GPU-89", [A]),
        ("GPU-8", []),
        ("GPU-12345678,GPU-8a", [C, B]),
        ("GPU-12345678,GPU-ffff,GPU-8a", [C]),
        ("GPU-89,GPU-8932", []),
        (f"{A},1", [A]),
        (f"1,{A}", [B]),
        (A.upper(), []),
        ("3b:00.0", [B]),
    ],
)
def test_every_form_of_the_variable_shows_what_cuda_shows(
    devices: str | None, expected: list[str]
) -> None:
    if devices == "3b:00.0":
        # a bus id is no identifier of CUDA's; read as a number it is 3, which is none of three
        expected = []
    result = visible(BOARDS, devices, None)
    assert seen(result) == expected
    assert {one.uuid for one in result.hidden} == {A, B, C} - set(expected)


@pytest.mark.parametrize(
    ("devices", "expected", "slices"),
    [
        (MIG_1, [A], [[MIG_1]]),
        ("MIG-11", [A], [[MIG_1]]),
        ("MIG-1", [], []),
        (f"MIG-{A}/2/0", [A], [[MIG_2]]),
        ("MIG-GPU-8932f937/2/0", [A], [[MIG_2]]),
        (f"MIG-{A}/9/0", [], []),
        (f"{MIG_1},{MIG_2}", [A], [[MIG_1, MIG_2]]),
        (f"{MIG_1},MIG-{A}/1/0", [], []),
        ("MIG-nothing", [], []),
        (A, [A], [[]]),
    ],
)
def test_a_mig_id_maps_to_its_parent_once(
    devices: str, expected: list[str], slices: list[list[str]]
) -> None:
    result = visible(SLICED, devices, None)
    assert seen(result) == expected
    assert [[piece.uuid for piece in one.slices] for one in result.seen] == slices
    assert all(one.coverage is Coverage.MIG_PARENT for one in result.seen)


def test_an_undivided_board_is_its_own() -> None:
    assert visible(BOARDS, "0", None).seen[0].coverage is Coverage.GPU


@pytest.mark.parametrize("order", [None, "", "FASTEST_FIRST", "nonsense"])
def test_an_ordinal_among_different_models_is_refused_without_an_order(order: str | None) -> None:
    with pytest.raises(InvalidValueError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        visible(MIXED, "0", order)


def test_different_models_are_known_by_pci_order_or_uuid() -> None:
    assert seen(visible(MIXED, "1,0", "PCI_BUS_ID")) == [B, A]
    assert seen(visible(MIXED, B, None)) == [B]
    assert visible(MIXED, B, None).ordered
    assert seen(visible(MIXED, "-1", None)) == []
    everything = visible(MIXED, None, None)
    assert seen(everything) == [A, B]
    assert not everything.ordered
    with pytest.raises(InvalidValueError, match="CUDA_DEVICE_ORDER"):
        select(everything, "0")
    assert select(everything, [B])[0].board.uuid == B


@pytest.mark.parametrize("devices", ["0,9", "0,9,1", "0,0", "GPU-8", "NoDevFiles", f"{A},1"])
def test_what_hides_boards_is_said(devices: str) -> None:
    assert devices in visible(BOARDS, devices, None).notes[0]


@pytest.mark.parametrize("devices", [None, "", "-1", "0,1", "0,-1", A])
def test_what_is_meant_is_not_remarked(devices: str | None) -> None:
    assert visible(BOARDS, devices, None).notes == ()


def test_a_selection_is_a_text_a_list_or_nothing() -> None:
    shown = visible(BOARDS, "2,0", None)
    assert [one.board.uuid for one in select(shown, None)] == [C, A]
    assert [one.board.uuid for one in select(shown, "0")] == [C]
    assert [one.board.uuid for one in select(shown, "1,0")] == [A, C]
    assert [one.board.uuid for one in select(shown, [1, "GPU-12"])] == [A, C]
    assert [one.board.uuid for one in select(shown, ["3B:00.0", "00000000:C1:00.0"])] == [A, C]
    assert [one.board.uuid for one in select(shown, A.upper())] == [A]
    assert [one.board.uuid for one in select(shown, [A, 1, A])] == [A]
    assert select(shown, []) == ()
    assert select(shown, "") == ()


@pytest.mark.parametrize(
    "loose", ["0,1", "0:module", "0@Module", "0xB", "1.0", "1_0", "1gpu", "+1"]
)
def test_a_name_that_only_begins_like_an_ordinal_opens_nothing(loose: str) -> None:
    with pytest.raises(UnknownNameError):
        select(visible(BOARDS, None, "PCI_BUS_ID"), [loose])


@pytest.mark.parametrize("unknown", ["GPU-ffff", "7", "-1", "cuda:0", "MIG-1", "", "\x00", "GPU-"])
def test_an_unknown_id_is_named_and_refused(unknown: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        select(visible(BOARDS, None, None), [0, unknown])
    assert repr(unknown) in str(caught.value)


@pytest.mark.parametrize("name", [B, "GPU-8a", "0000:5e:00.0", "5e:00.0"])
def test_a_hidden_board_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(UnknownNameError, match="CUDA_VISIBLE_DEVICES hides it"):
        select(visible(BOARDS, "0", None), [name])


def test_slices_that_are_selected_make_one_device() -> None:
    shown = visible(SLICED, None, None)
    (one,) = select(shown, [MIG_1, MIG_2])
    assert one.board.uuid == A
    assert one.slices == SLICES
    assert select(shown, [MIG_1, A])[0].slices == ()
    assert select(shown, MIG_1.upper())[0].slices == SLICES[:1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        ("00010000:3b:00.0", "10000:3b:00.0"),
        ("3b:00", None),
        ("GPU-8932f937", None),
        ("", None),
    ],
)
def test_a_bus_id_has_one_form(text: str, expected: str | None) -> None:
    assert pci_address(text) == expected


ENTRY = st.one_of(
    st.integers(-2, 5).map(str),
    st.sampled_from([A, B, C, "GPU-89", "GPU-8", "GPU-", MIG_1, f"MIG-{A}/1/0", "", " 1", "x"]),
    st.text(max_size=5),
)


@given(st.lists(ENTRY, max_size=6).map(",".join), st.sampled_from([None, "PCI_BUS_ID"]))
def test_never_more_than_there_is_and_each_board_once(devices: str, order: str | None) -> None:
    for boards in (BOARDS, SLICED):
        result = visible(boards, devices, order)
        shown, hidden = seen(result), [one.uuid for one in result.hidden]
        assert len(set(shown)) == len(shown)
        assert sorted(shown + hidden) == sorted(one.uuid for one in boards)
        assert len(shown) <= len(devices.split(","))


@given(st.permutations([0, 1, 2]), st.permutations(BOARDS))
def test_the_order_is_the_variables_whatever_the_drivers_is(
    order: list[int], boards: list[Board]
) -> None:
    result = visible(boards, ",".join(map(str, order)), None)
    assert seen(result) == [(A, B, C)[place] for place in order]


@given(st.lists(ENTRY, min_size=1, max_size=4), ENTRY)
def test_what_follows_an_invalid_entry_changes_nothing(before: list[str], after: str) -> None:
    assert seen(visible(BOARDS, ",".join([*before, "-1", after]), None)) == seen(
        visible(BOARDS, ",".join([*before, "-1"]), None)
    )


def test_a_selection_never_shows_what_is_hidden() -> None:
    for devices, wanted in itertools.product(["", "0", "1,2", A], [A, B, C, "0", "1", "2"]):
        shown = visible(BOARDS, devices, None)
        try:
            chosen = select(shown, wanted)
        except UnknownNameError:
            continue
        assert {one.board.uuid for one in chosen} <= set(seen(shown))
