"""Arrays of callers in the memory of a model's device: what runs take and return without a way through the host.

Work is ordered by streams, on NVIDIA GPUs: a run is queued on the stream that PyTorch or CuPy works on now where it is
given one of their arrays, after what writes its inputs and after the run before, whichever stream that was on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.errors import InputError
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_dlpack import current_stream, is_on_cuda
from tilewright.runtime.gpu.cuda_event import CudaEvent
from tilewright.runtime.gpu.cuda_memory import Allocation
from tilewright.runtime.signature import TensorSpec, ValueSpec, bind, checked_outputs, wrong_type


def bind_value(api: DeviceApi, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec]) -> Any:
    """`value` for an input: a `DeviceArray` where it is in the device's memory, else an array as `bind` makes it.

    A tensor of PyTorch whose elements are not contiguous is copied there. Raises `InputError` as `bind` does, and for
    an array on another device.
    """
    if isinstance(spec, ValueSpec):
        return bind(value, spec, specs)
    if isinstance(api, CudaDevice) and is_on_cuda(value):
        value = getattr(value, "contiguous", lambda same=value: same)()
    array = _taken(api, value)
    return bind(value, spec, specs) if array is None else _checked(array, spec, specs)


def bind_outputs(
    api: DeviceApi, given: Sequence[Any], specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]
) -> list[Any]:
    """The arrays of a caller that results are written to, each on the host or on the device, as `checked_outputs`."""
    if len(given) != len(specs):
        return checked_outputs(given, specs, shapes)  # which says so
    arrays: list[Any] = []
    for value, spec, shape in zip(given, specs, shapes):
        array = _taken(api, value)
        if array is None:
            arrays += checked_outputs([value], [spec], [shape])
            continue
        if array.read_only:
            raise InputError(f"output {spec.name!r} must be filled into an array that may be written to")
        arrays.append(_checked(array, TensorSpec(spec.name, tuple(shape), spec.dtype), specs))
    return arrays


def _taken(api: DeviceApi, value: Any) -> DeviceArray | None:
    """The array where it is in the device's memory; None for one on the host."""
    if isinstance(value, DeviceArray):
        if value.api is not api:
            raise InputError(
                f"the array is on {value.api.name}, the model on {api.name}; .numpy() copies it to the host"
            )
        return value
    if not isinstance(api, CudaDevice) or not is_on_cuda(value):
        return None
    stream = current_stream(value, api.ordinal)
    with api.on_stream(api.own_stream if stream is None else stream):
        return DeviceArray.from_dlpack(value, api)


def _checked(array: DeviceArray, spec: TensorSpec, specs: Sequence[TensorSpec]) -> DeviceArray:
    if array.dtype != spec.numpy or not spec.fits(array.shape):
        raise wrong_type(array, spec, specs)
    return array


class RunOrder:
    """The order of the runs of one model, which share its memory."""

    def __init__(self, api: DeviceApi) -> None:
        self._api = api
        self._last: CudaEvent | None = None  # behind the last run, where nobody waited for it
        self._held: list[DeviceArray] = []  # inputs of that run whose memory their library may use for something else

    @contextmanager
    def turn(self, arrays: Sequence[Any]) -> Iterator[None]:
        """Queue this thread's work on the stream that `arrays` are of, after what writes them and the run before."""
        api = self._api
        if not isinstance(api, CudaDevice):
            yield
            return
        if self._held and self._last is not None:
            self._last.wait()
        self._held = []
        inputs = [array for array in arrays if isinstance(array, DeviceArray)]
        own = (None, api.own_stream)
        stream = next((array.stream for array in inputs if array.stream not in own), api.own_stream)
        assert stream is not None
        with api.on_stream(stream):
            for written in (self._last, *inputs):
                if written is not None:
                    written.before(stream)
            # a library frees memory in the order of its own stream, which may be another or is not known
            foreign = [array for array in inputs if not isinstance(array.buffer.owner, Allocation)]
            self._held = [array for array in foreign if array.stream != stream or stream == api.own_stream]
            yield

    def done(self, results: Sequence[Any]) -> None:
        """Mark the end of a run, in its turn, for those who use its results on other streams, and the next run."""
        api = self._api
        if not isinstance(api, CudaDevice):
            return
        left = [array for array in results if isinstance(array, DeviceArray)]
        self._last = CudaEvent(api) if left else None  # who reads results on the host waits for the whole run
        for array in left:
            array.written, array.stream = self._last, api.stream
