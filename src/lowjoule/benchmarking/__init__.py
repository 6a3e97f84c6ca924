"""The offline stage's measurements: known work over a designed part of a device's settings."""

from lowjoule.benchmarking.benchmark import Benchmark, Happened
from lowjoule.benchmarking.design import design
from lowjoule.benchmarking.plan import Plan, Task
from lowjoule.benchmarking.result import BenchmarkResult, Covered

__all__ = ["Benchmark", "BenchmarkResult", "Covered", "Happened", "Plan", "Task", "design"]
