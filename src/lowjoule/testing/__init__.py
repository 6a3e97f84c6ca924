"""The conformance suite and fakes, for tests of devices; imported by nothing.

Needs pytest.
"""

from lowjoule.testing.conformance import DeviceConformance
from lowjoule.testing.strict import Permits, UntoldReadError, strict
from lowjoule.testing.work import WorkDeviceConformance

__all__ = ["DeviceConformance", "Permits", "UntoldReadError", "WorkDeviceConformance", "strict"]
