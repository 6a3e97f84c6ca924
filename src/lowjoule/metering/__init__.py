"""Energy, time and power between two moments."""

from lowjoule.metering.meter import Edge, Measurement, Meter

__all__ = ["Edge", "Measurement", "Meter"]
