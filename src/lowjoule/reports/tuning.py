"""The outcome of a tuning run as a table and a few sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowjoule.quantities import Unit, show
from lowjoule.tuning.result import Side, TuneResult

if TYPE_CHECKING:
    from rich.table import Table


def tuning_table(result: TuneResult) -> Table:
    """Return default against chosen, a row a figure, as a rich table."""
    from rich.table import Table

    unit = result.workload.unit.value
    table = Table(title=title(result), title_justify="left", title_style="bold")
    table.add_column(f"of one {unit}", style="dim")
    for name in ("default", "chosen", "change"):
        table.add_column(name, justify="right")
    for row in _rows(result):
        table.add_row(*row)
    return table


def title(result: TuneResult) -> str:
    """Return what was tuned on what, with the provenance of all figures first."""
    source = result.identity.source.value.upper()
    return f"{source}: {result.workload.name} on {result.identity.title}"


def _rows(result: TuneResult) -> list[tuple[str, str, str, str]]:
    default, chosen = result.default, result.chosen
    rows = [
        (
            knob.name,
            knob.show(default.setting[knob.name]),
            knob.show(chosen.setting[knob.name]),
            "" if default.setting[knob.name] == chosen.setting[knob.name] else "turned",
        )
        for knob in result.space.knobs
        if len(knob.values) > 1
    ]
    rows += [
        ("energy", *_pair(default.energy_j, chosen.energy_j, Unit.JOULE)),
        ("time", *_pair(default.time_s, chosen.time_s, Unit.SECOND)),
        ("power", *_pair(default.power_w, chosen.power_w, Unit.WATT)),
    ]
    rows.append((f"objective {result.objective}", *_objective(default, chosen)))
    return rows


def _pair(before: float, after: float, unit: Unit) -> tuple[str, str, str]:
    return show(before, unit), show(after, unit), f"{after / before - 1.0:+.1%}"


def _objective(default: Side, chosen: Side) -> tuple[str, str, str]:
    """Return the objective of both; a figure people maximise is negative inside."""
    sign = -1.0 if default.objective < 0 else 1.0
    shown = [f"{sign * side.objective:.4g}{_spread(side)}" for side in (default, chosen)]
    return shown[0], shown[1], f"{chosen.objective / default.objective - 1.0:+.1%}"


def _spread(side: Side) -> str:
    return f" ± {side.uncertainty:.2g}" if side.uncertainty else ""


def tuning_sentences(result: TuneResult) -> list[str]:
    """Return the account of the search and every note, a sentence each."""
    saving = result.saving
    unit = result.workload.unit.value
    sentences = [
        f"{_count(result.draws, 'draw')} of {_count(result.settings_tried, 'setting')} "
        f"(of {len(result.space):,}), "
        f"{show(saving.search_time_s, Unit.SECOND)} and "
        f"{show(saving.search_energy_j, Unit.JOULE)} in the search.",
        f"Over {_amount(saving.job.quantity)} {unit}s, the search paid for, "
        + _saved(saving.net_energy_j, saving.net_time_s)
        + ".",
    ]
    if result.chosen.setting == result.default.setting:
        sentences.append("The default is the best setting tried.")
    elif saving.break_even_work is None:
        sentences.append("The search does not pay for itself.")
    elif saving.break_even_work > saving.job.quantity:
        after = f"{_amount(saving.break_even_work)} {unit}s"
        sentences.append(f"The search would pay for itself after {after}, beyond this job.")
    else:
        sentences.append(
            f"The search has paid for itself after {_amount(saving.break_even_work)} {unit}s."
        )
    sentences += [_sureness(result.confidence)] if result.confidence is not None else []
    if result.kept is not None:
        bounds = ", ".join(result.constraints)
        sentences.append(f"It keeps to {bounds} with a probability of {result.kept:.0%}.")
    held = [knob for knob in result.space.knobs if len(knob.values) == 1]
    if held:
        values = ", ".join(f"{knob.name} {knob.show(knob.default)}" for knob in held)
        sentences.append(f"Held as it is: {values}.")
    return sentences + [f"Note: {note}." for note in result.notes]


def _sureness(confidence: float) -> str:
    if confidence >= 0.9:
        return f"It is the best of those tried with a probability of {confidence:.0%}."
    return (
        f"It is the best of those tried with a probability of {confidence:.0%}: others are as good "
        "within the noise."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _amount(quantity: float) -> str:
    return f"{quantity:,.0f}" if quantity >= 1000 else f"{quantity:.3g}"


def _saved(net_j: float, net_s: float) -> str:
    energy = f"{show(abs(net_j), Unit.JOULE)} {'saved' if net_j >= 0 else 'lost'}"
    time = f"{show(abs(net_s), Unit.SECOND)} {'saved' if net_s >= 0 else 'longer'}"
    return f"{energy}, {time}"
