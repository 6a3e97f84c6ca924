"""Devices, behind one narrow interface."""
