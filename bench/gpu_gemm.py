"""Products on tensor cores: ours beside torch's (cuBLAS, cuDNN), float16 GEMMs and the convolutions of ResNet-50.

    python bench/gpu_gemm.py [--sizes 1024,2048,4096,8192] [--batches 1,32] [--sweep 8] [--json FILE] [--only gemm]
    python bench/gpu_gemm.py --emulate                     small ones on this processor, checked against NumPy

On a machine with an NVIDIA GPU and torch. Each is run twenty times within one CUDA graph, timed by events, the shortest
of five; results are compared with torch's. `--sweep N` measures the N configurations that the cost model likes best and
prints the best of them beside its first choice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import build, te, tir
from tilewright.backend.gpu.schedule.tensor_core import TENSOR_CORE, tensor_core_gemm, workload
from tilewright.codegen.build_device import emit_device
from tilewright.target import DeviceTarget, Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, is_reduction

RUNS = 20

#: The convolutions of ResNet-50: rows and columns of the image, channels in and out, window, stride, padding.
RESNET50 = (
    (224, 3, 64, 7, 2, 3), (56, 64, 64, 1, 1, 0), (56, 64, 64, 3, 1, 1), (56, 64, 256, 1, 1, 0), (56, 256, 64, 1, 1, 0),
    (56, 256, 128, 1, 1, 0), (56, 128, 128, 3, 2, 1), (28, 128, 512, 1, 1, 0), (56, 256, 512, 1, 2, 0),
    (28, 512, 128, 1, 1, 0), (28, 128, 128, 3, 1, 1), (28, 512, 256, 1, 1, 0), (28, 256, 256, 3, 2, 1),
    (14, 256, 1024, 1, 1, 0), (28, 512, 1024, 1, 2, 0), (14, 1024, 256, 1, 1, 0), (14, 256, 256, 3, 1, 1),
    (14, 1024, 512, 1, 1, 0), (14, 512, 512, 3, 2, 1), (7, 512, 2048, 1, 1, 0), (14, 1024, 2048, 1, 2, 0),
    (7, 2048, 512, 1, 1, 0), (7, 512, 512, 3, 1, 1),
)  # fmt: skip


def product(rows: int, columns: int, depth: int, dtype: str = "float16") -> list[te.Tensor]:
    """Operands [rows, depth] and [columns, depth], and the result [rows, columns], all of `dtype`."""
    a, b = te.placeholder((rows, depth), dtype, name="a"), te.placeholder((columns, depth), dtype, name="b")
    k = te.reduce_axis((0, depth), "k")
    sums = te.compute(
        (rows, columns), lambda i, j: te.sum(a(i, k).astype("float32") * b(j, k).astype("float32"), axis=k), "sums"
    )
    return [a, b, te.compute((rows, columns), lambda i, j: sums(i, j).astype(dtype), "c")]


def convolution(
    batch: int, size: int, channels: int, filters: int, window: int, stride: int, padding: int, dtype: str = "float16"
) -> list[te.Tensor]:
    """Image [N, H, W, C], weights [O, KH, KW, C], bias [O], and the rectified result [N, OH, OW, O]."""
    image = te.placeholder((batch, size, size, channels), dtype, name="image")
    weight = te.placeholder((filters, window, window, channels), dtype, name="weight")
    bias = te.placeholder((filters,), dtype, name="bias")
    out = (size + 2 * padding - window) // stride + 1

    def padded(b: Any, y: Any, x: Any, c: Any) -> Any:
        y, x = y - padding, x - padding
        inside = tir.all(y >= 0, y < size, x >= 0, x < size)
        return tir.if_then_else(inside, image(b, y, x, c), tir.const(0, dtype)) if padding else image(b, y, x, c)

    whole = size + 2 * padding
    read = te.compute((batch, whole, whole, channels), padded, "padded") if padding else image
    ry, rx = te.reduce_axis((0, window), "ry"), te.reduce_axis((0, window), "rx")
    rc = te.reduce_axis((0, channels), "rc")

    def body(b: Any, y: Any, x: Any, o: Any) -> Any:
        value = read(b, y * stride + ry, x * stride + rx, rc).astype("float32")
        return te.sum(value * weight(o, ry, rx, rc).astype("float32"), axis=[ry, rx, rc])

    shape = (batch, out, out, filters)
    sums = te.compute(shape, body, "conv2d_nhwc")
    result = te.compute(
        shape,
        lambda b, y, x, o: tir.maximum(sums(b, y, x, o) + bias(o).astype("float32"), 0.0).astype(dtype),
        "relu",
    )
    return [image, weight, bias, result]


def shape_of(tensor: te.Tensor) -> tuple[int, ...]:
    """The shape as integers."""
    return tuple(int(n.value) for n in tensor.shape)


def operations(args: Sequence[te.Tensor]) -> int:
    """Operations, two for each multiply-add."""
    (anchor,) = [t for t in computes([args[-1]]) if is_reduction(t)]
    facts = workload(anchor, args[-1])
    return 2 * facts.batch * facts.rows * facts.columns * facts.depth


def configurations(args: Sequence[te.Tensor], target: DeviceTarget, count: int) -> list[Config]:
    """The `count` configurations that the cost model likes best."""
    (anchor,) = [t for t in computes([args[-1]]) if is_reduction(t)]
    return [config for _, config in TENSOR_CORE.ranked(workload(anchor, args[-1]), target).ranked[:count]]


def lowered(args: Sequence[te.Tensor], target: DeviceTarget, config: Config) -> tir.PrimFunc:
    """The kernel of one configuration."""
    return te.lower(tensor_core_gemm(args[-1], target, config), list(args), name="product", target=target)


# ------------------------------------------------------------------------------------------------------- emulation
def emulate() -> None:
    """Small ones, checked against NumPy."""
    target = Target("cuda -emulate=1 -arch=sm_90a")
    assert isinstance(target, DeviceTarget)
    rng = np.random.default_rng(0)
    for args in (product(100, 72, 136), convolution(1, 9, 16, 24, 3, 2, 1)):
        values = [(rng.standard_normal(shape_of(t)) / 4).astype(str(t.dtype)) for t in args[:-1]]
        result = np.zeros(shape_of(args[-1]), "float16")
        build(lowered(args, target, configurations(args, target, 1)[0]), target)["product"](*values, result)
        expected = reference(args, values)
        np.testing.assert_allclose(result.astype("float32"), expected, rtol=4e-3, atol=4e-3)
        print(f"{args[-1].name} {shape_of(args[-1])} agrees with NumPy")


def reference(args: Sequence[te.Tensor], values: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The result by NumPy: of a product, or of a convolution of stride 2 and padding 1."""
    wide = [v.astype("float32") for v in values]
    if len(wide) == 2:
        return wide[0] @ wide[1].T
    image, weight, bias = np.pad(wide[0], ((0, 0), (1, 1), (1, 1), (0, 0))), *wide[1:]
    shape = shape_of(args[-1])
    sums = np.zeros(shape, "float32") + bias
    for i in range(weight.shape[1]):
        for j in range(weight.shape[2]):
            sums += image[:, i::2, j::2][:, : shape[1], : shape[2]] @ weight[:, i, j].T
    return np.maximum(sums, 0)


