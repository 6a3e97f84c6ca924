"""What stands on device and loop: the setting asked for, and the one in force."""

from __future__ import annotations

from collections.abc import Callable

from lowjoule.knobs import MICRO_BATCH, Setting, Space


class Standing:
    """Keeps the two settings, and turns the micro-batch of a loop at a step's end.

    `turn_micro` sets the micro-batch, and how many of them make a step of `batch` samples. Where a
    write may have failed half-way, what the device is at is not `known`.
    """

    def __init__(
        self,
        space: Space,
        own: tuple[str, ...],
        turn_micro: Callable[[int, int], object] | None,
        batch: int | None,
    ) -> None:
        self.asked = self.in_force = space.default
        self.known = True
        self._names, self._turn, self._batch = own, turn_micro, batch

    @property
    def own(self) -> Setting:
        """The part of the setting in force that is the device's."""
        return self.in_force.only(self._names)

    @property
    def wanted(self) -> Setting:
        """The part of the setting asked for that is the device's."""
        return self.asked.only(self._names)

    def settle_on(self, own: Setting) -> tuple[str, ...]:
        """Take `own` as the device's part in force, turn the rest, and return what has changed.

        Raises what the loop's callback raises; what is in force is not known then.
        """
        before = self.in_force
        try:
            self.turn_micro(self.asked)
        except Exception:
            self.in_force, self.known = own, False
            raise
        self.in_force = Setting({**self.asked, **own})
        return before.changed(self.in_force)

    def turn_micro(self, setting: Setting) -> None:
        """Turn the micro-batch to that of `setting`, where there is one to turn."""
        value = setting.get(MICRO_BATCH)
        if self._turn is None or self._batch is None or value is None:
            return
        if value != self.in_force.get(MICRO_BATCH):
            self._turn(int(value), self._batch // int(value))
            self.in_force = self.in_force.replace(**{MICRO_BATCH: value})

    def changed_in(self, found: Setting, space: Space) -> tuple[str, ...]:
        """Return which knobs that are turned stand elsewhere on the device than they should."""
        turned = [k.name for k in space.knobs if len(k.values) > 1 and k.name in self.own]
        return self.own.only(turned).changed(found.only(turned))
