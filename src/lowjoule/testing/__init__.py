"""The conformance suite and fakes, for tests of devices; imported by nothing."""
