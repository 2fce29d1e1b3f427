"""Symbolic sizes keep the names that a program's author gave them: in types, messages and artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright import torch_backend
from tilewright.errors import InputError
from tilewright.relay.ir.type_of import tensor_type_of

torch = pytest.importorskip("torch", reason="needs the torch package")


class Module(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x * 2, y.sum() + x


def _program(**sizes: Any) -> Any:
    return torch.export.export(Module(), (torch.randn(3, 4), torch.randn(5, 6)), dynamic_shapes=sizes)


def _model(way: str) -> Any:
    args = (torch.randn(3, 4), torch.randn(5, 6))
    if way == "input_shapes":
        return tw.compile(Module(), args, input_shapes={"x": ("batch", 4), "y": ("height", 6)})
    return tw.compile(_program(x={0: torch.export.Dim("batch")}, y={0: torch.export.Dim("height", max=64)}))


@pytest.mark.parametrize("way", ["input_shapes", "dynamic_shapes"])
def test_names_are_kept(way: str, tmp_path: Path) -> None:
    model = _model(way)
    model.save(tmp_path / "model.tw")
    for one in (model, tw.load(tmp_path / "model.tw")):
        assert [spec.shape for spec in one.inputs] == [("batch", 4), ("height", 6)]
        assert [spec.shape for spec in one.outputs] == [("batch", 4), ("batch", 4)]
        with pytest.raises(InputError, match=r"float32\[batch, 4\] expected"):
            one.run({"x": torch.randn(3, 5).numpy(), "y": torch.randn(5, 6).numpy()})


def test_sizes_computed_from_them() -> None:
    class Shorter(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x[1:] + y

    size = torch.export.Dim("steps")
    given = (torch.randn(4, 4), torch.randn(3, 4))
    program = torch.export.export(Shorter(), given, dynamic_shapes={"x": {0: size + 1}, "y": {0: size}})
    assert [spec.shape for spec in tw.compile(program).inputs] == [("steps + 1", 4), ("steps", 4)]


@pytest.mark.parametrize("way", ["automatic", "file"])
def test_sizes_without_names_are_named_after_inputs(way: str, tmp_path: Path) -> None:
    size = torch.export.Dim.AUTO if way == "automatic" else torch.export.Dim("batch")
    program = _program(x={0: size}, y={0: torch.export.Dim.AUTO})
    torch.export.save(program, tmp_path / "m.pt2")
    model = tw.compile(program if way == "automatic" else tmp_path / "m.pt2")
    assert [spec.shape for spec in model.inputs] == [("x_0", 4), ("y_0", 6)]
    assert [spec.shape for spec in model.outputs] == [("x_0", 4), ("x_0", 4)]
    with pytest.raises(InputError, match=r"float32\[x_0, 4\] expected"):
        model.run({"x": torch.randn(3, 5).numpy(), "y": torch.randn(5, 6).numpy()})
    fixed = tw.compile(program, input_shapes={"x": (2, 4)})
    assert [spec.shape for spec in fixed.inputs] == [(2, 4), ("y_0", 6)]


def test_names_that_inputs_have_are_not_those_of_sizes() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: Any, x_0: Any) -> Any:
            return x.sum() + x_0

    size = torch.export.Dim.AUTO
    program = torch.export.export(Twice(), (torch.randn(3), torch.randn(4)), dynamic_shapes=[{0: size}, {0: size}])
    model = tw.compile(program)
    assert model.inputs[0].shape[0] not in ("x", "x_0") and model.inputs[1].shape == ("x_0_0",)
    x, y = torch.randn(5), torch.randn(6)
    torch.testing.assert_close(torch.from_dlpack(model(x, y)), x.sum() + y)


def test_names_in_graphs_of_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    compiled = torch_backend.compile_model
    monkeypatch.setattr(
        torch_backend, "compile_model", lambda module, **options: seen.append(module) or compiled(module, **options)
    )

    def run(x: Any, *, more: Any, n: int) -> Any:
        return x * 2 + more["y"].sum() + torch.arange(n).sum()

    x, y = torch.randn(5, 4), torch.randn(6)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    with torch.no_grad():
        found = torch.compile(run, backend=torch_backend.tilewright)(x, more={"y": y}, n=3)
    torch.testing.assert_close(found, run(x, more={"y": y}, n=3))
    shapes = [str(tensor_type_of(param)) for param in seen[0]["main"].params]
    assert any("x_0" in shape for shape in shapes) and any("more_y_0" in shape for shape in shapes)
