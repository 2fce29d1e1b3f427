"""A user's program for type checkers: never run. tests/test_typing.py has mypy and pyright read it in strict mode."""

from __future__ import annotations

import array
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, assert_type

import numpy as np
import numpy.typing as npt

import tilewright as tw
from tilewright.runtime import Array, Executable, Model, Result, Tensor, TensorSpec
from tilewright.runtime.profile import KernelTime


class ForeignTensor(Protocol):
    """The signature of `torch.Tensor.__dlpack__` and `jax.Array.__dlpack__`."""

    def __dlpack__(
        self,
        *,
        stream: int | None = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...


def compiles(path: Path, contents: bytes, module: object, examples: tuple[ForeignTensor, ...]) -> Model:
    """Sources of models, and shapes in all forms."""
    assert_type(tw.compile("model.onnx"), Model)
    tw.compile(path, target="llvm -mcpu=haswell", threads=2, cache=False, executor="graph", specialize=4)
    tw.compile(path, target=tw.Target("cpu"), input_shapes={"x": (1, 3, "H", "W"), "y": [1, None]})
    tw.compile(contents, input_shapes=[(1, 3, 224, 224)], outputs="logits", signature="serving_default")
    tw.compile(memoryview(contents), input_shapes={0: (np.int64(1), 3)}, outputs=["logits", "features"])
    tw.compile(module, "cpu")
    tw.compile(module, examples)
    tw.compile(module, {"x": examples[0]}, records="tuned.json", tune_seconds=1.0, check=True, exact_rounding=True)
    tw.compile(path, treads=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    tw.compile(path, threads="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tw.compile(path, input_shapes={"x": (1.5, 3)})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tw.complie(path)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return tw.load(path, threads=1, check=True, verify=b"key")


def calls(model: Model, x: npt.NDArray[np.float32], foreign: ForeignTensor) -> npt.NDArray[np.float32]:
    """Everything that an input is given, and what becomes of results."""
    y = model(x)
    assert_type(y, Result)
    shape: tuple[int, ...] = y.shape
    first, second = model(x, Tensor.from_numpy(x), foreign)
    np.testing.assert_allclose(first, second.reshape(shape))
    model(1, 2.5, True, np.float32(3), [1, 2], [[1.0, 2.0], (3.0, 4.0)], [x, foreign], b"raw", array.array("f"), None)
    model("text", ["some", "text"])
    model(object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    model({"x": x})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    y.no_method_of_arrays()  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return model(x)


def runs(model: Model, inputs: Mapping[str, npt.NDArray[np.float32]], foreign: dict[str, ForeignTensor]) -> Array:
    """Runs by name, times and profiles."""
    outputs = model.run(inputs)
    assert_type(outputs, list[Result])
    arrays: list[Array] = model.run(foreign, outputs=[np.empty(3, np.float32)])
    model.run({"x": [1.0, 2.0], "n": 3})
    model.run([inputs["x"]])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(model.time(inputs, repeat=3, warmup=1), list[float])
    rows = model.profile(foreign, repeat=2)
    assert_type(rows, list[KernelTime])
    assert_type(rows[0].seconds, float)
    assert_type([float(output.mean()) for output in arrays], list[float])
    return arrays[0] + outputs[0]


def describes(model: Model, path: Path) -> None:
    """A model's description of itself, and its text."""
    assert_type(model.inputs, tuple[TensorSpec, ...])
    assert_type(model.outputs[0].name, str)
    assert_type(model.inputs[0].shape, tuple[int | str | None, ...])
    assert_type(model.inputs[0].numpy.itemsize, int)
    assert_type(model.threads, int)
    assert_type(model.target, str)
    model.set_threads(4)
    model.set_threads()
    model.save(path, durable=False)
    assert_type(model.export_library(path, name="net"), tuple[Path, Path])
    if isinstance(model, Executable):
        assert_type(model.specialized_sizes, list[dict[str, int]])
    if isinstance(model, tw.Executable):
        model.wait_specialized(timeout=1.0)


def of_files(path: Path) -> None:
    """Functions of models that are not compiled yet, reports, targets and errors."""
    states = tw.initial_states(path, signature="serving_default")
    assert_type(states, dict[str, Array])
    said = tw.metadata(path)
    for name, labels in said.labels.items():
        assert_type(name, str)
        assert_type(labels[0], str)
    assert_type(said.normalization["x"].mean, tuple[float, ...])
    report = tw.torch_report(reset=True)
    assert_type(report.compiled, int)
    assert_type(report.breaks, dict[str, int])
    assert_type(tw.Target("cpu"), tw.Target)
    assert_type(tw.Target.host().features, tuple[str, ...])
    try:
        tw.load(path)
    except tw.errors.UserError as error:
        assert_type(str(error), str)


def tensors(x: npt.NDArray[np.float32], foreign: ForeignTensor, raw: bytes) -> None:
    """Tensors from all that holds memory, and back."""
    tensor = Tensor.zeros((2, 3), "float16")
    assert_type(tensor, Tensor)
    assert_type(Tensor.from_numpy(x, copy=True).shape, tuple[int, ...])
    assert_type(Tensor.from_numpy([[1, 2], [3, 4]]), Tensor)
    assert_type(Tensor.from_dlpack(foreign), Tensor)
    assert_type(Tensor.from_dlpack(tensor), Tensor)
    assert_type(Tensor.from_buffer(raw, "float32", (2,)).numpy(), Array)
    assert_type(np.from_dlpack(x).nbytes + tensor.nbytes, int)
    Tensor.from_dlpack(raw)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    np.asarray(tensor)
