"""Graphs of an NVIDIA GPU through `torch.compile`'s backend, on a stand-in for the driver: no GPU, no CUDA build.

PyTorch traces fake tensors on cuda:0. Tensors of a run are the host's, which is where the stand-in's memory is, and say
that they are on cuda:0.
"""

from __future__ import annotations

import ctypes
import gc
import shutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.runtime.gpu.emulating_driver import EmulatingDevice, EmulatingDriver
from tests.runtime.gpu.test_cuda_dlpack import _Producer
from tilewright import torch_backend
from tilewright.errors import EnvironmentError_
from tilewright.frontend.torch import devices, tensors
from tilewright.runtime.gpu import cuda_dlpack, exchange, program
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.torch_backend import CompiledGraph, FallbackWarning, compile_graph

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="emulation needs a C++ compiler"
)
BETWEEN = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"}
CUDA = torch.device("cuda", 0)
STREAM = 0x51
KEPT: list[Any] = []


class OnGpu(torch.Tensor):
    """A tensor of the host's that says it is on cuda:0."""

    device = CUDA

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        kind = {torch.float32: (2, 32, 1), torch.int64: (0, 64, 1), torch.uint64: (1, 64, 1)}[self.dtype]
        producer = _Producer(self.data_ptr(), tuple(self.shape), kind=kind)
        KEPT.append((producer, self))  # as long as capsules may be
        return producer.__dlpack__(**options)

    def numpy(self) -> Any:
        raise TypeError("it is on a GPU")

    def to(self, device: Any) -> Any:
        assert torch.device(device) == CUDA
        return self


def on_gpu(tensor: Any) -> OnGpu:
    """The tensor on the stand-in; its memory begins where a GPU's would."""
    room = torch.empty(tensor.numel() + 64, dtype=tensor.dtype)
    start = (-room.data_ptr() % 256) // tensor.element_size()
    made = room[start : start + tensor.numel()].view(tensor.shape)
    made.copy_(tensor)
    return made.as_subclass(OnGpu)


