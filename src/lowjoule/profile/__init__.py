"""Profiles (all points of a task) and frontiers (what a decision looks at)."""

from lowjoule.profile.profile import Point, Profile

__all__ = ["Point", "Profile"]