# ------------------------------------------------------------------------------------------------------- on the GPU
class Gpu:
    """The GPU, its memory by torch, and times by events."""

    def __init__(self, arch: str = "") -> None:
        import torch

        from tilewright.runtime.gpu.devices import open_device

        self.torch, self.api = torch, open_device("cuda", False)
        arch = arch or self.api.arch + ("a" if self.api.arch == "sm_90" else "")
        self.target = Target(f"cuda -arch={arch}")
        torch.backends.cudnn.benchmark = True

    def tensor(self, tensor: te.Tensor, fill: bool) -> Any:
        """A tensor of the device, of small random numbers or of zeros."""
        made = self.torch.randn(shape_of(tensor), device="cuda") / 8 if fill else self.torch.zeros(shape_of(tensor))
        return made.to(device="cuda", dtype=getattr(self.torch, str(tensor.dtype)))

    def seconds(self, run: Callable[[], Any]) -> float:
        """The shortest of five times that the graph `run` replays takes, for one of its runs."""
        best = 1e9
        run()
        for _ in range(5):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            self.torch.cuda.synchronize()
            best = min(best, start.elapsed_time(end) * 1e-3 / RUNS)
        return best

    def ours(self, args: Sequence[te.Tensor], values: Sequence[Any], config: Config) -> tuple[float, dict[str, int]]:
        """Seconds of a configuration, whose result stands in the last of `values`, and what its kernel takes."""
        from tilewright.runtime.gpu.api import Launch

        source, (info,) = emit_device([lowered(args, self.target, config)], self.target)
        kernels = self.api.load(self._compile(source), [step["kernel"] for step in info.launches])
        held = {t.name: v for t, v in zip(args, values, strict=True)}
        for made in info.temporaries:
            size = int(made["elements"])
            held[made["name"]] = self.torch.empty(size, dtype=getattr(self.torch, made["dtype"]), device="cuda")
        buffers = {name: self.api.wrap(v.data_ptr(), v.numel() * v.element_size(), v) for name, v in held.items()}
        launches = [
            Launch(
                kernels[step["kernel"]],
                tuple(step["grid"]),
                tuple(step["block"]),
                [buffers[name] for name in step["args"]],
                step["shared_bytes"],
            )
            for step in info.launches
        ]
        self.torch.cuda.synchronize()
        with self.api.on_stream(self.torch.cuda.current_stream().cuda_stream):
            recording = self.api.record(launches * RUNS)
            seconds = self.seconds(recording.run)
        return seconds, kernels[info.launches[0]["kernel"]].facts()

    def _compile(self, source: str) -> bytes:
        from tilewright.runtime.gpu.nvrtc import compile_cubin

        return compile_cubin(source, self.target.arch)

    def theirs(self, run: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds of torch's, and its result."""
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(RUNS):
                made = run()
        return self.seconds(graph.replay), made


def measure(gpu: Gpu, name: str, args: list[te.Tensor], run: Any, sweep: int) -> dict[str, Any]:
    """One product or convolution, ours beside torch's."""
    values = [gpu.tensor(t, True) for t in args[:-1]] + [gpu.tensor(args[-1], False)]
    torch_seconds, expected = gpu.theirs(lambda: run(gpu.torch, *values[:-1]))
    found = []
    for config in configurations(args, gpu.target, max(1, sweep)):
        seconds, facts = gpu.ours(args, values, config)
        try:
            gpu.torch.testing.assert_close(values[-1].float(), expected.float(), rtol=2e-2, atol=2e-2)
        except AssertionError as error:
            print(f"{name}: WRONG with {config}: {str(error).splitlines()[2]}", flush=True)
            seconds = float("inf")
        values[-1].zero_()
        found.append((seconds, config, facts))
    ours, best = found[0][0], min(found, key=lambda entry: entry[0])
    count, facts = operations(args), found[0][2]
    record = {
        "name": name, "ours_us": ours * 1e6, "torch_us": torch_seconds * 1e6, "times": torch_seconds / ours,
        "tflops": count / ours * 1e-12, "torch_tflops": count / torch_seconds * 1e-12, "config": str(found[0][1]),
        "registers": facts["registers"], "local_bytes": facts["local_bytes"],
        "best_us": best[0] * 1e6, "best_config": str(best[1]), "best_times": torch_seconds / best[0],
    }  # fmt: skip
    print(f"{name:34s} {ours * 1e6:9.1f} us {record['tflops']:6.1f} TFLOP/s   torch {torch_seconds * 1e6:9.1f} us "
          f"{record['torch_tflops']:6.1f}   {record['times']:.2f} x", flush=True)  # fmt: skip
    print(f"    {found[0][1]}  registers {facts['registers']}, local {facts['local_bytes']}")
    if sweep > 1:
        print(
            f"    best {best[0] * 1e6:.1f} us, {record['best_times']:.2f} x, "
            f"registers {best[2]['registers']}: {best[1]}"
        )
    return record


def linear(torch: Any, a: Any, b: Any) -> Any:
    """cuBLAS."""
    return torch.nn.functional.linear(a, b)


def conv2d(stride: int, padding: int) -> Callable[..., Any]:
    """cuDNN, in channels-last form, with bias and activation behind it."""

    def run(torch: Any, image: Any, weight: Any, bias: Any) -> Any:
        made = torch.nn.functional.conv2d(
            image.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2), bias, stride=stride, padding=padding
        )
        return torch.relu_(made).permute(0, 2, 3, 1)

    return run