def host(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements."""
    return np.asarray(tensor.as_subclass(torch.Tensor).numpy())


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatingDevice]:
    made = EmulatingDevice(EmulatingDriver())
    monkeypatch.setattr(program, "open_device", lambda *_: made)
    monkeypatch.setattr(devices, "cuda_device", lambda _: made)
    monkeypatch.setattr(torch_backend, "gpu_target", lambda _: "cuda -emulate=1")
    for module in (torch_backend, exchange, cuda_dlpack):
        monkeypatch.setattr(module, "current_stream", lambda *_: STREAM)
    monkeypatch.setattr(torch, "from_dlpack", _of_device)
    yield made


def _of_device(array: Any) -> Any:
    """A copy of an array's elements, in place of the tensor that PyTorch makes on its memory."""
    assert isinstance(array, DeviceArray) and array.__dlpack_device__() == (2, 0)
    array.before(STREAM)
    made = torch.empty(array.shape, dtype=torch.float32)
    ctypes.memmove(made.data_ptr(), array.buffer.pointer, array.nbytes)
    return made.as_subclass(OnGpu)


def graph_of(function: Callable[..., Any], *shapes: tuple[int, ...], device: Any = CUDA) -> Any:
    """The graph of a function of tensors on a device, as AOTAutograd makes it."""
    with FakeTensorMode():
        inputs = [torch.empty(shape, device=device) for shape in shapes]
        made = make_fx(lambda *args: [function(*args)])(*inputs)
    return made


def layer(x: Any, weight: Any) -> Any:
    return torch.relu(torch.mm(x, weight))


def test_tensors_stay_on_the_gpu(device: EmulatingDevice) -> None:
    graph = graph_of(layer, (4, 16), (16, 8))
    assert devices.gpu_of(graph.graph) == 0
    run = compile_graph(graph, {}, None, fixed=(1,))
    x, weight = torch.randn(4, 16), torch.randn(16, 8)
    wanted = torch.relu(x @ weight).numpy()
    given = [on_gpu(x), on_gpu(weight)]
    run(given)  # recorded
    device.fake.calls.clear()
    (result,) = run(given)
    np.testing.assert_allclose(host(result), wanted, rtol=1e-5, atol=1e-5)
    calls = device.fake.calls
    assert not BETWEEN & {name for name, *_ in calls}
    copies = [args for name, *args in calls if name == "cuMemcpyDtoDAsync_v2"]
    assert [size for _, _, size, _ in copies] == [4 * 16 * 4, 4 * 8 * 4]  # the input and the result; not the weight
    assert {args[-1] for name, *args in calls if name == "cuGraphLaunch"} == {STREAM}
    assert not {"cuStreamQuery", "cuEventQuery"} & {name for name, *_ in calls}  # nobody waits on the host


def test_parameters_are_read_in_place(device: EmulatingDevice) -> None:
    run = compile_graph(graph_of(layer, (4, 16), (16, 8)), {}, None, fixed=(1,))
    x, weight = on_gpu(torch.randn(4, 16)), on_gpu(torch.randn(16, 8))
    run([x, weight])
    before = device.fake.used
    with torch.no_grad():
        weight.as_subclass(torch.Tensor).mul_(2.0)  # as an optimizer does: the recording sees it
    (result,) = run([x, weight])
    np.testing.assert_allclose(host(result), np.maximum(host(x) @ host(weight), 0), rtol=1e-5, atol=1e-5)
    moved = on_gpu(torch.randn(16, 8))  # another address: recorded again
    (result,) = run([x, moved])
    np.testing.assert_allclose(host(result), np.maximum(host(x) @ host(moved), 0), rtol=1e-5, atol=1e-5)
    for _ in range(12):  # one that never stays is copied
        last = on_gpu(torch.randn(16, 8))
        (result,) = run([x, last])
    np.testing.assert_allclose(host(result), np.maximum(host(x) @ host(last), 0), rtol=1e-5, atol=1e-5)
    del result
    gc.collect()
    assert device.fake.used <= before + 16 * (4 * 16 + 4 * 8) * 4 + 16 * 8 * 4


def test_weights_as_constants(device: EmulatingDevice) -> None:
    graph = graph_of(layer, (4, 16), (16, 8))
    x, weight = on_gpu(torch.randn(4, 16)), torch.randn(16, 8)
    call = CompiledGraph(graph, (1,), None, strict=True)
    (result,) = call(x, weight)
    assert call.frozen
    np.testing.assert_allclose(host(result), np.maximum(host(x) @ weight.numpy(), 0), rtol=1e-5, atol=1e-5)


def test_results_in_the_order_of_eager_mode(device: EmulatingDevice) -> None:
    run = compile_graph(graph_of(lambda x: torch.relu(x).transpose(0, 1).exp(), (4, 6)), {}, None)
    x = on_gpu(torch.randn(4, 6))
    (result,) = run([x])
    assert result.stride() == (1, 6)
    np.testing.assert_allclose(host(result), np.exp(np.maximum(host(x), 0).T), rtol=1e-5, atol=1e-5)


def test_several_gpus_and_other_devices_are_refused() -> None:
    with FakeTensorMode():
        x = torch.empty(2, 2, device=CUDA)
        two = make_fx(lambda a: [a + 1, (a + 2).to("cuda:1")])(x)
    with pytest.raises(torch_backend.UnsupportedError, match=r"cuda:0 .* and cuda:1 .*compiled for one GPU"):
        devices.gpu_of(two.graph)
    assert devices.gpu_of(graph_of(torch.exp, (2, 2), device="cpu").graph) is None


def test_without_a_driver_one_warning_and_pytorchs_own_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(_: int) -> str:
        raise EnvironmentError_("the target 'cuda' needs an NVIDIA GPU and its driver")

    monkeypatch.setattr(torch_backend, "gpu_target", lacking)
    monkeypatch.setattr(torch_backend, "_WARNED", set())
    x, weight = torch.randn(4, 16), torch.randn(16, 8)
    graphs = [graph_of(layer, (4, 16), (16, 8)), graph_of(lambda a, b: layer(a, b) + 1.0, (4, 16), (16, 8))]
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        results = [CompiledGraph(graph, (), None)(x, weight)[0] for graph in graphs]
    said = [one for one in raised if one.category is FallbackWarning]
    assert len(said) == 1 and "needs an NVIDIA GPU and its driver" in str(said[0].message)
    np.testing.assert_allclose(results[1].numpy(), results[0].numpy() + 1.0, rtol=1e-6)
    with pytest.raises(torch_backend.UnsupportedError, match=r"strict=True: .*needs an NVIDIA GPU"):
        CompiledGraph(graphs[0], (), None, strict=True)(x, weight)


def test_random_numbers_follow_from_the_gpus_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    own = torch.zeros

    def zeros(*args: Any, device: Any = None, **options: Any) -> Any:
        asked.append(device)
        return own(*args, **options)

    monkeypatch.setattr(torch, "zeros", zeros)
    tensors.random_key(1)
    tensors.random_key()
    assert asked == ["cuda:1", "cpu"]
