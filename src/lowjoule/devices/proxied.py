"""A real device that runs work itself: the benchmark's proxies, in PyTorch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from lowjoule.clock import Clock
from lowjoule.devices.interface import (
    Coverage,
    Device,
    FastSampled,
    Figured,
    Identity,
    Reading,
    Told,
)
from lowjoule.errors import (
    DeviceError,
    InvalidValueError,
    OutOfMemoryError,
    UnknownNameError,
    UnsupportedError,
)
from lowjoule.knobs import BATCH_SIZE, Applied, Setting, Space
from lowjoule.profile import Profile
from lowjoule.workloads import DeviceFigures, Work, Workload
from lowjoule.workloads.proxies import PROXIES, Proxy, need_torch, workload_of

_KINDS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class ProxiedDevice:
    """`device` with the proxies that PyTorch runs on it: a GPU on itself, all else on the CPU.

    Identity, knobs and readings are those of `device`; `submit` runs steps of a proxy. On a GPU
    they are in the precision that its matrix units are made for (bf16, or fp16), on a CPU in
    fp32. One proxy is held at a time, at one batch size.

    Raises `MissingExtraError` without PyTorch, and `DeviceError` where PyTorch does not see the
    board.
    """

    def __init__(self, device: Device) -> None:
        torch = need_torch("a benchmark of a real device")
        self.device = device
        self.notes: tuple[str, ...] = ()
        self.gpu = device.identity.scope in (Coverage.GPU, Coverage.MIG_PARENT)
        self._torch = torch
        if self.gpu:
            self._place = torch.device("cuda", _number(torch, device.identity))
            self.precision = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
        else:
            self._place, self.precision = torch.device("cpu"), "fp32"
        self._built: tuple[str, int] | None = None
        self._proxy: Proxy | None = None

    @property
    def identity(self) -> Identity:
        """That of the device."""
        return self.device.identity

    @property
    def clock(self) -> Clock:
        """That of the device."""
        return self.device.clock

    @property
    def space(self) -> Space:
        """The device's knobs."""
        return self.device.space

    def read(self) -> Reading:
        """Return what the device says now."""
        return self.device.read()

    def sample(self) -> Reading:
        """Return time, energy and power, by the device's fast way where it has one."""
        return self.device.sample() if isinstance(self.device, FastSampled) else self.device.read()

    def current(self) -> Setting:
        """Return the setting in force."""
        return self.device.current()

    def apply(self, setting: Setting) -> Applied:
        """Write `setting` on the device, as it does it."""
        return self.device.apply(setting)

    def figures(self) -> DeviceFigures:
        """Return what the device tells of its kind."""
        if isinstance(self.device, Figured):
            return self.device.figures()
        return DeviceFigures(model=self.identity.model)

    def workload_names(self) -> tuple[str, ...]:
        """Return the proxies' names."""
        return tuple(PROXIES)

    def workload(self, name: str | None = None) -> Workload:
        """Return the proxy called `name` as it runs here; raises `UnknownNameError`."""
        return workload_of(_kind(name), self.precision, gpu=self.gpu)

    def workload_space(self, workload: Workload) -> Space:
        """Return the batch sizes."""
        return Space(tuple(workload.knobs))

    def joint_space(self, workload: Workload) -> Space:
        """Return the device's knobs and the batch sizes."""
        return Space((*self.space.knobs, *workload.knobs), self.space.rules)

    def submit(self, workload: Workload, work: Work, setting: Setting) -> Execution:
        """Start whole steps of a proxy that are at least `work`.

        Raises `OutOfMemoryError` where it does not fit, and `InvalidValueError` for a batch size
        that the proxy has not.
        """
        work.check(Work(1.0, workload.unit))
        space = self.workload_space(workload)
        for name, value in setting.items():
            space.knob(name).index(value)
        batch = int({**space.default, **setting}[BATCH_SIZE])
        proxy = self._held(workload, batch)
        return Execution(self, proxy, max(1, math.ceil(work.quantity / batch)))

    def survey(self, workload: Workload, space: Space | None = None) -> Profile:  # noqa: ARG002
        """Raise `UnsupportedError`: nothing is known of a real board before it is measured."""
        raise UnsupportedError(
            f"nothing is known of {workload.name} on {self.identity.model} before it is measured",
            cure="measure it (lowjoule benchmark)",
        )

    def release(self) -> None:
        """Give back the memory of the proxy that is held."""
        self._built = self._proxy = None
        if self.gpu:
            self._torch.cuda.empty_cache()

    @contextlib.contextmanager
    def fitting(self) -> Iterator[None]:
        """Turn PyTorch's ways to say that memory does not suffice into `OutOfMemoryError`."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not _is_memory(self._torch, error):
                raise DeviceError(
                    f"PyTorch failed on {self.identity.model}: {_first_line(error)}",
                    cure="run the benchmark without this proxy (--proxies)",
                ) from error
            problem = f"it does not fit the memory of {self.identity.model}"
        else:
            return
        # outside of the handler, in which the traceback still holds what was to be freed
        self.release()
        raise OutOfMemoryError(problem, cure="choose a smaller batch")

    def event(self) -> Any:
        """Return a mark behind all that is queued now, None where nothing is queued."""
        if not self.gpu:
            return None
        found = self._torch.cuda.Event()
        found.record(self._torch.cuda.current_stream(self._place))
        return found

    def steps(self, proxy: Proxy, count: int) -> None:
        """Run or queue `count` steps."""
        with self.fitting(), self._torch.inference_mode(not proxy.training):
            for _ in range(count):
                proxy.step()

    def _held(self, workload: Workload, batch: int) -> Proxy:
        if self._proxy is None or self._built != (workload.name, batch):
            kind = _kind(workload.name)
            self.release()
            with self.fitting():
                dtype = getattr(self._torch, _KINDS[workload.precision])
                self._torch.manual_seed(0)
                self._proxy = kind(batch, self._place, dtype)
                self._proxy.step()
                if self.gpu:
                    self._torch.cuda.synchronize(self._place)
            self._built = (workload.name, batch)
        assert self._proxy is not None
        return self._proxy


class Execution:
    """Steps of a proxy: a GPU has them queued, a CPU does them when they are waited for."""

    def __init__(self, device: ProxiedDevice, proxy: Proxy, count: int) -> None:
        self.told = Told()
        self._device, self._proxy, self._left = device, proxy, count
        self._event: Any = None
        if device.gpu:
            device.steps(proxy, count)
            self._event, self._left = device.event(), 0

    def wait(self) -> None:
        """Return when the steps are done."""
        if self._event is not None:
            with self._device.fitting():
                self._event.synchronize()
        elif self._left:
            count, self._left = self._left, 0
            self._device.steps(self._proxy, count)


def _kind(name: str | None) -> type[Proxy]:
    if name is None:
        raise InvalidValueError("no proxy is named", cure=f"choose one of {', '.join(PROXIES)}")
    if name not in PROXIES:
        raise UnknownNameError.among("proxy", name, PROXIES)
    return PROXIES[name]


def _number(torch: Any, identity: Identity) -> int:
    """Return the number by which PyTorch knows the board; raises `DeviceError`."""
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            seen = torch.cuda.get_device_properties(number)
            uuid = str(getattr(seen, "uuid", ""))
            if uuid and identity.uuid.removeprefix("GPU-").lower() == uuid.lower():
                return number
    raise DeviceError(
        f"PyTorch does not see {identity.model} ({identity.uuid})",
        cure="install a PyTorch built for it, and check CUDA_VISIBLE_DEVICES",
    )


def _is_memory(torch: Any, error: BaseException) -> bool:
    kind = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    said = str(error).lower()
    return isinstance(error, (kind, MemoryError)) or any(
        word in said for word in ("out of memory", "not enough memory", "can't allocate memory")
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
