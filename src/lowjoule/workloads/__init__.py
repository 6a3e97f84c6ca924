"""Workloads: units of work, what is run, its signature, and the catalogue."""

from lowjoule.workloads.catalogue import load, names
from lowjoule.workloads.figures import Activity, DeviceFigures
from lowjoule.workloads.signature import Anchor, Signature
from lowjoule.workloads.work import Work, WorkUnit, parse_work
from lowjoule.workloads.workload import Workload

__all__ = [
    "Activity",
    "Anchor",
    "DeviceFigures",
    "Signature",
    "Work",
    "WorkUnit",
    "Workload",
    "load",
    "names",
    "parse_work",
]
