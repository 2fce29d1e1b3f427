"""PyTorch as the reference: outputs in the model's order, inner values by node, verified and bisected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright
from tilewright.cli.main import cli
from tilewright.errors import UnsupportedError
from tilewright.frontend.formats.table import frontend_of

torch = pytest.importorskip("torch", reason="needs the torch package")


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        self.seen.add_(x.sum(0))
        return torch.relu(self.linear(x - self.seen)) * scale


X = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")
FEED = {"x": X, "seen": np.ones(4, "float32")}


def test_outputs_are_those_of_the_compiled_program() -> None:
    program = torch.export.export(Counter(), (torch.from_numpy(X),))
    found = frontend_of(program).reference(program).open("torch", FEED, 1).run()
    wanted = tilewright.compile(program, cache=False).run(FEED)
    assert len(found) == len(wanted) == 2
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def test_inner_values_have_the_names_of_nodes() -> None:
    program = torch.export.export(Counter(), (torch.from_numpy(X),))
    reference = frontend_of(program).reference(program)
    names = [node.name for node in reference.nodes()]
    values = reference.values(FEED, names, "torch")
    assert "linear" in values and values["linear"].shape == (2, 3)
    for name, value in reference.values(FEED, names, "interpreter").items():
        np.testing.assert_allclose(values[name], value, 1e-5, 1e-6)
    with pytest.raises(UnsupportedError, match="no engine"):
        reference.open("tensorrt", FEED, 1)


@pytest.mark.parametrize("verb", ["verify", "bisect"])
def test_verbs_compare_with_pytorch(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Counter(), (torch.from_numpy(X),)), path)
    done = CliRunner().invoke(cli, [verb, str(path)])
    assert done.exit_code == 0, done.output
