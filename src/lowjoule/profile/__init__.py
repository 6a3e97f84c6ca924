"""Profiles (all points of a task) and frontiers (what a decision looks at)."""

from lowjoule.profile.choice import Choice
from lowjoule.profile.composition import barrier, or_, repeated, then
from lowjoule.profile.frontier import Frontier
from lowjoule.profile.hull import Hull, Mixture
from lowjoule.profile.plan import Branch, Leaf, Order, Plan
from lowjoule.profile.point import Point
from lowjoule.profile.profile import Profile
from lowjoule.profile.pruning import pareto

__all__ = [
    "Branch",
    "Choice",
    "Frontier",
    "Hull",
    "Leaf",
    "Mixture",
    "Order",
    "Plan",
    "Point",
    "Profile",
    "barrier",
    "or_",
    "pareto",
    "repeated",
    "then",
]
