"""How alike settings are: the covariance of smooth surfaces over knobs.

Shared by the searches (`lowjoule.tuning.surface`) and the offline predictor
(`lowjoule.prediction.gaussian`): a straight line along each knob, a bend along each knob that may
be sharp (Matern 3/2), and a joint part (Rasmussen & Williams 2006, eqs. 4.17 and 5.8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """A covariance over rows of knob coordinates, (n, knobs).

    `sizes` are the standard deviations of the bends and `widths` their correlation lengths along
    each knob, `named` marks knobs whose values are names (equal or not), all of shape (knobs,);
    `elasticity` is that of the lines' slopes, `joint` that of what all knobs do together.
    """

    sizes: Floats
    widths: Floats
    named: NDArray[np.bool_]
    elasticity: float
    joint: float

    def __call__(self, left: Floats, right: Floats, origin: Floats) -> Floats:
        """Return the covariance (n, m) of rows `left` (n, knobs) and `right` (m, knobs).

        `origin` (knobs,) is where the lines cross.
        """
        total = np.zeros((len(left), len(right)))
        joint = np.full_like(total, self.joint**2)
        for k, size in enumerate(self.sizes):
            alike = self._alike(left[:, k], right[:, k], k)
            if not self.named[k]:
                line = np.outer(left[:, k] - origin[k], right[:, k] - origin[k])
                total += self.elasticity**2 * line
            total += size**2 * alike
            joint *= alike
        return total + joint

    def _alike(self, left: Floats, right: Floats, knob: int) -> Floats:
        """Return the correlation of bends along one knob, from one at no distance, (n, m)."""
        # a grid of many settings repeats few values of each knob
        values, place = np.unique(left, return_inverse=True)
        gap = values[:, None] - right[None, :]
        if self.named[knob]:
            alike = (gap == 0).astype(np.float64)
        else:
            far = np.sqrt(3.0) * np.abs(gap) / self.widths[knob]
            alike = (1.0 + far) * np.exp(-far)
        return np.asarray(alike[place])

    def variance(self, rows: Floats, origin: Floats) -> Floats:
        """Return the diagonal of the covariance of `rows` with themselves, shape (n,)."""
        numeric = ~self.named
        lines = self.elasticity**2 * ((rows - origin) ** 2)[:, numeric].sum(axis=1)
        return np.asarray(lines + np.sum(self.sizes**2) + self.joint**2)
