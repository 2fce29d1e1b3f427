"""`torch.compile` with this package as its backend, against eager mode."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

from tilewright import torch_backend
from tilewright.torch_backend import CompiledGraph, FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)


def network() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))


def test_inference_agrees_with_eager_mode() -> None:
    module, x = network().eval(), torch.randn(4, 6)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = torch.compile(module, backend=tilewright)(x)
        torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)


def test_sizes_may_change() -> None:
    module = network().eval()
    compiled = torch.compile(module, backend=tilewright, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for rows in (3, 5, 9):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("numbers", [((8, 9), (7, 12), (20, 5)), ((2, -3), (-2, 3), (3, 4))], ids=str)
def test_integers_that_are_no_axis_of_a_tensor(numbers: Any) -> None:
    def grown(x: Any, rows: int, columns: int) -> Any:
        if rows < 5:  # negative ones are no sizes: such a call runs in PyTorch
            return x[..., rows:] * columns
        return torch.nn.functional.interpolate(x, size=(rows, columns), mode="bilinear") * rows + torch.zeros(columns)

    compiled, x = torch.compile(grown, backend=tilewright, dynamic=True), torch.randn(1, 2, 4, 6)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for rows, columns in numbers:
            torch.testing.assert_close(compiled(x, rows, columns), grown(x, rows, columns), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_exact_rounding_is_that_of_eager_mode(dtype: str) -> None:
    def chain(x: Any) -> Any:
        y = (x * 1.7 + x) / 3 - x
        return y * y - x.abs(), torch.isinf(y * y * 4000 * x), (y * x).float()

    x = (3 * torch.randn(4096)).to(getattr(torch, dtype))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found = torch.compile(chain, backend=tilewright, options={"exact_rounding": True})(x)
        for ours, eager in zip(found, chain(x), strict=True):
            assert torch.equal(ours, eager)


@pytest.mark.parametrize("way", ["in place", "through .data", "another tensor", "by load_state_dict"])
def test_changed_weights_are_seen(way: str) -> None:
    module, x = network().eval(), torch.randn(4, 6)
    compiled = torch.compile(module, backend=tilewright)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compiled(x)
        for _ in range(3):
            if way == "in place":
                module[0].weight.mul_(1.5)
            elif way == "through .data":
                module[0].weight.data.mul_(1.5)
            elif way == "another tensor":
                module[3].bias.data = torch.randn(3)
            else:
                module.load_state_dict(network().state_dict())
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


def test_weights_become_constants_again_when_they_stay() -> None:
    graphs: list[CompiledGraph] = []

    class Recorded(CompiledGraph):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            graphs.append(self)

    module, x = network().eval(), torch.randn(4, 6)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch_backend, "CompiledGraph", Recorded)
        patch.setattr(torch_backend, "_PATIENCE", 2)
        compiled = torch.compile(module, backend=tilewright)
        compiled(x)
        (graph,) = graphs
        assert graph.frozen
        module[0].weight.mul_(2)
        for _ in range(2):
            compiled(x)
            assert not graph.frozen
        compiled(x)
        assert graph.frozen
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)


def test_options_are_checked() -> None:
    module, x = network().eval(), torch.randn(4, 6)
    with torch.no_grad():
        found = torch.compile(module, backend=tilewright, options={"freezing": False, "threads": 1})(x)
        torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)
        with pytest.raises(Exception, match="no option 'speed'; its options are: freezing, threads, strict, checks"):
            torch.compile(module, backend=tilewright, options={"speed": 1})(x)


def test_an_unsupported_graph_runs_in_torch_with_a_warning() -> None:
    x = torch.randn(4, 4)
    with pytest.warns(FallbackWarning, match="igamma"):
        found = torch.compile(lambda x: torch.igamma(x.abs(), x.abs()) + 1, backend=tilewright)(x)
    torch.testing.assert_close(found, torch.igamma(x.abs(), x.abs()) + 1)


def test_training_gives_the_same_gradients() -> None:
    module, x = network(), torch.randn(4, 6)
    wanted = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    compiled = torch.compile(module, backend=tilewright)
    found = torch.autograd.grad(compiled(x).square().sum(), list(module.parameters()))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_training_step_gives_the_same_weights() -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(8 * 16, 5),
    )  # fmt: skip
    other = copy.deepcopy(module)
    x, labels = torch.randn(4, 3, 8, 8), torch.tensor([0, 3, 1, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for one, run in ((module, module), (other, torch.compile(other, backend=tilewright))):
            optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
            torch.nn.functional.cross_entropy(run(x), labels).backward()
            optimizer.step()
    for wanted, found in zip(module.state_dict().values(), other.state_dict().values()):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_networks_of_16_bit_floats_agree_with_eager_mode(dtype: Any, training: bool) -> None:
    module = network().to(dtype).train(training)
    other, x = copy.deepcopy(module), torch.randn(4, 6).to(dtype)
    with torch.set_grad_enabled(training), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        found, wanted = torch.compile(module, backend=tilewright)(x), other(x)
        torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)
        if training:
            found.float().sum().backward()
            wanted.float().sum().backward()
            for one, two in zip(module.parameters(), other.parameters()):
                torch.testing.assert_close(one.grad, two.grad, rtol=0.1, atol=0.1)


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@pytest.mark.filterwarnings("error::tilewright.torch_backend.FallbackWarning")
def test_heads_that_share_keys() -> None:
    """PyTorch leaves it to its kernel to repeat them."""
    module = Function(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    run = torch.compile(module, backend=tilewright)
    given = [torch.randn(2, heads, steps, 8, requires_grad=True) for heads, steps in ((4, 3), (2, 5), (2, 5))]
    with torch.no_grad():
        torch.testing.assert_close(run(*given), module(*given))
    wanted = torch.autograd.grad(module(*given).square().sum(), given)
    found = torch.autograd.grad(run(*given).square().sum(), given)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("error::tilewright.torch_backend.FallbackWarning")
def test_quotients_of_sizes() -> None:
    def resized(x: Any) -> Any:
        wide = torch.nn.functional.interpolate(x, size=(2 * x.shape[2] + 1, 11), mode="bilinear")
        return wide * (x.shape[3] / x.shape[2])

    run = torch.compile(resized, backend=tilewright, dynamic=True)
    with torch.no_grad():
        for height, width in ((5, 6), (7, 9)):
            x = torch.randn(1, 2, height, width)
            torch.testing.assert_close(run(x), resized(x), rtol=1e-4, atol=1e-5)


POOLS = {
    "maxima": torch.nn.MaxPool2d(3, 2, padding=1),
    "maxima, rounded up": torch.nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
    "means": torch.nn.AvgPool2d(3, 2, padding=1),
    "means of the data": torch.nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    "means, rounded up": torch.nn.AvgPool2d(3, 2, padding=1, ceil_mode=True),
    "means of the data, rounded up": torch.nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False),
    "means by a divisor": torch.nn.AvgPool2d(3, 2, padding=1, divisor_override=5),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling_of_planes_of_open_size(name: str) -> None:
    pool = POOLS[name]
    compiled = torch.compile(pool, backend=tilewright, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for rows, columns in ((9, 12), (8, 7), (14, 15)):
            x = torch.randn(2, 3, rows, columns)
            torch.testing.assert_close(compiled(x), pool(x))


def test_gradients_of_maxima_in_batches_of_open_size() -> None:
    pool = torch.nn.MaxPool2d(2)
    compiled = torch.compile(pool, backend=tilewright)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for batch in (2, 3, 5):
            x = torch.randn(batch, 3, 6, 6)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            wanted, found = x.clone().requires_grad_(), x.clone().requires_grad_()
            pool(wanted).square().sum().backward()
            compiled(found).square().sum().backward()
            torch.testing.assert_close(found.grad, wanted.grad)


def _of_an_input(x: Any) -> Any:
    return x.permute(0, 2, 1, 3).reshape(-1, x.shape[1], x.shape[3])


def _of_an_input_and_a_result(x: Any) -> Any:
    y = x + 1
    return y, y.transpose(1, 2), x[:, 1:], y.reshape(-1, x.shape[3])[2:]


def _of_what_is_no_output(x: Any) -> Any:
    y = x.transpose(1, 2) * 2
    return y.transpose(1, 3)[..., 1:], y


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("views", [_of_an_input, _of_an_input_and_a_result, _of_what_is_no_output])
def test_outputs_that_are_views(views: Any, dynamic: bool) -> None:
    """PyTorch views the input or the result again by the strides of what the backend returns."""
    compiled = torch.compile(views, backend=tilewright, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        for shape in ((1, 4, 4, 8), (1, 3, 5, 8), (2, 3, 5, 8)):
            x = torch.randn(*shape)
            torch.testing.assert_close(compiled(x), views(x))


def test_a_view_of_an_input_may_be_written_to() -> None:
    def first(x: Any) -> Any:
        return x.t()[0]

    x = torch.zeros(3, 2)
    torch.compile(first, backend=tilewright, dynamic=True)(x).fill_(1)
    assert x[:, 0].tolist() == [1, 1, 1] and x[:, 1].tolist() == [0, 0, 0]
