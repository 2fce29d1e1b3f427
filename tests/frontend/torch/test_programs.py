"""Exported programs against eager PyTorch: operators by family, names, buffers, sizes, files, and what is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret

torch = pytest.importorskip("torch", reason="needs the torch package")
functional = torch.nn.functional


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def check(module: Any, *tensors: Any) -> Any:
    """The imported module, whose outputs agree with those of eager mode."""
    module = module if isinstance(module, torch.nn.Module) else Call(module)
    with torch.no_grad():
        expected = [leaf for leaf in torch.utils._pytree.tree_leaves(module(*tensors)) if leaf is not None]
        imported, _ = from_pytorch(torch.export.export(module, tensors, strict=False))
    found = interpret(imported, [tensor.numpy() for tensor in tensors])
    assert len(found) == len(expected)
    for value, right in zip(found, expected):
        assert value.dtype == right.numpy().dtype
        np.testing.assert_allclose(value, right.numpy(), 1e-5, 1e-5)
    return imported


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 4, 7, 9, generator=torch.Generator().manual_seed(1))

CASES = {
    "integers divide truly": lambda x: torch.arange(1, 5) / 3 + x,
    "floor_divide": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "python scalars promote": lambda x: (x.to(torch.int32) * 2 + 1.5, x.to(torch.int32) + True, (x > 0) + 1),
    "comparison of types": lambda x: x.to(torch.int64) < 0.5,
    "remainder": lambda x: (torch.remainder(x, -0.7), torch.fmod(x, 0.7)),
    "atan2": lambda x: torch.atan2(x, x.flip(1)),
    "clamp": lambda x: x.clamp(min=-0.5),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "gelu": lambda x: (functional.gelu(x), functional.gelu(x, approximate="tanh")),
    "softplus": lambda x: functional.softplus(x, beta=2.0),
    "variance": lambda x: (x.var(1), x.std(0, correction=0, keepdim=True)),
    "extrema": lambda x: (x.max(1).values, x.argmin(), x.amax((0, 1))),
    "cumulative": lambda x: (x.cumsum(0), x.cummax(1).values),
    "matmul": lambda x: (x @ x.T, x[0] @ x.T, torch.einsum("ij,kj->ik", x, x)),
    "addmm": lambda x: torch.addmm(x[:, :3], x, x.T, beta=0.5, alpha=2.0),
    "baddbmm": lambda x: torch.baddbmm(x[None, :, :3], x[None], x.T[None]),
    "indices": lambda x: (x[:, [0, -1]], x[[0, 2], [1, 3]], x.index_select(1, torch.tensor([3, 0]))),
    "index_put": lambda x: x.index_put((torch.tensor([0, 2]),), torch.ones(4), accumulate=True),
    "scatter": lambda x: x.scatter_reduce(1, torch.tensor([[0, 0, 1, 2]]), x, "amax", include_self=False),
    "slices": lambda x: (x[1:, ::2], x[-1], x.narrow(1, 1, 2), x.unfold(1, 2, 1)),
    "shapes": lambda x: (x.view(2, -1).unsqueeze(0), x.expand(2, 3, 4), x.repeat(2, 1), x.roll(1, 0)),
    "diagonals": lambda x: (x.diagonal(1), torch.diag_embed(x), x.tril(-1)),
    "joined": lambda x: (torch.cat([x, x], 1), torch.stack([x, x], -1), *x.split(2, 1)),
    "in place": lambda x: x.clone().mul_(2).add_(x),
    "sorted": lambda x: (x.sort(1, descending=True), x.topk(2), x.median()),
    "norms": lambda x: (x.norm(), torch.linalg.vector_norm(x, 3, 1)),
    "losses": lambda x: (functional.mse_loss(x, x + 1), functional.cross_entropy(x, torch.tensor([0, 3, 1]))),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "differences": lambda x: (x.diff(), x.diff(n=2, dim=0, prepend=x[:1], append=x), x.diff(n=0, prepend=x)),
    "cosines": lambda x: (functional.cosine_similarity(x, x.flip(0)), torch.cosine_similarity(x[0, 0], x[1, 1], 0)),
    "cut and wrapped": lambda x: functional.pad(x[None, None], (-1, 1, -2, 1), "circular"),
    "no samples": lambda x: functional.avg_pool1d(x[:0, None], 2, padding=1),
    "batch norm with nothing saved": lambda x: torch.native_batch_norm(
        x, x[0], x[1], x[2], x[0].abs(), False, 0.1, 1e-5
    ),
    "bilinear by parts": lambda x: torch.ops.aten._trilinear(x, x.T @ x + x[:, None], x, [1, 3], [0], [1, 2], [2, 3]),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([0], [0])),
}

PLANES = {
    "max_pool with ceil": lambda x: functional.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool indices": lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True),
    "avg_pool": lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "adaptive": lambda x: (functional.adaptive_avg_pool2d(x, (3, 2)), functional.adaptive_max_pool2d(x, 2)),
    "resized": lambda x: functional.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "nearest": lambda x: functional.interpolate(x, size=(5, 13)),
    "bicubic": lambda x: functional.interpolate(x, size=(5, 13), mode="bicubic", align_corners=True),
    "padded": lambda x: (functional.pad(x, (1, 2)), functional.pad(x, (1, 2, 0, 3), mode="reflect")),
    "unfold": lambda x: functional.unfold(x, 3, stride=2, padding=1),
    "group_norm": lambda x: functional.group_norm(x, 2),
    "conv same": lambda x: functional.conv2d(x, torch.ones(2, 2, 2, 3), groups=2, padding="same"),
    "conv_transpose": lambda x: functional.conv_transpose2d(x, torch.ones(4, 2, 3, 3), stride=2, output_padding=1),
    "grid_sample": lambda x: [
        functional.grid_sample(x, x.reshape(2, 7, -1, 2) * 1.5, mode, padding, corners)
        for mode, padding, corners in (
            ("bilinear", "reflection", True),
            ("bicubic", "zeros", False),
            ("bicubic", "border", False),
            ("bicubic", "reflection", True),
            ("bicubic", "reflection", False),
        )
    ],
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_of_matrices(name: str) -> None:
    check(CASES[name], X)


@pytest.mark.parametrize("name", PLANES)
def test_operators_of_planes(name: str) -> None:
    check(PLANES[name], IMAGE)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_stay_whole(kind: str) -> None:
    layer = getattr(torch.nn, kind)(4, 5, num_layers=2, bidirectional=True, batch_first=True).eval()
    text = str(check(layer, X.reshape(1, 3, 4)))
    assert text.count(f"nn.{kind.lower()}(") == 2
    check(layer.double(), X.double().reshape(1, 3, 4))


def test_a_network_compiles() -> None:
    network = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(280, 3)
    ).eval()
    model = tilewright.compile(torch.export.export(network, (IMAGE,)), cache=False)
    np.testing.assert_allclose(model(IMAGE.numpy()), network(IMAGE).detach().numpy(), 1e-4, 1e-5)


def test_nested_inputs_and_outputs_have_names() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: Any, more: dict[str, Any], scale: float = 2.0) -> Any:
            return {"sum": x + more["y"], "rest": [x * scale, x.shape[0], None]}

    module, specs = from_pytorch(torch.export.export(Nested(), (X, {"y": X})))
    assert [spec.name for spec in specs] == ["x", "more_y"]
    assert module["main"].attrs["output_names"] == ("add", "mul")


def test_nodes_keep_their_names() -> None:
    text = str(from_pytorch(torch.export.export(Call(lambda x: torch.relu(x).sum()), (X,)))[0]["main"].body.span)
    assert "sum" in text


def test_a_buffer_that_changes_is_an_input_and_an_output() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x.sum(0))
            return x - self.seen

    module, specs = from_pytorch(torch.export.export(Counter(), (X,)))
    assert [spec.name for spec in specs] == ["x", "seen"]
    assert module["main"].attrs["output_names"][1] == "seen"
    first, seen = interpret(module, [X.numpy(), np.ones(4, np.float32)])
    np.testing.assert_allclose(seen, 1 + X.sum(0).numpy(), 1e-5)
    np.testing.assert_allclose(first, X.numpy() - seen, 1e-5)


def test_an_input_that_changes_is_an_output_too() -> None:
    program = torch.export.export(Call(lambda x: x.add_(1) * 2), (X.clone(),))
    module, (spec,) = from_pytorch(program)
    assert module["main"].attrs["output_names"][1] == spec.name
    twice, new = interpret(module, [X.numpy()])
    np.testing.assert_array_equal(new, X.numpy() + 1)
    np.testing.assert_array_equal(twice, new * 2)


def dynamic() -> Any:
    module = Call(lambda x: (x.reshape(-1) * x.shape[0], x[1:].sum(0), torch.cat([x, x])))
    return torch.export.export(module, (X,), dynamic_shapes=(({0: torch.export.Dim("rows", min=3)},),))


def test_sizes_stay_open() -> None:
    module, (spec,) = from_pytorch(dynamic())
    assert not isinstance(spec.shape[0], int) and spec.shape[1] == 4
    data = np.arange(20, dtype=np.float32).reshape(5, 4)
    flat, rest, twice = tilewright.compile(module, cache=False)(data)
    np.testing.assert_array_equal(flat, data.reshape(-1) * 5)
    np.testing.assert_array_equal(rest, data[1:].sum(0))
    np.testing.assert_array_equal(twice, np.concatenate([data, data]))


def test_sizes_are_fixed_by_name() -> None:
    program = dynamic()
    name = from_pytorch(program)[1][0].name
    assert from_pytorch(program, {name: (6, 4)})[1][0].shape == (6, 4)
    with pytest.raises(ShapeError):
        from_pytorch(program, {name: (6, 5)})


def test_all_unsupported_operators_are_listed() -> None:
    program = torch.export.export(Call(lambda x: torch.linalg.ldl_factor(x)[0] + torch.igamma(x, x)), (X[:, :3],))
    with pytest.raises(UnsupportedError) as caught:
        from_pytorch(program)
    assert "ldl_factor" in str(caught.value) and "igamma" in str(caught.value) and "first" in str(caught.value)


def test_files_that_are_no_programs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    torch.export.save(torch.export.export(Call(torch.relu), (X,)), tmp_path / "model.pt2")
    (tmp_path / "model.pt2").rename(path)
    model = tilewright.compile(path, cache=False)
    np.testing.assert_array_equal(model(X.numpy()), np.maximum(X.numpy(), 0))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ModelError):
        from_pytorch(path)


def test_pickled_modules_are_never_read(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(ModelError, match="never read"):
        from_pytorch(tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ModelError):
        from_pytorch(tmp_path / "other.zip")


def test_a_module_compiles_by_examples() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()
    for given in ((X,), X, {"input": X}):
        np.testing.assert_allclose(
            tilewright.compile(network, given, cache=False)(X.numpy()), network(X).detach().numpy(), 1e-5, 1e-5
        )
    open_rows = tilewright.compile(network, (X,), input_shapes={"input": ("rows", 4)}, cache=False)
    np.testing.assert_allclose(open_rows(X[:2].numpy()), network(X[:2]).detach().numpy(), 1e-5, 1e-5)


def test_examples_that_do_not_fit() -> None:
    network = torch.nn.Linear(4, 8)
    with pytest.raises(UnsupportedError, match="pass example inputs"):
        tilewright.compile(network)
    with pytest.raises(UnsupportedError, match="cannot make a program of this Linear"):
        tilewright.compile(network, (X.T,))
    with pytest.raises(ShapeError, match="no tensor input named 'y'"):
        tilewright.compile(network, (X,), input_shapes={"y": ("n", 4)})
    with pytest.raises(ShapeError, match="has the shape"):
        tilewright.compile(network, (X,), input_shapes={"input": ("n", 5)})
    with pytest.raises(UnsupportedError, match="example inputs are for"):
        tilewright.compile(torch.export.export(network, (X,)), (X,))


def test_branches_and_loops_stay() -> None:
    def choose(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x * 2, x.sum(0)), lambda x: (x - 1, x.amax(0)), (x,))

    def repeat(x: Any) -> Any:
        count = torch.zeros((), dtype=torch.int64)
        return torch.while_loop(lambda i, y: (i < 5) & (y.sum() < 9), lambda i, y: (i + 1, y * 1.5), (count, x.abs()))

    for function in (choose, repeat):
        program = torch.export.export(Call(function), (X,))
        model = tilewright.compile(program, cache=False)
        for data in (X, -X):
            for found, wanted in zip(model.run({model.inputs[0].name: data.numpy()}), function(data)):
                np.testing.assert_allclose(found, wanted.numpy(), 1e-5, 1e-5)