def main() -> None:
    """Parses the arguments and runs."""
    parser = argparse.ArgumentParser(description="Products on tensor cores, beside torch.")
    parser.add_argument("--sizes", default="1024,2048,4096,8192")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--only", choices=("gemm", "conv"), default=None)
    parser.add_argument("--sweep", type=int, default=1, help="configurations to measure of each")
    parser.add_argument("--layers", default="", help="numbers of convolutions, such as 1,4,9")
    parser.add_argument("--arch", default="", help="the architecture to compile for; sm_90 leaves warpgroups out")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.emulate:
        emulate()
        return
    gpu, records = Gpu(given.arch), []
    print(f"{gpu.api.name}, {gpu.target}, torch {gpu.torch.__version__}", file=sys.stderr)
    if given.only != "conv":
        for size in map(int, given.sizes.split(",")):
            records.append(measure(gpu, f"gemm {size}", product(size, size, size), linear, given.sweep))
    layers = [int(n) for n in given.layers.split(",") if n] or range(len(RESNET50))
    for batch in map(int, given.batches.split(",")) if given.only != "gemm" else ():
        for number in layers:
            size, channels, filters, window, stride, padding = RESNET50[number]
            name = f"conv {batch} {size} {channels}>{filters} {window}x{window}/{stride}"
            args = convolution(batch, size, channels, filters, window, stride, padding)
            records.append(measure(gpu, name, args, conv2d(stride, padding), given.sweep))
    if given.json:
        given.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
