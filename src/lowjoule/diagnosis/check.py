"""A check: what was looked at, the verdict, what was found, and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended. A machine is fit for use while nothing is `FAIL`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. `about` is a device or a part of the machine."""

    name: str
    verdict: Verdict
    found: str
    cure: str | None = None
    about: str = ""


def ok(name: str, found: str, about: str = "") -> Check:
    """Return a check that found nothing wrong."""
    return Check(name=name, verdict=Verdict.OK, found=found, about=about)


def warn(name: str, found: str, cure: str | None = None, about: str = "") -> Check:
    """Return a check that found a limitation: something is not possible, the rest is."""
    return Check(name=name, verdict=Verdict.WARN, found=found, cure=cure, about=about)


def fail(name: str, found: str, cure: str | None = None, about: str = "") -> Check:
    """Return a check that found something broken, or that what was asked for cannot work."""
    return Check(name=name, verdict=Verdict.FAIL, found=found, cure=cure, about=about)


def not_applicable(name: str, found: str) -> Check:
    """Return a check of something that is not here."""
    return Check(name=name, verdict=Verdict.NOT_APPLICABLE, found=found)
