"""The energy of one package: the sum of zones that do not overlap, each unwrapped."""

from __future__ import annotations

from lowjoule.clock import Clock
from lowjoule.devices.counter import Counter, Moment, cumulative_j
from lowjoule.devices.rapl.limit import largest_power_w
from lowjoule.devices.rapl.zones import Package, Zone
from lowjoule.devices.sysfs import Sysfs
from lowjoule.errors import DeviceError

PACKAGE_MAX_W = 1000.0
"""More than a package draws, where its limits do not say what it can."""
DRAM_MAX_W = 500.0
"""More than the memory of a package draws, where its limits do not say what it can."""


class Domain:
    """Zones of one kind: the dies of a package, or their memory. They add, unless they repeat.

    Some processors show one counter under each die. Dies whose values agree while they move
    are one counter, counted once; until one of them has moved it does not matter.
    """

    def __init__(self, sysfs: Sysfs, zones: tuple[Zone, ...], default_max_w: float) -> None:
        self.zones = zones
        self.repeats: bool | None = None if len(zones) > 1 else False
        self._sysfs = sysfs
        self._first_uj: int | None = None
        self.counters = [_counter(sysfs, zone, default_max_w) for zone in zones]

    @property
    def counted(self) -> list[Counter]:
        """The counters that add."""
        return self.counters if self.repeats is False else self.counters[:1]

    def see(self, clock: Clock) -> bool:
        """Read all zones; raises `OSError`, and returns False where they say nothing."""
        good = True
        values = []
        for zone, counter in zip(self.zones, self.counters, strict=True):
            values.append(_value_uj(self._sysfs, zone))
            good &= counter.see(values[-1], Moment(clock.now_s(), clock.unix_s()))
        if self.repeats is None:
            self._compare(values, _value_uj(self._sysfs, self.zones[0]))
        return good

    def _compare(self, values_uj: list[int], again_uj: int) -> None:
        """Tell one counter shown twice from two: read between two reads, it lies between them."""
        first_uj = values_uj[0]
        range_uj = self.counters[0].range_uj or 1 << 63
        room_uj = (again_uj - first_uj) % range_uj
        if any((value - first_uj) % range_uj > room_uj for value in values_uj[1:]):
            self.repeats = False
        elif self._first_uj is None:
            self._first_uj = first_uj
        elif first_uj != self._first_uj:
            self.repeats = True


class PackageMeter:
    """One reader's count of a package and its memory, in J."""

    def __init__(self, sysfs: Sysfs, package: Package, clock: Clock) -> None:
        self.package = package
        self.refused: OSError | None = None
        self._clock = clock
        self.domains = [Domain(sysfs, package.dies, PACKAGE_MAX_W)]
        if package.dram:
            self.domains.append(Domain(sysfs, package.dram, DRAM_MAX_W))

    @property
    def longest_gap_s(self) -> float:
        """How long two looks can be apart, in s."""
        return min(one.longest_gap_s for domain in self.domains for one in domain.counters)

    def energy_j(self) -> float | None:
        """Return the count, None where it is not known; raises `DeviceError` for a lost zone."""
        self.refused = None
        good = True
        for domain in self.domains:
            try:
                good &= domain.see(self._clock)
            except OSError as error:
                self.refused, good = error, False
        if isinstance(self.refused, FileNotFoundError):
            raise DeviceError(
                f"the powercap zones of {self.package.name} are gone",
                cure="load the kernel module intel_rapl_msr and open the device again",
            )
        if not good:
            return None
        counted = [one for domain in self.domains for one in domain.counted]
        return cumulative_j(sum(one.total_uj for one in counted), sum(c.breaks for c in counted))

    def doubts(self) -> tuple[str, ...]:
        """Return what was not known so far, a sentence a zone."""
        every = [pair for d in self.domains for pair in zip(d.zones, d.counters, strict=True)]
        return tuple(
            f"energy of {zone.name} ({zone.ident}) is missing for a while: {counter.why}"
            for zone, counter in every
            if counter.why
        )


def _counter(sysfs: Sysfs, zone: Zone, default_max_w: float) -> Counter:
    range_uj = sysfs.whole(zone.folder / "max_energy_range_uj")
    largest_w = largest_power_w(sysfs, zone)
    return Counter(
        range_uj=range_uj if range_uj and range_uj > 0 else None,
        # short bursts go beyond the largest limit, though never to twice of it for long
        max_power_w=default_max_w if largest_w is None else 2 * largest_w,
    )


def _value_uj(sysfs: Sysfs, zone: Zone) -> int:
    text = sysfs.text(zone.energy)
    try:
        value_uj = int(text)
    except ValueError:
        raise OSError(f"{zone.energy} says {text[:40]!r}") from None
    if value_uj < 0:
        raise OSError(f"{zone.energy} says {value_uj}")
    return value_uj
