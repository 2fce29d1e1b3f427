"""TorchScript programs, compiled, against TorchScript: branches, loops, writes, states, lists, and what is refused."""

from __future__ import annotations

import itertools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import InputError, ModelError, ShapeError, UnsupportedError

torch = pytest.importorskip("torch", reason="needs the torch package")

NUMBERS = itertools.count()

SILERO = Path("/work/shared/models/real/torchscript/silero_vad/silero_vad.jit")

#: Each is the body of a forward(self, x: Tensor) -> Tensor.
PROGRAMS = {
    "branch by value": "if bool(x.sum() > 0):\n  return x * 2\nelse:\n  return x - 1",
    "branch by number": "y = x\nif x.max().item() > 0.5:\n  y = y + 1\nreturn y",
    "loop by number": "y = x\nfor i in range(5):\n  y = y * 0.5 + i\nreturn y",
    "loop by size": "total = torch.zeros(4)\nfor i in range(x.size(0)):\n  total = total + x[i]\nreturn total",
    "while by value": "y = x\nwhile bool(y.abs().sum() > 1.0):\n  y = y * 0.5\nreturn y",
    "rounds by value": "y = x\nfor i in range(int(x.abs().sum())):\n  y = y + 1\nreturn y",
    "long loop": "y = x\nfor i in range(1000):\n  y = y + 0.5\nreturn y",
    "writes": "y = x.clone()\ny[0] = 3.0\ny[:, 1] += 1.0\ny.mul_(2)\nreturn y",
    "writes into views": "y = x.clone()\nz = y.view(-1)\nz[2:4] = 0.0\n"
    "w = y.transpose(0, 1)\nw[1].fill_(7.0)\nreturn y + z.sum()",
    "writes into what is known": "y = torch.zeros(3, 4)\ny[0] = x[1]\ny[1:, :2] += x[:2, :2]\nreturn y",
    "lists": "parts = [x]\nfor i in range(2):\n  parts.append(parts[-1] + 1)\nreturn torch.cat(parts, 0)",
    "none and texts": "mode = 'mean'\nif mode == 'sum':\n  return x.sum(0)\nreturn x.mean(0)",
    "dictionary": "d = {'a': x}\nd['b'] = d['a'] + 1\nreturn d['b'] * len(d)",
    "decomposed": "return torch.nn.functional.huber_loss(x, x.flip(0)) + torch.special.entr(x.abs()).sum()",
    "checks": "if x.dim() != 2:\n  raise ValueError('rank')\n"
    "assert bool(x.isfinite().all())\nreturn x.sqrt().nan_to_num()",
    "tuple": "a, b = torch.max(x, 1)\nreturn a + b",
}


