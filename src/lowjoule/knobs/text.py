"""Settings as people write them: "power_limit=250W, batch_size=64"."""

from __future__ import annotations

from lowjoule.errors import InvalidValueError
from lowjoule.knobs.knob import Value
from lowjoule.knobs.setting import Setting
from lowjoule.knobs.space import Space
from lowjoule.knobs.standard import standard_knob


def parse_setting(text: str, space: Space) -> Setting:
    """Return the setting that `text` names; it may name only some knobs of `space`.

    Raises `UnknownNameError` for a knob that is not there, and `InvalidValueError` for a value
    outside a knob's domain, a knob named twice, a combination that is not allowed, or text that
    is not of this form.
    """
    values: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise InvalidValueError(
                f"{part.strip()[:40]!r} does not give a knob a value", cure=_example(space)
            )
        knob = space.knob(name)
        if name in values:
            raise InvalidValueError(f"{name} is given twice", cure="give it one value")
        values[name] = knob.parse(value)
    setting = Setting(values)
    if len(setting) == len(space.knobs):
        space.check(setting)
    return setting


def show_setting(setting: Setting, space: Space) -> str:
    """Return `setting` for people, with units, in the order of `space`; `parse_setting` reads it.

    Values of knobs that `space` does not have follow as they are.
    """
    known = [f"{k.name}={k.show(setting[k.name])}" for k in space.knobs if k.name in setting]
    others = [f"{name}={value}" for name, value in setting.items() if name not in space.names]
    return ", ".join(known + others)


def show_values(setting: Setting) -> str:
    """Return `setting` for people where its space is not at hand, in the units of known knobs."""
    parts = [
        f"{name}={standard_knob(name, [value], value).show(value)}"
        for name, value in setting.items()
    ]
    return ", ".join(parts)


def _example(space: Space) -> str:
    defaults = (f"{knob.name}={knob.show(knob.default).replace(' ', '')}" for knob in space.knobs)
    return f"write it like {','.join(list(defaults)[:2]) or 'knob=value'}"
