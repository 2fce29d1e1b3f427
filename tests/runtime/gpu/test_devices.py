"""Duties of every device, on each that this machine has: parts of buffers, copies, recordings, times, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.gpu.programs import KINDS, opened, scale, scale_kernel
from tilewright.errors import EnvironmentError_, InternalError, TargetError, UnsupportedError
from tilewright.runtime.gpu.api import Copy, DeviceApi, Kernel
from tilewright.runtime.gpu.devices import on_device, open_device, ordinal_of

X = np.arange(100, dtype=np.float32)
PART = 4096  # a multiple of every device's alignment


@pytest.fixture(scope="module", params=KINDS)
def device(request: pytest.FixtureRequest) -> tuple[DeviceApi, Kernel]:
    api = opened(request.param)
    return api, scale_kernel(request.param, api)


def _values(api: DeviceApi, buffer: Any, like: np.ndarray[Any, Any] = X) -> np.ndarray[Any, Any]:
    made = np.empty_like(like)
    api.read(buffer, made)
    return made


def test_the_alignment_is_a_power_of_two(device: tuple[DeviceApi, Kernel]) -> None:
    alignment = device[0].alignment
    assert 16 <= alignment <= PART
    assert alignment & (alignment - 1) == 0


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_arrays_of_any_size_there_and_back(device: tuple[DeviceApi, Kernel], dtype: str, count: int) -> None:
    import ml_dtypes  # registers bfloat16

    api, data = device[0], np.arange(count).astype(getattr(ml_dtypes, dtype, dtype))
    for buffer in (api.allocate(data.nbytes), api.view(api.allocate(3 * PART), PART, data.nbytes)):
        api.write(buffer, data)
        back = _values(api, buffer, data)
        np.testing.assert_array_equal(back.view(np.uint8), data.view(np.uint8))


def test_launches_on_parts_of_a_buffer(device: tuple[DeviceApi, Kernel]) -> None:
    api, kernel = device
    arena = api.allocate(4 * PART)
    a, b = api.view(arena, 0, X.nbytes), api.view(api.view(arena, PART, 3 * PART), PART, X.nbytes)
    api.write(a, X)
    api.write(api.view(arena, PART, PART), np.full(PART, 7, np.uint8))
    launch = scale(kernel, a, b, 3)
    kernel.launch(launch.grid, launch.block, launch.args)
    np.testing.assert_array_equal(_values(api, b), 3 * X)
    np.testing.assert_array_equal(_values(api, a), X)
    assert (_values(api, api.view(arena, PART, PART), np.empty(PART, np.uint8)) == 7).all()
    assert kernel.name == "scale"


def test_a_part_keeps_the_whole(device: tuple[DeviceApi, Kernel]) -> None:
    api, _ = device
    views = []
    for i in range(8):
        views.append(api.view(api.allocate(4 * PART), PART, X.nbytes))
        api.write(views[-1], X + i)
    for i, view in enumerate(views):
        np.testing.assert_array_equal(_values(api, view), X + i)


def test_copies_within_the_device(device: tuple[DeviceApi, Kernel]) -> None:
    api, _ = device
    a, arena = api.allocate(X.nbytes), api.allocate(2 * PART)
    b, c = api.view(arena, 0, X.nbytes), api.view(arena, PART, X.nbytes)
    api.write(a, X)
    api.copy(a, b, X.nbytes)
    api.copy(b, c, X.nbytes)  # within one buffer
    api.write(b, -X)
    api.copy(c, a, 0)
    np.testing.assert_array_equal(_values(api, c), X)
    np.testing.assert_array_equal(_values(api, a), X)


def test_a_recording_runs_again_and_again(device: tuple[DeviceApi, Kernel]) -> None:
    api, kernel = device
    arena = api.allocate(3 * PART)
    a, b, c = (api.view(arena, i * PART, X.nbytes) for i in range(3))
    api.write(a, X)
    recording = api.record(
        [scale(kernel, a, b, 2), Copy(b, c, X.nbytes), scale(kernel, c, a, 0.5), scale(kernel, a, a, 3)]
    )
    recording.run()
    np.testing.assert_array_equal(_values(api, a), 3 * X)
    recording.run()
    recording.run()
    np.testing.assert_array_equal(_values(api, a), 27 * X)
    api.write(a, X)  # with other inputs
    recording.run()
    np.testing.assert_array_equal(_values(api, a), 3 * X)


def test_a_recording_keeps_its_buffers(device: tuple[DeviceApi, Kernel]) -> None:
    api, kernel = device
    result = api.allocate(X.nbytes)

    def made(factor: float) -> Any:
        source = api.allocate(X.nbytes)
        api.write(source, X)
        return api.record([scale(kernel, source, result, factor)])

    recordings = [made(i) for i in range(5)]
    for i, recording in enumerate(recordings):
        recording.run()
        np.testing.assert_array_equal(_values(api, result), i * X)


def test_times_of_steps(device: tuple[DeviceApi, Kernel]) -> None:
    api, kernel = device
    n = 1 << 20
    small, large = api.allocate(4 * n), api.allocate(4 * n)
    api.write(small, np.zeros(n, np.float32))
    steps = [scale(kernel, small, large, 1, 64), scale(kernel, small, large, 1, n), Copy(large, small, 4 * n)]
    recording = api.record(steps)
    least = np.min([recording.times() for _ in range(5)], axis=0)
    assert least.shape == (3,)
    assert (least > 0).all()
    assert least.max() < 5
    assert least[0] < least[1]
    assert api.record([]).times() == []
    api.record([]).run()
    api.synchronize()


def test_what_a_device_refuses(device: tuple[DeviceApi, Kernel]) -> None:
    api, _ = device
    buffer = api.allocate(2 * PART)
    for offset, nbytes in [(api.alignment // 2, 8), (PART, PART + 1), (-PART, 8), (0, -1)]:
        with pytest.raises(InternalError, match=r"(a view at byte|of a buffer of)"):
            api.view(buffer, offset, nbytes)
    with pytest.raises(UnsupportedError, match="takes the text of kernels"):
        api.load(b"\x7fELF", ["scale"])
    with pytest.raises(InternalError, match="refused generated code"):
        api.compile("this is no program", ["scale"])


def test_kinds_that_are_none() -> None:
    with pytest.raises(TargetError, match="'quantum' is no kind of device; there are: opencl"):
        open_device("quantum")
    with pytest.raises(TargetError, match="needs macOS"):
        open_device("metal")


def test_the_number_of_a_device() -> None:
    assert ordinal_of("cuda:1 -arch=sm_80") == 1
    assert ordinal_of("cuda -arch=sm_80") is None
    assert on_device("cuda:1 -arch=sm_80", 0) == "cuda:0 -arch=sm_80"
    assert on_device("opencl", "opencl:2") == "opencl:2"
    with pytest.raises(TargetError, match="device='cuda:1' is none of that kind; write 'opencl:1' or 1"):
        on_device("opencl", "cuda:1")
    for target in ("llvm -mcpu=znver4", "cuda -emulate=1"):
        with pytest.raises(TargetError, match="which has one device: load it without device=1"):
            on_device(target, 1)


@pytest.mark.parametrize("kind", ["opencl", "vulkan", "webgpu"])
def test_a_number_beyond_the_last(kind: str) -> None:
    opened(kind)
    with pytest.raises(EnvironmentError_, match=r"99.*of this machine|there is no '.*:99'"):
        open_device(kind, ordinal=99)
