"""Symbolic sizes keep the names that a program's author gave them: in types, messages and artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.errors import InputError

torch = pytest.importorskip("torch", reason="needs the torch package")


class Module(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x * 2, y.sum() + x


def _model(way: str) -> Any:
    args = (torch.randn(3, 4), torch.randn(5, 6))
    if way == "input_shapes":
        return tw.compile(Module(), args, input_shapes={"x": ("batch", 4), "y": ("height", 6)})
    sizes = {"x": {0: torch.export.Dim("batch")}, "y": {0: torch.export.Dim("height", max=64)}}
    return tw.compile(torch.export.export(Module(), args, dynamic_shapes=sizes))


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
