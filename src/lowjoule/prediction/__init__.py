"""The offline stage: time and power of all settings of an unseen task, from a few measured."""

from lowjoule.prediction.boosted import Growth
from lowjoule.prediction.features import MeasuredTask, anchor_settings
from lowjoule.prediction.members import Recipe
from lowjoule.prediction.predictor import Prediction, Predictor
from lowjoule.prediction.saving import load, save
from lowjoule.prediction.stored import tasks_of
from lowjoule.workloads import Activity, DeviceFigures

__all__ = [
    "Activity",
    "DeviceFigures",
    "Growth",
    "MeasuredTask",
    "Prediction",
    "Predictor",
    "Recipe",
    "anchor_settings",
    "load",
    "save",
    "tasks_of",
]