def scripted(body: str) -> Any:
    lines = "\n    ".join(body.splitlines())
    module = type(f"Program{next(NUMBERS)}", (torch.jit.ScriptModule,), {})()
    module.define(f"def forward(self, x: Tensor) -> Tensor:\n    {lines}\n")
    return module


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_torchscript(name: str) -> None:
    module = scripted(PROGRAMS[name])
    model = tilewright.compile(module, (X,), cache=False)
    for data in (X, -X, X * 0.1):
        (found,) = model.run({"x": data.numpy()})
        np.testing.assert_allclose(found, module(data).numpy(), 1e-5, 1e-5)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.norm = torch.nn.BatchNorm1d(4)
        self.cell = torch.nn.LSTMCell(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            x = torch.relu(layer(x))
        h, c = self.cell(self.norm(x))
        return h * scale, c


@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, (X,))], ids=["script", "trace"])
def test_modules_from_files_with_shapes(make: Any, tmp_path: Path) -> None:
    net = Net().eval()
    path = tmp_path / "net.anything"
    make(net).save(str(path))
    model = tilewright.compile(path, input_shapes={"x": (3, 4)}, cache=False)
    for found, wanted in zip(model.run({"x": X.numpy()}), net(X)):
        np.testing.assert_allclose(found, wanted.detach().numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("make", [torch.jit.script, lambda net: torch.jit.trace(net, (X,))], ids=["script", "trace"])
def test_results_by_the_names_that_the_graph_has_for_values(make: Any, tmp_path: Path) -> None:
    class Named(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(x)
            return torch.tanh(hidden * 2)

    make(Named()).save(str(tmp_path / "net.pt"))
    name = next(one for one in value_names(torch.jit.load(str(tmp_path / "net.pt"))) if one.startswith("hidden"))
    options: dict[str, Any] = {"input_shapes": {"x": (3, 4)}, "cache": False}
    found, last = tilewright.compile(tmp_path / "net.pt", outputs=[name, "output"], **options).run({"x": X.numpy()})
    np.testing.assert_allclose(found, X.relu().numpy(), 1e-6)
    np.testing.assert_allclose(last, Named()(X).numpy(), 1e-5, 1e-6)
    with pytest.raises(InputError, match=f"did you mean '{name}'"):
        tilewright.compile(tmp_path / "net.pt", outputs=["hiden"], **options)


def value_names(module: Any) -> list[str]:
    return [output.debugName() for node in module.inlined_graph.nodes() for output in node.outputs()]


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(0)
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.seen) == 0:
            self.seen = torch.zeros(4)
        self.seen = self.seen + x.sum(0)
        self.count = 1
        return self.seen * 2


def test_attributes_that_change_are_inputs_and_outputs() -> None:
    model = tilewright.compile(torch.jit.script(Counter()), (X,), cache=False)
    assert [(spec.name, spec.shape) for spec in model.inputs] == [("x", (3, 4)), ("seen", (4,))]
    twice, seen = model.run({"x": X.numpy(), "seen": np.ones(4, np.float32)})
    np.testing.assert_allclose(seen, 1 + X.sum(0).numpy(), 1e-5)
    np.testing.assert_allclose(twice, 2 * seen, 1e-6)


@pytest.mark.skipif(not SILERO.exists(), reason="needs the given model silero_vad")
def test_a_voice_detector_with_submodules_and_states() -> None:
    module = torch.jit.load(SILERO)
    module.reset_states()
    model = tilewright.compile(SILERO, (torch.zeros(1, 512), 16000), cache=False)
    states = {spec.name: np.zeros(spec.shape, "float32") for spec in model.inputs[1:]}
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        x = torch.randn(1, 512, generator=generator) * 0.1
        found, *new = model.run({"x": x.numpy(), **states})
        states = dict(zip([spec.name for spec in model.outputs[1:]], new))
        np.testing.assert_allclose(found, module(x, 16000).detach().numpy(), 1e-4, 1e-5)


def test_shapes_are_asked_for() -> None:
    module = scripted("return x + 1")
    with pytest.raises(ShapeError, match="pass input_shapes"):
        tilewright.compile(module, cache=False)
    with pytest.raises(ShapeError, match="no input named 'y'"):
        tilewright.compile(module, input_shapes={"y": (1,)}, cache=False)
    with pytest.raises(ShapeError, match="shape of numbers"):
        tilewright.compile(module, input_shapes={"x": ("n",)}, cache=False)


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(UnsupportedError, match="igamma"):
        tilewright.compile(scripted("return torch.igamma(x, x)"), (X,), cache=False)
    with pytest.raises(UnsupportedError, match="different types or shapes"):
        tilewright.compile(scripted("if bool(x.sum() > 0):\n  y = x\nelse:\n  y = x[0]\nreturn y"), (X,), cache=False)
    with pytest.raises(ModelError, match="raises an exception"):
        tilewright.compile(scripted("raise ValueError('no')\nreturn x"), (X,), cache=False)


def test_a_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.script(Net()).save(str(path))
    damaged = tmp_path / "damaged.pt"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(damaged, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            other.writestr(name, b"def 4" if name.endswith(".py") else data)
    with pytest.raises(ModelError):
        tilewright.compile(damaged, input_shapes={"x": (3, 4)}, cache=False)
