"""Errors that lowjoule raises: one sentence that says what failed and where, and the cure.

Every error that a user can cause or meet is a `LowjouleError`; the command line prints its
text alone and exits with `exit_code`. Anything else that escapes is a fault of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

_LONGEST_NAME = 80


class LowjouleError(Exception):
    """Base of all errors of this package.

    `problem` says what failed and where, `cure` what the user can do about it; together they
    read as one sentence.
    """

    exit_code = 2

    def __init__(self, problem: str, *, cure: str) -> None:
        super().__init__(f"{problem}; {cure}")
        self.problem = problem
        self.cure = cure

    def __reduce__(self) -> tuple[Callable[..., LowjouleError], tuple[object, ...]]:
        # exceptions are rebuilt from `args`, the one sentence, in which the two are joined
        return _rebuilt, (type(self), self.problem, self.cure)


def _rebuilt(kind: type[LowjouleError], problem: str, cure: str) -> LowjouleError:
    return kind(problem, cure=cure)


class InvalidValueError(LowjouleError, ValueError):
    """A value given by the user is outside what is allowed."""


class UnknownNameError(LowjouleError, LookupError):
    """A name that is not in a catalogue; the cure names the nearest known ones."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
        """Return the error for `name`, unknown among the `known` names of a `kind` of thing."""
        name = name[:_LONGEST_NAME]
        names = sorted(known)
        folded = {one.casefold(): one for one in names}
        close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        near = [folded[one] for one in close]
        if near:
            cure = "did you mean " + " or ".join(repr(one) for one in near) + "?"
        elif names:
            shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            cure = f"known are {shown}"
        else:
            cure = f"no {kind} is known here"
        return cls(f"unknown {kind} {name!r}", cure=cure)


class TableError(LowjouleError, ValueError):
    """A table of measurements cannot be read or means two things at once."""


class StoreError(LowjouleError):
    """The store of measurements cannot be opened, read or written."""


class InfeasibleError(LowjouleError):
    """No point satisfies the constraints; the cure names the closest one."""


class IncomparableError(LowjouleError, ValueError):
    """Two amounts of different work, or points without the needed column, were put together."""


class MissingExtraError(LowjouleError, ImportError):
    """An optional dependency is absent; the cure names the extra that brings it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtraError:
        """Return the error for `package`, needed for `purpose` and brought by `extra`."""
        return cls(
            f"{purpose} needs {package}, which is not installed",
            cure=f"pip install 'lowjoule[{extra}]'",
        )


class DeviceError(LowjouleError):
    """A device refused or failed."""


class UnsupportedError(DeviceError):
    """The device cannot do what was asked."""


class PermissionDeniedError(DeviceError):
    """The device does it for administrators only; the cure names the command that does it."""


class LostDeviceError(DeviceError):
    """The device is gone until it is reset: nothing that is asked of it will be answered."""


class OutOfMemoryError(DeviceError):
    """The work does not fit the device's memory at this setting."""


class NotMeasuredError(DeviceError):
    """A replayed table has no measurement of the setting asked for."""


class BusyError(DeviceError):
    """Someone else owns the knob."""
