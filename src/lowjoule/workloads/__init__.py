"""Workloads: units of work, what is run, its signature, and the catalogue."""

from lowjoule.workloads.work import Work, WorkUnit
from lowjoule.workloads.workload import Workload

__all__ = ["Work", "WorkUnit", "Workload"]
