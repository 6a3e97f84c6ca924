"""Objectives and constraints, in Python and as text."""
